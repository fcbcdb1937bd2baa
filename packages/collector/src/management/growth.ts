/** How fast the ledger grows, and so when the disk is full. */

/** So many looks are kept, a minute apart: a day, so that a night does not look like the end of all growth. */
const KEPT = 24 * 60;
const EVERY_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Below this a burst would pass for a day's work. */
const SHORTEST_MS = 10 * 60_000;
/** What an event takes beside its frame: some 33 bytes in the tree, and an entry in the id index. */
const DERIVED_BYTES = 64;

interface Look {
  readonly at: number;
  readonly events: number;
  readonly bytes: number;
}

export interface Growth {
  /** How long the growth was watched, in milliseconds: at most a day. */
  readonly watchedMs: number;
  /** Events and bytes of frames an hour, over that time; undefined until it is ten minutes. */
  readonly eventsPerHour: number | undefined;
  readonly bytesPerHour: number | undefined;
  /** Bytes on the disk a day, with the index and the tree. */
  readonly diskBytesPerDay: number | undefined;
}

export class GrowthWatch {
  #looks: Look[] = [];

  /** Keeps a look when the last kept one is a minute old. @param at a monotonic clock, milliseconds. */
  note(look: Look): void {
    const last = this.#looks.at(-1);
    if (last !== undefined && look.at - last.at < EVERY_MS) return;
    this.#looks.push(look);
    if (this.#looks.length > KEPT) this.#looks.shift();
  }

  /** @param now what the ledger holds now. */
  growth(now: Look): Growth {
    const first = this.#looks[0] ?? now;
    const watchedMs = now.at - first.at;
    if (watchedMs < SHORTEST_MS)
      return { watchedMs, eventsPerHour: undefined, bytesPerHour: undefined, diskBytesPerDay: undefined };
    const events = (now.events - first.events) / watchedMs;
    const bytes = (now.bytes - first.bytes) / watchedMs;
    return {
      watchedMs,
      eventsPerHour: events * HOUR_MS,
      bytesPerHour: bytes * HOUR_MS,
      diskBytesPerDay: (bytes + events * DERIVED_BYTES) * DAY_MS,
    };
  }
}

/** @returns undefined when that cannot be told, Infinity when nothing grows. */
export function daysUntilFull({ diskBytesPerDay }: Growth, freeBytes: number): number | undefined {
  if (diskBytesPerDay === undefined) return undefined;
  return diskBytesPerDay <= 0 ? Infinity : freeBytes / diskBytesPerDay;
}
