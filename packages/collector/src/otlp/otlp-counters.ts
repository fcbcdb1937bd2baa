/** What is counted of spans and log records of OTLP. Labels are of closed tables: signals, codes, reasons of the mapping. */
import type { ErrorCode } from '@clinical-events/protocol';
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

/** @returns the sum of what was added. */
function addTo(counts: Map<string, number>, more: Readonly<Record<string, number>>): number {
  let sum = 0;
  for (const [name, count] of Object.entries(more)) {
    counts.set(name, (counts.get(name) ?? 0) + count);
    sum += count;
  }
  return sum;
}
