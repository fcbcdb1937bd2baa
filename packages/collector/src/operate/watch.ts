/** The listener's memory between snapshots: the last five minutes, and the growth of the ledger. */
import { acceptedEvents, refusedRequests } from '../ingest/ingest-counters.js';
import { quantile, TIME_BOUNDS_MS } from '../numbers.js';
import type { Snapshot } from './snapshot.js';

/* The last five minutes by second: the number of events, and the time of an acknowledgement. */

/** The changes between two snapshots, about a second apart. */
export interface Sample {
  /** When it ended, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** Its length in milliseconds: a busy thread samples late. */
  readonly ms: number;
  readonly accepted: number;
  readonly refused: number;
  /** Milliseconds to the acknowledgement; null when nothing was acknowledged. */
  readonly p50: number | null;
  readonly p99: number | null;
}

const KEPT_SECONDS = 300;

export class Samples {
  readonly #ring: Sample[] = [];
  #next = 0;
  #accepted = 0;
  #refused = 0;
  #latencies: ArrayLike<number> = [];
  #lookedAt: number;

  /** @param monotonicMs now; the first sample begins here. */
  constructor(monotonicMs: number) {
    this.#lookedAt = monotonicMs;
  }

  /** Ends a sample and begins the next. */
  take({ now, monotonic, ingest }: Pick<Snapshot, 'now' | 'monotonic' | 'ingest'>): void {
    const accepted = total(acceptedEvents(ingest));
    const refused = total(refusedRequests(ingest));
    const { counts } = ingest.latencies;
    const since = counts.map((count, i) => count - (this.#latencies[i] ?? 0));
    this.#ring[this.#next] = {
      at: now,
      ms: monotonic - this.#lookedAt,
      accepted: accepted - this.#accepted,
      refused: refused - this.#refused,
      p50: quantile(TIME_BOUNDS_MS, since, 0.5) ?? null,
      p99: quantile(TIME_BOUNDS_MS, since, 0.99) ?? null,
    };
    this.#next = (this.#next + 1) % KEPT_SECONDS;
    this.#accepted = accepted;
    this.#refused = refused;
    this.#latencies = counts;
    this.#lookedAt = monotonic;
  }

  /** The samples, oldest first. */
  list(): Sample[] {
    return [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
  }

  /** Per second, over the newest samples that together span this many milliseconds, or over all. */
  rates(overMs: number): { readonly accepted: number; readonly refused: number } {
    let ms = 0;
    let accepted = 0;
    let refused = 0;
    for (const sample of this.list().reverse()) {
      ms += sample.ms;
      accepted += sample.accepted;
      refused += sample.refused;
      if (ms >= overMs) break;
    }
    return ms === 0
      ? { accepted: 0, refused: 0 }
      : { accepted: (accepted * 1000) / ms, refused: (refused * 1000) / ms };
  }
}

function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/*
 * The growth of the ledger, from which the disk forecast is made. Only continuing growth counts: growth in
 * each of the last twelve hours, or on most of the last days. So an import of past events is excluded, a
 * quiet night does not end the growth, and a new collector that fills its disk within days gets a forecast
 * after half a day.
 */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How often a reading is kept, and for how long. */
const LOOK_EVERY_MS = 10 * 60_000;
const KEPT_MS = 7 * DAY_MS;
/** A rate over a shorter time means little. */
const SHORTEST_MS = 10 * 60_000;
const STEADY_HOURS = 12;
const LEAST_DAYS = 3;
/** Bytes per event besides its frame: some 33 in the tree, and an entry of the id index. */
const DERIVED_BYTES = 64;

interface Look {
  /** A monotonic clock, milliseconds. */
  readonly at: number;
  readonly events: number;
  readonly bytes: number;
}

export interface Growth {
  /** How long the growth was observed, in milliseconds: at most a day. */
  readonly watchedMs: number;
  /** Events and bytes of frames per hour over that time; undefined until it is ten minutes. */
  readonly eventsPerHour: number | undefined;
  readonly bytesPerHour: number | undefined;
  /** Bytes on the disk per day, index and tree included, of continuing growth; undefined while unknown. */
  readonly steadyBytesPerDay: number | undefined;
  /** Milliseconds until the forecast is known; undefined when it is. */
  readonly steadyKnownInMs: number | undefined;
}

export class GrowthWatch {
  #looks: Look[] = [];

  /** Keeps a reading when the last kept one is ten minutes old. */
  note(look: Look): void {
    const last = this.#looks.at(-1);
    if (last !== undefined && look.at - last.at < LOOK_EVERY_MS) return;
    this.#looks.push(look);
    // The last reading before the week is kept: it gives the size at the beginning of the week.
    while ((this.#looks[1]?.at ?? Infinity) <= look.at - KEPT_MS) this.#looks.shift();
  }

  /** @param now the current size of the ledger. */
  growth(now: Look): Growth {
    const watched = now.at - (this.#looks[0] ?? now).at;
    const watchedMs = Math.min(watched, DAY_MS);
    const steady = this.#steadyBytesPerDay(now, watched);
    const known = {
      watchedMs,
      steadyBytesPerDay: steady,
      steadyKnownInMs: steady === undefined ? knownIn(watched) : undefined,
    };
    if (watchedMs < SHORTEST_MS) return { ...known, eventsPerHour: undefined, bytesPerHour: undefined };
    const first = this.#at(now.at - watchedMs, now);
    return {
      ...known,
      eventsPerHour: ((now.events - first.events) / watchedMs) * HOUR_MS,
      bytesPerHour: ((now.bytes - first.bytes) / watchedMs) * HOUR_MS,
    };
  }

  #steadyBytesPerDay(now: Look, watched: number): number | undefined {
    if (watched < STEADY_HOURS * HOUR_MS) return undefined;
    const slowestHour = Math.min(...this.#grown(now, STEADY_HOURS, HOUR_MS)) * (DAY_MS / HOUR_MS);
    const days = Math.floor(Math.min(watched, KEPT_MS) / DAY_MS);
    if (days < LEAST_DAYS) return slowestHour > 0 ? slowestHour : undefined;
    const sorted = this.#grown(now, days, DAY_MS).sort((a, b) => a - b);
    // On more than half of the days the ledger grew at least this much. A weekend is two quiet days of seven.
    return Math.max(slowestHour, sorted[Math.floor(days / 2) - 1] ?? 0);
  }

  /** The growth on the disk in each of the last periods, in bytes. */
  #grown(now: Look, stretches: number, ms: number): number[] {
    const sizes = Array.from({ length: stretches + 1 }, (_, i) => {
      const { bytes, events } = this.#at(now.at - i * ms, now);
      return bytes + events * DERIVED_BYTES;
    });
    return sizes.slice(1).map((size, i) => (sizes[i] ?? 0) - size);
  }

  /** The size of the ledger at a time, interpolated between two readings. */
  #at(time: number, now: Look): Look {
    const next = this.#looks.findIndex(({ at }) => at > time);
    const after = this.#looks[next] ?? now;
    const before = this.#looks.at(next === -1 ? -1 : Math.max(0, next - 1)) ?? after;
    const part =
      after.at > before.at ? Math.min(1, Math.max(0, (time - before.at) / (after.at - before.at))) : 0;
    const between = (a: number, b: number) => a + (b - a) * part;
    return {
      at: time,
      events: between(before.events, after.events),
      bytes: between(before.bytes, after.bytes),
    };
  }
}

/** Hourly growth is known after twelve hours, daily growth after three days. */
function knownIn(watched: number): number {
  const hours = STEADY_HOURS * HOUR_MS;
  return (watched < hours ? hours : LEAST_DAYS * DAY_MS) - watched;
}

/** @returns undefined while unknown, Infinity when nothing grows steadily. */
export function daysUntilFull({ steadyBytesPerDay }: Growth, freeBytes: number): number | undefined {
  if (steadyBytesPerDay === undefined) return undefined;
  return steadyBytesPerDay <= 0 ? Infinity : freeBytes / steadyBytesPerDay;
}

/** Receives a snapshot every second. */
export class Watch {
  readonly samples: Samples;
  readonly #growth = new GrowthWatch();

  constructor({ monotonic }: Snapshot) {
    this.samples = new Samples(monotonic);
  }

  note(snapshot: Snapshot): void {
    this.samples.take(snapshot);
    // Readings while the ledger is being opened are 0; later ones would look like growth.
    if (snapshot.phase === 'running') this.#growth.note(lookOf(snapshot));
  }

  growth(now: Snapshot): Growth {
    return this.#growth.growth(lookOf(now));
  }

  daysUntilFull(now: Snapshot): number | undefined {
    return now.disk && daysUntilFull(this.growth(now), now.disk.freeBytes);
  }
}

function lookOf({ monotonic: at, ledger: { events, bytes } }: Snapshot): Look {
  return { at, events, bytes };
}
