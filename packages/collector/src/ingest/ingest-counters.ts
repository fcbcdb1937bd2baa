/**
 * Counters of requests, as plain numbers: counting an answer takes tens of nanoseconds and allocates nothing.
 */
import { ERRORS, EVENT_KINDS, type ErrorCode, type EventKind } from '@clinical-events/protocol';
import { bucketOf, counter, type Declared, gauge, histogram, TIME_BOUNDS_MS, TIMES } from '../numbers.js';
import type { LostPlace } from './connections.js';
import type { RequestKind } from './request.js';

/** The answer to a request: 201 (200 for OTLP), or a code of the error table. */
type AnswerCode = 'accepted' | ErrorCode;

const ANSWER_CODES: readonly AnswerCode[] = ['accepted', ...(Object.keys(ERRORS) as ErrorCode[])];
/** `none`: refused before its kind was known. */
const KINDS: readonly (RequestKind | 'none')[] = [...EVENT_KINDS, 'otlp', 'none'];
const KIND_ROWS = placesOf(KINDS);
const CODE_PLACES = placesOf(ANSWER_CODES);

/** The number of requests of a kind with one answer since the start. */
export interface AnswerCount {
  readonly kind: RequestKind | 'none';
  readonly code: AnswerCode;
  readonly status: number;
  readonly count: number;
}

/** The counters at an instant: a copy that later requests do not change. */
export interface IngestCounts {
  /** Every pair of kind and answer, including those that never occurred. */
  readonly answers: readonly AnswerCount[];
  /**
   * The times from headers to 201: one count per bucket of {@link TIME_BOUNDS_MS}, and the sum in
   * milliseconds.
   */
  readonly latencies: { readonly counts: Float64Array; readonly sum: number };
  readonly ofRequests: Readonly<Record<EventKind, number>>;
  readonly lostPlaces: Readonly<Record<LostPlace, number>>;
}

export class IngestCounters {
  /** Durable events from requests with several events, repeats included. */
  readonly ofRequests = Object.fromEntries(EVENT_KINDS.map((kind) => [kind, 0])) as Record<EventKind, number>;
  /** Connections closed because all places were taken. */
  readonly lostPlaces: Record<LostPlace, number> = { displaced: 0, no_place: 0 };
  readonly #answers = new Float64Array(KINDS.length * ANSWER_CODES.length);
  readonly #latencies = new Float64Array(TIME_BOUNDS_MS.length + 1);
  #latencySum = 0;

  /** A request was acknowledged. @param milliseconds since its last header arrived. */
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

  read(): IngestCounts {
    return {
      answers: this.#read(),
      latencies: { counts: this.#latencies.slice(), sum: this.#latencySum },
      ofRequests: { ...this.ofRequests },
      lostPlaces: { ...this.lostPlaces },
    };
  }

  #read(): AnswerCount[] {
    return KINDS.flatMap((kind, row) =>
      ANSWER_CODES.map((code, place) => ({
        kind,
        code,
        status: code === 'accepted' ? (kind === 'otlp' ? 200 : 201) : ERRORS[code].status,
        count: this.#answers[row * ANSWER_CODES.length + place] ?? 0,
      })),
    );
  }
}

/** Acknowledged events by kind, repeats included. */
export function acceptedEvents({ answers, ofRequests }: IngestCounts): Readonly<Record<EventKind, number>> {
  const counts = { ...ofRequests };
  for (const { kind, code, count } of answers)
    if (code === 'accepted' && kind !== 'otlp' && kind !== 'none') counts[kind] += count;
  return counts;
}

/** Requests by the code of their refusal; only codes that occurred. */
export function refusedRequests({ answers }: IngestCounts): Readonly<Record<string, number>> {
  const refused: Record<string, number> = {};
  for (const { code, count } of answers)
    if (count > 0 && code !== 'accepted') refused[code] = (refused[code] ?? 0) + count;
  return refused;
}

export const INGEST_NUMBERS: readonly Declared<IngestCounts>[] = [
  counter({
    name: 'collector_requests_total',
    help:
      'Requests answered, by kind of event, HTTP status and code. Kind otlp: OTLP requests, with any number ' +
      'of events; none: refused before the kind was known.',
    each: ({ answers }) =>
      answers.map(({ kind, status, code, count }) => [{ kind, status: String(status), code }, count]),
  }),
  counter({
    name: 'collector_connections_closed_total',
    help: 'Connections closed while all places were taken: displaced before a key, or no_place on arrival.',
    each: ({ lostPlaces }) => Object.entries(lostPlaces).map(([reason, count]) => [{ reason }, count]),
  }),
  histogram({
    name: 'collector_ack_duration_seconds',
    help: 'Time from the last header of a request to its 201 (200 of OTLP), its events being durable.',
    scale: TIMES,
    read: ({ latencies }) => latencies,
  }),
];

/** The queue to the ledger. */
export interface QueueState {
  readonly events: number;
  readonly bytes: number;
  readonly maxEvents: number;
  readonly maxBytes: number;
}

export const QUEUE_NUMBERS: readonly Declared<QueueState>[] = [
  gauge({
    name: 'collector_queue_events',
    help: 'Events that are being received or wait for the ledger.',
    read: ({ events }) => events,
  }),
  gauge({
    name: 'collector_queue_bytes',
    help: 'Bytes that these events hold or were promised.',
    read: ({ bytes }) => bytes,
  }),
  gauge({
    name: 'collector_queue_capacity_events',
    help: 'Limit of these events; beyond it, requests are refused.',
    read: ({ maxEvents }) => maxEvents,
  }),
  gauge({
    name: 'collector_queue_capacity_bytes',
    help: 'Limit of these bytes; beyond it, requests are refused.',
    read: ({ maxBytes }) => maxBytes,
  }),
];

function placesOf<Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name, place) => [name, place])) as Record<Name, number>;
}
