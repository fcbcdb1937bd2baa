/** Rate limits as an operator writes them: `100/s`, or `100/s:500` with a burst of 500 events. */
import type { RateLimit } from '../store/key-store.js';

const RATE_LIMIT = /^(\d{1,7}(?:\.\d{1,3})?)\/s(?::(\d{1,7}))?$/;

/**
 * @returns the limit, or undefined when the text is none. Without a burst, the bucket holds one second's events.
 */
export function parseRateLimit(text: string): RateLimit | undefined {
  const [, rate, burst] = RATE_LIMIT.exec(text) ?? [];
  if (rate === undefined) return undefined;
  const perSecond = Number(rate);
  const limit = { perSecond, burst: burst === undefined ? Math.max(1, Math.ceil(perSecond)) : Number(burst) };
  return limit.perSecond > 0 && limit.burst >= 1 ? limit : undefined;
}

/** The text that {@link parseRateLimit} reads back as the same limit. */
export function formatRateLimit({ perSecond, burst }: RateLimit): string {
  return `${perSecond}/s:${burst}`;
}
