/** What is counted of spans and log records of OTLP. Labels are of closed tables: signals, codes, reasons of the mapping. */
import type { ErrorCode, EventKind } from '@clinical-events/protocol';
import { counter, type Declared, type Labels } from '../numbers.js';
import type { Signal } from './decoded.js';

export interface Answered {
  /** Spans or log records of a request. */
  readonly items: number;
  /** Those of which no event is made, by reason. */
  readonly ignored: Readonly<Record<string, number>>;
  /** Those of which an event can never be stored, by code. */
  readonly rejected: Partial<Readonly<Record<ErrorCode, number>>>;
  /** Events that were stored without their longest contents. */
  readonly shortened: number;
}

interface SignalCounts {
  stored: number;
  readonly ignored: Map<string, number>;
  readonly rejected: Map<string, number>;
}

/** Counts since the start, as plain numbers. */
export interface OtlpCounts {
  readonly signals: Readonly<Record<Signal, Readonly<SignalCounts>>>;
  /** Events that were stored without their longest contents. */
  readonly shortened: number;
  /** Durable events that were made of spans and log records, repeats too. */
  readonly events: Readonly<Record<EventKind, number>>;
}

/** Counts since the start. */
export class OtlpCounters {
  readonly signals: Readonly<Record<Signal, SignalCounts>> = {
    traces: { stored: 0, ignored: new Map(), rejected: new Map() },
    logs: { stored: 0, ignored: new Map(), rejected: new Map() },
  };
  /** Events that were stored without their longest contents. */
  shortened = 0;

  /** A request was answered with 200. */
  answered(signal: Signal, { items, ignored, rejected, shortened }: Answered): void {
    const counts = this.signals[signal];
    const others = addTo(counts.ignored, ignored) + addTo(counts.rejected, rejected);
    if (others > items) throw new Error('more of a request was not stored than it had');
    counts.stored += items - others;
    this.shortened += shortened;
  }
}

export const OTLP_NUMBERS: readonly Declared<OtlpCounts>[] = [
  counter({
    name: 'collector_otlp_events_total',
    help: 'Events made of spans and log records that are durable, repeats too, by kind.',
    each: ({ events }) => Object.entries(events).map(([kind, count]) => [{ kind }, count]),
  }),
  counter({
    name: 'collector_otlp_items_total',
    help: 'Spans (signal traces) and log records (logs) of requests answered with 200: stored, ignored because they are about no run, or rejected because they can never be stored; reason is that of the mapping, or the code of the error.',
    each: ({ signals }) => Object.entries(signals).flatMap(([signal, counts]) => itemsOf(signal, counts)),
  }),
  counter({
    name: 'collector_otlp_shortened_total',
    help: 'Events stored without their longest contents, because they were larger than an event may be.',
    read: ({ shortened }) => shortened,
  }),
];

function itemsOf(
  signal: string,
  { stored, ignored, rejected }: Readonly<SignalCounts>,
): (readonly [Labels, number])[] {
  const lines = (result: string, counts: Iterable<readonly [string, number]>) =>
    Array.from(counts, ([reason, count]) => [{ signal, result, reason }, count] as const);
  return [...lines('stored', [['', stored]]), ...lines('ignored', ignored), ...lines('rejected', rejected)];
}

/** @returns the sum of what was added. */
function addTo(counts: Map<string, number>, more: Readonly<Record<string, number>>): number {
  let sum = 0;
  for (const [name, count] of Object.entries(more)) {
    counts.set(name, (counts.get(name) ?? 0) + count);
    sum += count;
  }
  return sum;
}
