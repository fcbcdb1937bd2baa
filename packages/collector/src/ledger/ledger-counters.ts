/**
 * The counters of the ledger's thread, in memory that the main thread reads on demand.
 *
 * One writer, any number of readers. Each word has 64 bits and is read and written atomically; two words may
 * differ by a batch. Every call is one per batch, never one per event.
 */
import type { Outcome, SharedGauges } from '../store/contract/events.js';
import {
  bucketOf,
  counter,
  type Declared,
  DELAY_BOUNDS_MS,
  DELAYS,
  gauge,
  histogram,
  seconds,
  SIZE_BOUNDS,
  SIZES,
  TIME_BOUNDS_MS,
  TIMES,
  within,
} from '../numbers.js';

const OUTCOMES = [
  'accepted',
  'duplicate',
  'conflict',
  'unreadable',
  'erased',
] as const satisfies readonly Outcome[];
/** The results of an event that are not outcomes of the store. */
const FAILURES = ['faulty', 'notCommitted', 'unknown'] as const;

/** The result of an event in the ledger's thread. `faulty`: refused by its examination. */
type EventOutcome = (typeof OUTCOMES)[number] | (typeof FAILURES)[number];
const EVENT_OUTCOMES: readonly EventOutcome[] = [...OUTCOMES, ...FAILURES];

const EVENTS = 0;
const BYTES = 1;
const BATCHES_EVENTS = 2;
const FLUSH_NANOSECONDS = 3;
const ENTRIES = 4;
const FIRST_OUTCOME = 5;
const FIRST_SIZE = FIRST_OUTCOME + EVENT_OUTCOMES.length;
const FIRST_TIME = FIRST_SIZE + SIZE_BOUNDS.length + 1;
const MERGE_NANOSECONDS = FIRST_TIME + TIME_BOUNDS_MS.length + 1;
const FIRST_MERGE = MERGE_NANOSECONDS + 1;
const IS_SHARED = FIRST_MERGE + DELAY_BOUNDS_MS.length + 1;
const [WAITING, OLDEST_MS, MONTHS, REPLICATION, STALLED_MS] = [
  IS_SHARED + 1,
  IS_SHARED + 2,
  IS_SHARED + 3,
  IS_SHARED + 4,
  IS_SHARED + 5,
];
const WORDS = STALLED_MS + 1;
/** Values of the word `REPLICATION`; 0 when no replication is required. */
const [REPLICATED, NOT_REPLICATED] = [1n, 2n];

/** Counts since the start; the first three since the ledger began. */
export interface LedgerCounts {
  /** Events in the log. */
  readonly events: number;
  /** Events and the log's own entries. */
  readonly entries: number;
  /** Bytes of frames in the log. */
  readonly bytes: number;
  readonly outcomes: Readonly<Record<EventOutcome, number>>;
  /** Events taken from the queue together: one count per bucket of {@link SIZE_BOUNDS}, and their sum. */
  readonly batches: { readonly counts: readonly number[]; readonly sum: number };
  /**
   * Flushes of batches to the disk, or commits to a database: one count per bucket of {@link TIME_BOUNDS_MS},
   * and their sum in milliseconds.
   */
  readonly flushes: { readonly counts: readonly number[]; readonly sum: number };
  /** Present for a log with several writing collectors. */
  readonly shared: SharedCounts | undefined;
}

/** The state of a log in a database, and this collector's work for it. */
export interface SharedCounts {
  /** Whether the last stored batch is known to be replicated; undefined when that is not required. */
  readonly replicated: boolean | undefined;
  /**
   * For all collectors: batches without a place in the log, and the age of the oldest in milliseconds, or 0.
   */
  readonly waiting: { readonly batches: number; readonly oldestMs: number };
  /** The age of the oldest batch while places cannot be assigned, in milliseconds; 0 while they can. */
  readonly stalledMs: number;
  /** The number of coming months that have their tables. */
  readonly months: number;
  /**
   * The time from the commit of a batch to the checkpoint over it, for batches that this collector gave their
   * places: one count per bucket of {@link DELAY_BOUNDS_MS}, and their sum in milliseconds.
   */
  readonly merges: LedgerCounts['flushes'];
}

