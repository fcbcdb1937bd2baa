/** Which keys are told of, when there are too many for all. */
import type { KeyUse } from '../access/key-ring.js';

/** More lines would help nobody, and would cost the monitoring system more than all other metrics. */
export const MOST_KEYS = 1000;

/** Those that can be used before those that cannot, each in the order of creation; at most {@link MOST_KEYS}. */
export function shownKeys(uses: Iterable<KeyUse>, now: number): KeyUse[] {
  const all = [...uses];
  const usable = all.filter(({ key }) => isUsable(key, now));
  if (usable.length >= MOST_KEYS) return usable.slice(0, MOST_KEYS);
  const others = all.filter(({ key }) => !isUsable(key, now));
  return [...usable, ...others.slice(-(MOST_KEYS - usable.length))];
}

export function isUsable({ revokedAt, expiresAt }: KeyUse['key'], now: number): boolean {
  return revokedAt === undefined && (expiresAt === undefined || now < expiresAt);
}
