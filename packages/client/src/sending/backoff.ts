/** How long to wait before the next try: by chance between nothing and a bound that doubles ("full jitter"). */
export interface Backoff {
  readonly firstMs: number;
  readonly longestMs: number;
}

export const BACKOFF: Backoff = { firstMs: 200, longestMs: 30_000 };

/** @param attempt 1 after the first failure. */
export function pauseAfter(attempt: number, { firstMs, longestMs }: Backoff): number {
  return Math.random() * Math.min(longestMs, firstMs * 2 ** (attempt - 1));
}
