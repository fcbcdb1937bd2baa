/** The parts of OTLP/JSON: protobuf's JSON mapping, but with ids in hexadecimal and enums as numbers (OTLP 1.x, "JSON"). */
import { createHash } from 'node:crypto';

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
export type Said = string | bigint | number | boolean | readonly string[] | undefined;

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

export function attributes(said: Readonly<Record<string, Said>>): KeyValue[] {
  const list: KeyValue[] = [];
  for (const [key, value] of Object.entries(said)) {
    const any = anyValue(value);
    if (any !== undefined) list.push({ key, value: any });
  }
  return list;
}

function anyValue(said: Said): AnyValue | undefined {
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
