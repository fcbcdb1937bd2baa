/**
 * What an HTTP thread counts, as plain numbers: a call for an answer costs some ten nanoseconds and allocates
 * nothing.
 */
import { ERRORS, EVENT_KINDS, type ErrorCode, type EventKind } from '@clinical-events/protocol';
import { bucketOf, TIME_BOUNDS_MS } from '../ledger/buckets.js';
import type { LostPlace } from './connections.js';

/** What a request can be answered with: 201, or one of the closed table of errors. */
type AnswerCode = 'accepted' | ErrorCode;

const ANSWER_CODES: readonly AnswerCode[] = ['accepted', ...(Object.keys(ERRORS) as ErrorCode[])];
/** `none`: refused before it was known of which kind it would be. */
const KINDS: readonly (EventKind | 'none')[] = [...EVENT_KINDS, 'none'];
const KIND_ROWS = placesOf(KINDS);
const CODE_PLACES = placesOf(ANSWER_CODES);

/** How many requests of a kind were answered in a way since the start. */
export interface AnswerCount {
  readonly kind: EventKind | 'none';
  readonly code: AnswerCode;
  readonly status: number;
  readonly count: number;
}

/** All that a thread has counted. */
export interface IngestCounts {
  readonly answers: Float64Array;
  readonly latencies: Float64Array;
  readonly latencySum: number;
  /** Connections that were closed because all were taken. */
  readonly lostPlaces: Readonly<Record<LostPlace, number>>;
}

export class IngestCounters {
  /** What other threads have counted, which is told together with what this one has. */
  others: () => readonly IngestCounts[] = () => [];
  readonly #lostPlaces: Record<LostPlace, number> = { displaced: 0, no_place: 0 };
  readonly #answers = new Float64Array(KINDS.length * ANSWER_CODES.length);
  readonly #latencies = new Float64Array(TIME_BOUNDS_MS.length + 1);
  #latencySum = 0;

  /** An event was acknowledged. @param milliseconds since the last of its headers had come. */
  accepted(kind: EventKind, milliseconds: number): void {
    const place = KIND_ROWS[kind] * ANSWER_CODES.length;
    this.#answers[place] = (this.#answers[place] ?? 0) + 1;
    const bucket = bucketOf(TIME_BOUNDS_MS, milliseconds);
    this.#latencies[bucket] = (this.#latencies[bucket] ?? 0) + 1;
    this.#latencySum += milliseconds;
  }

  refused(kind: EventKind | undefined, code: ErrorCode): void {
    const place = KIND_ROWS[kind ?? 'none'] * ANSWER_CODES.length + CODE_PLACES[code];
    this.#answers[place] = (this.#answers[place] ?? 0) + 1;
  }

  lostPlace(reason: LostPlace): void {
    this.#lostPlaces[reason]++;
  }

  /** What this thread has counted. A copy. */
  get own(): IngestCounts {
    return {
      answers: this.#answers.slice(),
      latencies: this.#latencies.slice(),
      latencySum: this.#latencySum,
      lostPlaces: { ...this.#lostPlaces },
    };
  }

  /** Connections that were closed because all were taken. */
  get lostPlaces(): Readonly<Record<LostPlace, number>> {
    const all = this.#all();
    const sum = (reason: LostPlace) => all.reduce((total, { lostPlaces }) => total + lostPlaces[reason], 0);
    return { displaced: sum('displaced'), no_place: sum('no_place') };
  }

  /** Every pair of a kind and an answer, also those that never came. */
  answers(): AnswerCount[] {
    const answers = summed(this.#all().map((counts) => counts.answers));
    return KINDS.flatMap((kind, row) =>
      ANSWER_CODES.map((code, place) => ({
        kind,
        code,
        status: code === 'accepted' ? 201 : ERRORS[code].status,
        count: answers[row * ANSWER_CODES.length + place] ?? 0,
      })),
    );
  }

  /** From headers to 201: one count a bucket of {@link TIME_BOUNDS_MS}, and their sum in milliseconds. A copy. */
  latencies(): { readonly counts: Float64Array; readonly sum: number } {
    const all = this.#all();
    return {
      counts: summed(all.map((counts) => counts.latencies)),
      sum: all.reduce((total, { latencySum }) => total + latencySum, 0),
    };
  }

  #all(): readonly IngestCounts[] {
    return [this.own, ...this.others()];
  }
}

function summed(rows: readonly Float64Array[]): Float64Array {
  const [first = new Float64Array(), ...others] = rows;
  return first.map((count, place) => others.reduce((total, row) => total + (row[place] ?? 0), count));
}

/** How many events these counts say were acknowledged. */
export function acceptedIn({ answers }: IngestCounts): number {
  return KINDS.reduce(
    (total, _, row) => total + (answers[row * ANSWER_CODES.length + CODE_PLACES.accepted] ?? 0),
    0,
  );
}

function placesOf<Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name, place) => [name, place])) as Record<Name, number>;
}
