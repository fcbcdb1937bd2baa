/**
 * The parts of OTLP/JSON: protobuf's JSON mapping, but with ids in hexadecimal and enums as numbers (OTLP 1.x, "JSON");
 * and when an event began and ended.
 */
import { createHash } from 'node:crypto';
import type { RecordedEvent } from '@clinical-events/protocol';
import { instantOf, readInstant } from '@clinical-events/collector/records/instant';
import { numberOf } from '@clinical-events/collector/records/raw-json';
import { LAST_NANOSECOND, nanosecondsOf } from './values.js';

type AnyValue =
  | { readonly stringValue: string }
  | { readonly intValue: string }
  | { readonly doubleValue: number }
  | { readonly boolValue: boolean }
  | { readonly arrayValue: { readonly values: readonly AnyValue[] } };

export interface KeyValue {
  readonly key: string;
  readonly value: AnyValue;
}

/** What may be said; undefined and an empty list say nothing. Whole numbers are bigint, all others doubles. */
export type AttributeValue = string | bigint | number | boolean | readonly string[] | undefined;

export interface Link {
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes?: readonly KeyValue[];
}

export interface SpanEvent {
  readonly timeUnixNano: string;
  readonly name: string;
  readonly attributes: readonly KeyValue[];
}

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: SpanKind;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly KeyValue[];
  readonly events?: readonly SpanEvent[];
  readonly links?: readonly Link[];
}

export const SPAN_KIND = { internal: 1, client: 3 } as const;
export type SpanKind = (typeof SPAN_KIND)[keyof typeof SPAN_KIND];

export function attributes(said: Readonly<Record<string, AttributeValue>>): KeyValue[] {
  const list: KeyValue[] = [];
  for (const [key, value] of Object.entries(said)) {
    const any = anyValue(value);
    if (any !== undefined) list.push({ key, value: any });
  }
  return list;
}

function anyValue(said: AttributeValue): AnyValue | undefined {
  switch (typeof said) {
    case 'undefined':
      return undefined;
    case 'string':
      return { stringValue: said };
    case 'bigint':
      return { intValue: String(said) };
    case 'number':
      return { doubleValue: said };
    case 'boolean':
      return { boolValue: said };
    default:
      return said.length === 0
        ? undefined
        : { arrayValue: { values: said.map((stringValue) => ({ stringValue })) } };
  }
}

const NO_TRACE = '0'.repeat(32);

/** The 16 bytes of a UUID; of its hash for the one of zeros only, which is no trace id. */
export function traceIdOf(uuid: string): string {
  const hex = uuid.replaceAll('-', '');
  return hex === NO_TRACE ? sha256(uuid).slice(0, 32) : hex;
}

/** Eight bytes of the hash of an event's id: who knows the id of an event knows its span. */
export function spanIdOf(eventId: string): string {
  return sha256(eventId).slice(0, 16);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/* When a span began and ended, in nanoseconds since 1970 UTC by the sender's clock. */

export interface SpanTime {
  readonly start: bigint;
  /** Not before the start. */
  readonly end: bigint;
}

/**
 * An event reports what is over: it ended at the timestamp, and began its own latency before. Only an inference-start
 * reports what begins.
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
