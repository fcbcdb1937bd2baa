/** Recorded spans of test/vectors/otlp, as OpenTelemetry's SDKs pass them to a span processor. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { RunSpanProcessor } from '../src/opentelemetry.js';

const DIRECTORY = path.resolve('test/vectors/otlp');

interface OtlpValue {
  readonly stringValue?: string;
  /** A number in what SDKs send, text in the mapping of protobuf. */
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values?: readonly OtlpValue[] };
  readonly kvlistValue?: { readonly values?: readonly OtlpAttribute[] };
}

interface OtlpAttribute {
  readonly key: string;
  readonly value: OtlpValue;
}

interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly OtlpAttribute[];
  readonly events?: readonly { readonly name: string; readonly attributes?: readonly OtlpAttribute[] }[];
  readonly status?: { readonly code?: number };
  readonly droppedAttributesCount?: number;
}

interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly scope?: { name?: string }; readonly spans: OtlpSpan[] }[];
  }[];
}

export interface RecordedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Record<string, unknown>;
  readonly events: readonly { readonly name: string; readonly attributes: Record<string, unknown> }[];
  readonly status: { readonly code: number };
  readonly droppedAttributesCount: number;
  readonly scope: string;
}

/** The others have bodies that only the receiver reads. */
/** Of some only the receiver reads the bodies. */
export const folders = readdirSync(DIRECTORY);
export const recordings = folders.filter((name) => existsSync(path.join(DIRECTORY, name, 'expected.json')));

export function expectedOf(recording: string): unknown {
  return JSON.parse(readFileSync(path.join(DIRECTORY, recording, 'expected.json'), 'utf8'));
}

/** A span that was sent twice is listed once. */
export function spansOf(recording: string): RecordedSpan[] {
  const directory = path.join(DIRECTORY, recording);
  const spans = new Map<string, RecordedSpan>();
  for (const file of readdirSync(directory).filter((name) => name.startsWith('request'))) {
    const body = JSON.parse(readFileSync(path.join(directory, file), 'utf8')) as OtlpBody;
    for (const { scopeSpans } of body.resourceSpans) {
      for (const { scope, spans: sent } of scopeSpans) {
        for (const span of sent)
          spans.set(`${span.traceId}${span.spanId}`, recorded(span, scope?.name ?? ''));
      }
    }
  }
  return [...spans.values()];
}

function recorded(span: OtlpSpan, scope: string): RecordedSpan {
  return {
    ...{ name: span.name, traceId: span.traceId, spanId: span.spanId, scope },
    parentSpanId: span.parentSpanId === '' ? undefined : span.parentSpanId,
    start: BigInt(span.startTimeUnixNano),
    end: BigInt(span.endTimeUnixNano),
    attributes: objectOf(span.attributes),
    events: (span.events ?? []).map(({ name, attributes }) => ({ name, attributes: objectOf(attributes) })),
    status: { code: span.status?.code ?? 0 },
    droppedAttributesCount: span.droppedAttributesCount ?? 0,
  };
}

function objectOf(attributes: readonly OtlpAttribute[] = []): Record<string, unknown> {
  const object = Object.create(null) as Record<string, unknown>;
  for (const { key, value } of attributes) object[key] = valueOf(value);
  return object;
}

function valueOf(value: OtlpValue): unknown {
  const { stringValue, intValue, doubleValue, boolValue, arrayValue, kvlistValue } = value;
  if (arrayValue) return (arrayValue.values ?? []).map(valueOf);
  if (kvlistValue) return objectOf(kvlistValue.values);
  return stringValue ?? (intValue === undefined ? undefined : Number(intValue)) ?? doubleValue ?? boolValue;
}

type SdkSpan = Parameters<RunSpanProcessor['onEnd']>[0];

export function sdkSpan(span: RecordedSpan): SdkSpan {
  const { name, attributes, events, status, droppedAttributesCount, traceId, spanId, parentSpanId } = span;
  return {
    ...{ name, attributes, events, status, droppedAttributesCount },
    startTime: timeOf(span.start),
    endTime: timeOf(span.end),
    duration: timeOf(span.end - span.start),
    instrumentationScope: { name: span.scope },
    parentSpanContext: parentSpanId === undefined ? undefined : { traceId, spanId: parentSpanId },
    spanContext: () => ({ traceId, spanId }),
  };
}

export function timeOf(nanoseconds: bigint): [number, number] {
  return [Number(nanoseconds / 1_000_000_000n), Number(nanoseconds % 1_000_000_000n)];
}

/** Clocks of SDKs begin a span at a whole millisecond, and end it by another clock. */
function wholeMilliseconds(nanoseconds: bigint): bigint {
  return ((nanoseconds + 999_999n) / 1_000_000n) * 1_000_000n;
}

/** Parents begin first and end last, also where clocks say the same time. */
export function inOrder(
  spans: readonly RecordedSpan[],
  started: (span: RecordedSpan) => void,
  ended: (span: RecordedSpan) => void,
): void {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  const depth = (span: RecordedSpan): number => {
    const parent = byId.get(span.parentSpanId ?? '');
    return parent ? 1 + depth(parent) : 0;
  };
  const moments = spans.flatMap((span) => [
    { at: span.start, order: depth(span), act: () => started(span) },
    { at: wholeMilliseconds(span.end), order: 1_000_000 - depth(span), act: () => ended(span) },
  ]);
  moments.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : a.order - b.order));
  for (const { act } of moments) act();
}

export function replay(spans: readonly RecordedSpan[], processor: RunSpanProcessor): void {
  const made = new Map(spans.map((span) => [span, sdkSpan(span)]));
  inOrder(
    spans,
    (span) => processor.onStart(made.get(span) as SdkSpan),
    (span) => processor.onEnd(made.get(span) as SdkSpan),
  );
}

/** An expectation without its empty members. */
export function filled(object: object): object {
  const isEmpty = (value: unknown) =>
    value === undefined ||
    value === '' ||
    (typeof value === 'object' && Object.keys(value ?? {}).length === 0);
  return Object.fromEntries(Object.entries(object).filter(([, value]) => !isEmpty(value)));
}