export class LedgerCounters implements SharedGauges {
  readonly #words: BigInt64Array;
  readonly #tally = new Int32Array(OUTCOMES.length);

  /** @param memory from {@link createCounterMemory}, the same in both threads. */
  constructor(memory: SharedArrayBuffer) {
    this.#words = new BigInt64Array(memory);
  }

  /** A batch was taken from the queue: its number of events, and how many of them were faulty. */
  taken(events: number, faulty: number): void {
    this.#add(FIRST_SIZE + bucketOf(SIZE_BOUNDS, events), 1);
    this.#add(BATCHES_EVENTS, events);
    this.#add(FIRST_OUTCOME + EVENT_OUTCOMES.indexOf('faulty'), faulty);
  }

  decided(outcomes: readonly Outcome[]): void {
    this.#tally.fill(0);
    for (const outcome of outcomes) {
      const place = OUTCOMES.indexOf(outcome);
      this.#tally[place] = (this.#tally[place] ?? 0) + 1;
    }
    this.#tally.forEach((count, place) => this.#add(FIRST_OUTCOME + place, count));
  }

  /** A number of events were not stored, or their outcome is unknown. */
  failed(how: 'notCommitted' | 'unknown', events: number): void {
    this.#add(FIRST_OUTCOME + EVENT_OUTCOMES.indexOf(how), events);
  }

