/** Told of what went wrong and that no call could report. Must not throw. */
export type OnTrouble = (what: string, error: unknown) => void;

const SILENCE_MS = 60_000;

/**
 * Tells the same thing once a minute at most: what is tried again and again fails again and again. An error of the
 * callback goes nowhere, because here it would break what has to go on.
 */
export function seldom(tell: OnTrouble): OnTrouble {
  const told = new Map<string, number>();
  return (what, error) => {
    const now = performance.now();
    if (now - (told.get(what) ?? -Infinity) < SILENCE_MS) return;
    for (const [old, at] of told) if (now - at >= SILENCE_MS) told.delete(old);
    told.set(what, now);
    try {
      tell(what, error);
    } catch {
      // Said above.
    }
  };
}
