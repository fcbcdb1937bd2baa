/**
 * The parts of OTLP/JSON, which is protobuf's JSON mapping with hexadecimal ids and numeric enums (OTLP 1.x,
 * "JSON"), and the time of an event.
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

/** Whole numbers are bigints, and other numbers are doubles. Undefined and an empty list are left out. */
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

export function attributes(values: Readonly<Record<string, AttributeValue>>): KeyValue[] {
  const list: KeyValue[] = [];
  for (const [key, value] of Object.entries(values)) {
    const any = anyValue(value);
    if (any !== undefined) list.push({ key, value: any });
  }
  return list;
}

function anyValue(value: AttributeValue): AnyValue | undefined {
  switch (typeof value) {
    case 'undefined':
      return undefined;
    case 'string':
      return { stringValue: value };
    case 'bigint':
      return { intValue: String(value) };
    case 'number':
      return { doubleValue: value };
    case 'boolean':
      return { boolValue: value };
    default:
      return value.length === 0
        ? undefined
        : { arrayValue: { values: value.map((stringValue) => ({ stringValue })) } };
  }
}

const NO_TRACE = '0'.repeat(32);

/** The 16 bytes of a UUID. The zero UUID, which is not a valid trace id, is hashed. */
export function traceIdOf(uuid: string): string {
  const hex = uuid.replaceAll('-', '');
  return hex === NO_TRACE ? sha256(uuid).slice(0, 32) : hex;
}

/** Eight bytes of the hash of the event's id. */
export function spanIdOf(eventId: string): string {
  return sha256(eventId).slice(0, 16);
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** In nanoseconds since 1970 UTC, by the sender's clock. */
export interface SpanTime {
  readonly start: bigint;
  /** Not before the start. */
  readonly end: bigint;
}

/**
 * An event ends at its timestamp and begins its latency earlier; an inference-start begins at its timestamp.
 */
export function timeOf({ kind, timestamp, received_at, system_metadata }: RecordedEvent): SpanTime {
  // The time of receipt is used if the timestamp is missing or outside 1970 to 2554.
  const sent = timestamp === null ? undefined : nanosecondsOf(readInstant(timestamp));
  const at = sent ?? nanosecondsOf(instantOf(Date.parse(received_at))) ?? 0n;
  const milliseconds = numberOf(system_metadata?.latency_ms) ?? 0;
  const latency = milliseconds > 0 ? BigInt(Math.round(milliseconds)) * 1_000_000n : 0n;
  if (kind !== 'inference-start') return { start: at < latency ? 0n : at - latency, end: at };
  return { start: at, end: LAST_NANOSECOND - at < latency ? LAST_NANOSECOND : at + latency };
}

/** The time from the earliest start to the latest end. */
export function spanning(times: readonly SpanTime[]): SpanTime {
  return times.reduce((a, b) => ({
    start: b.start < a.start ? b.start : a.start,
    end: b.end > a.end ? b.end : a.end,
  }));
}
