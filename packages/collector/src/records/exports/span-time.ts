/** When a span began and ended, in nanoseconds since 1970 UTC by the sender's clock. */
import type { RecordedEvent } from '@clinical-events/protocol';
import { instantOf, readInstant } from '../instant.js';
import { numberOf } from '../raw-json.js';
import { LAST_NANOSECOND, nanosecondsOf } from './date-time.js';

export interface SpanTime {
  readonly start: bigint;
  /** Not before the start. */
  readonly end: bigint;
}

/**
 * An event tells of what is over: it ended at the timestamp, and began its own latency before. Only an inference-start
 * tells of what begins.
 */
export function timeOf({ kind, timestamp, received_at, system_metadata }: RecordedEvent): SpanTime {
  // Nanoseconds since 1970 reach to 2554. Outside, and unread, the collector's clock stands in for the sender's.
  const said = timestamp === null ? undefined : nanosecondsOf(readInstant(timestamp));
  const at = said ?? nanosecondsOf(instantOf(Date.parse(received_at))) ?? 0n;
  const milliseconds = numberOf(system_metadata?.latency_ms) ?? 0;
  const latency = milliseconds > 0 ? BigInt(Math.round(milliseconds)) * 1_000_000n : 0n;
  if (kind !== 'inference-start') return { start: at < latency ? 0n : at - latency, end: at };
  return { start: at, end: LAST_NANOSECOND - at < latency ? LAST_NANOSECOND : at + latency };
}

/** From the earliest start to the latest end. */
export function spanning(times: readonly SpanTime[]): SpanTime {
  return times.reduce((a, b) => ({
    start: b.start < a.start ? b.start : a.start,
    end: b.end > a.end ? b.end : a.end,
  }));
}