  /** Records the size of the log, all of it durable. */
  holds({ events, entries, bytes }: Pick<LedgerCounts, 'events' | 'entries' | 'bytes'>): void {
    Atomics.store(this.#words, EVENTS, BigInt(events));
    Atomics.store(this.#words, ENTRIES, BigInt(entries));
    Atomics.store(this.#words, BYTES, BigInt(bytes));
  }

  flushed(milliseconds: number): void {
    this.#add(FIRST_TIME + bucketOf(TIME_BOUNDS_MS, milliseconds), 1);
    this.#add(FLUSH_NANOSECONDS, Math.round(milliseconds * 1e6));
  }

  committed(ms: number): void {
    this.flushed(ms);
  }

  waits(batches: number, oldestMs: number, months: number): void {
    Atomics.store(this.#words, WAITING, BigInt(batches));
    Atomics.store(this.#words, OLDEST_MS, BigInt(Math.max(0, Math.round(oldestMs))));
    Atomics.store(this.#words, MONTHS, BigInt(months));
    Atomics.store(this.#words, IS_SHARED, 1n);
  }

  stalled(oldestMs: number): void {
    Atomics.store(this.#words, STALLED_MS, BigInt(Math.round(oldestMs)));
  }

  replicated(isKnown: boolean): void {
    Atomics.store(this.#words, REPLICATION, isKnown ? REPLICATED : NOT_REPLICATED);
  }

  /** A checkpoint covers a batch this long after its commit. */
  merged(milliseconds: number): void {
    this.#add(FIRST_MERGE + bucketOf(DELAY_BOUNDS_MS, milliseconds), 1);
    this.#add(MERGE_NANOSECONDS, Math.round(milliseconds * 1e6));
  }

  read(): LedgerCounts {
    const row = (first: number, length: number) =>
      Array.from({ length }, (_, i) => Number(Atomics.load(this.#words, first + i)));
    const [events = 0, bytes = 0, sum = 0, nanoseconds = 0, entries = 0] = row(0, FIRST_OUTCOME);
    const outcomes = row(FIRST_OUTCOME, EVENT_OUTCOMES.length);
    return {
      events,
      entries,
      bytes,
      outcomes: Object.fromEntries(EVENT_OUTCOMES.map((outcome, i) => [outcome, outcomes[i] ?? 0])) as Record<
        EventOutcome,
        number
      >,
      batches: { counts: row(FIRST_SIZE, SIZE_BOUNDS.length + 1), sum },
      flushes: { counts: row(FIRST_TIME, TIME_BOUNDS_MS.length + 1), sum: nanoseconds / 1e6 },
      shared: Atomics.load(this.#words, IS_SHARED) === 0n ? undefined : this.#shared(row),
    };
  }

  #shared(row: (first: number, length: number) => number[]): SharedCounts {
    const [batches = 0, oldestMs = 0, months = 0] = row(WAITING, 3);
    const replication = Atomics.load(this.#words, REPLICATION);
    return {
      ...{ replicated: replication === 0n ? undefined : replication === REPLICATED, months },
      waiting: { batches, oldestMs },
      stalledMs: Number(Atomics.load(this.#words, STALLED_MS)),
      merges: {
        counts: row(FIRST_MERGE, DELAY_BOUNDS_MS.length + 1),
        sum: Number(Atomics.load(this.#words, MERGE_NANOSECONDS)) / 1e6,
      },
    };
  }

  #add(word: number, count: number): void {
    if (count > 0) Atomics.add(this.#words, word, BigInt(count));
  }
}

export function createCounterMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(WORDS * BigInt64Array.BYTES_PER_ELEMENT);
}

const SHARED_NUMBERS: readonly Declared<SharedCounts>[] = [
  histogram({
    name: 'collector_merge_delay_seconds',
    help: 'Time from the commit of a batch to its checkpoint, for batches that this collector sequenced.',
    scale: DELAYS,
    read: ({ merges }) => merges,
  }),
  gauge({
    name: 'collector_unsequenced_batches',
    help: 'Batches of all collectors in the database that are not sequenced.',
    read: ({ waiting }) => waiting.batches,
  }),
  gauge({
    name: 'collector_unsequenced_oldest_seconds',
    help: 'Age of the oldest of these batches; 0 without one.',
    read: ({ waiting }) => seconds(waiting.oldestMs),
  }),
  gauge({
    name: 'collector_signing_stalled_seconds',
    help: 'Age of the oldest of these batches while none can be sequenced and nothing is signed, or 0.',
    read: ({ stalledMs }) => seconds(stalledMs),
  }),
  gauge({
    name: 'collector_replication_safe',
    help: 'Whether the last batch is known to be replicated and the next would be. Absent without a standby.',
    read: ({ replicated }) => replicated,
  }),
  gauge({
    name: 'collector_partition_months_ahead',
    help: 'Coming months with tables in the database.',
    read: ({ months }) => months,
  }),
];

export const LEDGER_NUMBERS: readonly Declared<LedgerCounts>[] = [
  counter({
    name: 'collector_events_total',
    help: 'Events by outcome. Duplicate: a repeat of a stored event, or of the span that it was made from.',
    each: ({ outcomes }) =>
      EVENT_OUTCOMES.map((outcome) => [{ outcome: snakeCase(outcome) }, outcomes[outcome]]),
  }),
  histogram({
    name: 'collector_batch_events',
    help: 'Events per batch.',
    scale: SIZES,
    read: ({ batches }) => batches,
  }),
  histogram({
    name: 'collector_ledger_flush_duration_seconds',
    help: 'Time to flush a batch (fdatasync), or to commit and replicate it in a database.',
    scale: TIMES,
    read: ({ flushes }) => flushes,
  }),
  gauge({ name: 'collector_ledger_events', help: 'Events in the log.', read: ({ events }) => events }),
  gauge({
    name: 'collector_ledger_entries',
    help: "Entries of the log: the events, and the log's own.",
    read: ({ entries }) => entries,
  }),
  gauge({ name: 'collector_ledger_bytes', help: 'Bytes of frames in the log.', read: ({ bytes }) => bytes }),
  ...within(({ shared }: LedgerCounts) => shared, SHARED_NUMBERS),
];

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
