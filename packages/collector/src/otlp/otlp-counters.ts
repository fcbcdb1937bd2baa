/**
 * Counters of OTLP's spans and log records. Labels come from closed tables: signals, codes, reasons of the
 * mapping.
 */
import type { ErrorCode, EventKind } from '@clinical-events/protocol';
import { counter, type Declared, type Labels } from '../numbers.js';
import type { Signal } from './decoded.js';

export interface Answered {
  /** Spans or log records of a request. */
  readonly items: number;
  /** Items without an event, by reason. */
  readonly ignored: Readonly<Record<string, number>>;
  /** Items whose event can never be stored, by code. */
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
  /** Durable events from spans and log records, repeats included. */
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

  /** Counts a request that was answered with 200. */
  answered(signal: Signal, { items, ignored, rejected, shortened }: Answered): void {
    const counts = this.signals[signal];
    const others = addTo(counts.ignored, ignored) + addTo(counts.rejected, rejected);
    if (others > items) throw new Error('more items were rejected than the request had');
    counts.stored += items - others;
    this.shortened += shortened;
  }
}

export const OTLP_NUMBERS: readonly Declared<OtlpCounts>[] = [
  counter({
    name: 'collector_otlp_events_total',
    help: 'Durable events from spans and log records by kind, repeats included.',
    each: ({ events }) => Object.entries(events).map(([kind, count]) => [{ kind }, count]),
  }),
  counter({
    name: 'collector_otlp_items_total',
    help:
      'Spans (signal traces) and log records (logs) of requests answered with 200: stored, ignored as ' +
      'unrelated to a run, or rejected as impossible to store; reason is that of the mapping, or the ' +
      'error code.',
    each: ({ signals }) => Object.entries(signals).flatMap(([signal, counts]) => itemsOf(signal, counts)),
  }),
  counter({
    name: 'collector_otlp_shortened_total',
    help: 'Events stored without their longest contents, because they were too large.',
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
