/**
 * What is counted of requests, as plain numbers: a call for an answer costs some ten nanoseconds and allocates
 * nothing.
 */
import { ERRORS, EVENT_KINDS, type ErrorCode, type EventKind } from '@clinical-events/protocol';
import { bucketOf, TIME_BOUNDS_MS } from '../ledger/buckets.js';
import type { LostPlace } from './connections.js';
import type { RequestKind } from './request.js';

/** What a request can be answered with: 201 (200 of OTLP), or one of the closed table of errors. */
type AnswerCode = 'accepted' | ErrorCode;

const ANSWER_CODES: readonly AnswerCode[] = ['accepted', ...(Object.keys(ERRORS) as ErrorCode[])];
/** `none`: refused before it was known of which kind it would be. */
const KINDS: readonly (RequestKind | 'none')[] = [...EVENT_KINDS, 'otlp', 'none'];
const KIND_ROWS = placesOf(KINDS);
const CODE_PLACES = placesOf(ANSWER_CODES);

/** How many requests of a kind were answered in a way since the start. */
export interface AnswerCount {
  readonly kind: RequestKind | 'none';
  readonly code: AnswerCode;
  readonly status: number;
  readonly count: number;
}

export class IngestCounters {
  /** Events that came several in a request, and are durable: repeats too. */
  readonly ofRequests = Object.fromEntries(EVENT_KINDS.map((kind) => [kind, 0])) as Record<EventKind, number>;
  /** Connections that were closed because all were taken. */
  readonly lostPlaces: Record<LostPlace, number> = { displaced: 0, no_place: 0 };
  readonly #answers = new Float64Array(KINDS.length * ANSWER_CODES.length);
  readonly #latencies = new Float64Array(TIME_BOUNDS_MS.length + 1);
  #latencySum = 0;

  /** A request was acknowledged. @param milliseconds since the last of its headers had come. */
  accepted(kind: RequestKind, milliseconds: number): void {
    const place = KIND_ROWS[kind] * ANSWER_CODES.length;
    this.#answers[place] = (this.#answers[place] ?? 0) + 1;
    const bucket = bucketOf(TIME_BOUNDS_MS, milliseconds);
    this.#latencies[bucket] = (this.#latencies[bucket] ?? 0) + 1;
    this.#latencySum += milliseconds;
  }

  refused(kind: RequestKind | undefined, code: ErrorCode): void {
    const place = KIND_ROWS[kind ?? 'none'] * ANSWER_CODES.length + CODE_PLACES[code];
    this.#answers[place] = (this.#answers[place] ?? 0) + 1;
  }

  lostPlace(reason: LostPlace): void {
    this.lostPlaces[reason]++;
  }

  /** Events that were acknowledged, repeats too, by kind. */
  acceptedEvents(): Readonly<Record<EventKind, number>> {
    const counts = { ...this.ofRequests };
    for (const { kind, code, count } of this.answers())
      if (code === 'accepted' && kind !== 'otlp' && kind !== 'none') counts[kind] += count;
    return counts;
  }

  /** Every pair of a kind and an answer, also those that never came. */
  answers(): AnswerCount[] {
    return KINDS.flatMap((kind, row) =>
      ANSWER_CODES.map((code, place) => ({
        kind,
        code,
        status: code === 'accepted' ? (kind === 'otlp' ? 200 : 201) : ERRORS[code].status,
        count: this.#answers[row * ANSWER_CODES.length + place] ?? 0,
      })),
    );
  }

  /** From headers to 201: one count a bucket of {@link TIME_BOUNDS_MS}, and their sum in milliseconds. A copy. */
  latencies(): { readonly counts: Float64Array; readonly sum: number } {
    return { counts: this.#latencies.slice(), sum: this.#latencySum };
  }
}

function placesOf<Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name, place) => [name, place])) as Record<Name, number>;
}
