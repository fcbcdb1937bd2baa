/** Recorded requests of test/vectors/otlp, decoded: a reader of OTLP/JSON that is small and trusts its input. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Decoded, DecodedLog, DecodedSpan } from '../../../src/otlp/decoded.js';

const DIRECTORY = path.resolve('test/vectors/otlp');

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values?: readonly Value[] };
  readonly kvlistValue?: { readonly values?: Attributes };
}

type Attributes = readonly { readonly key: string; readonly value: Value }[];

interface Sent {
  readonly attributes?: Attributes;
  readonly traceId?: string;
  readonly spanId?: string;
  readonly droppedAttributesCount?: number;
}

interface SentSpan extends Sent {
  readonly name: string;
  readonly parentSpanId?: string;
  readonly flags?: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status?: { readonly code?: number };
  readonly events?: readonly { name: string; timeUnixNano?: string; attributes?: Attributes }[];
}

interface SentLog extends Sent {
  readonly eventName?: string;
  readonly timeUnixNano?: string;
  readonly observedTimeUnixNano?: string;
  readonly body?: Value | null;
}

interface Scope {
  readonly scope?: { readonly name?: string; readonly version?: string };
  readonly spans?: readonly SentSpan[];
  readonly logRecords?: readonly SentLog[];
}

interface Body {
  readonly resourceSpans?: readonly Resource[];
  readonly resourceLogs?: readonly Resource[];
}

interface Resource {
  readonly resource?: { readonly attributes?: Attributes };
  readonly scopeSpans?: readonly Scope[];
  readonly scopeLogs?: readonly Scope[];
}

export interface Recorded {
  readonly spans: readonly DecodedSpan[];
  readonly logs: readonly DecodedLog[];
}

export const recordings = readdirSync(DIRECTORY).filter((name) => /^\d/.test(name));

export function fileOf(recording: string, name: string): string {
  return readFileSync(path.join(DIRECTORY, recording, name), 'utf8');
}

/** Every span and log record as often as it was sent. */
export function recorded(recording: string): Recorded {
  const spans: DecodedSpan[] = [];
  const logs: DecodedLog[] = [];
  for (const name of readdirSync(path.join(DIRECTORY, recording)).sort()) {
    if (!/^(?:request|logs).*\.json$/.test(name)) continue;
    const { resourceSpans = [], resourceLogs = [] } = JSON.parse(fileOf(recording, name)) as Body;
    for (const { resource, scopeSpans = [], scopeLogs = [] } of [...resourceSpans, ...resourceLogs]) {
      const of = objectOf(resource?.attributes);
      for (const each of [...scopeSpans, ...scopeLogs]) {
        spans.push(...(each.spans ?? []).map((span) => spanOf(span, each, of)));
        logs.push(...(each.logRecords ?? []).map((record) => logOf(record, each, of)));
      }
    }
  }
  return { spans, logs };
}

function decoded(sent: Sent, { scope }: Scope, resource: Decoded['resource']): Decoded {
  return {
    traceId: sent.traceId ?? '',
    spanId: sent.spanId ?? '',
    attributes: objectOf(sent.attributes),
    droppedAttributesCount: sent.droppedAttributesCount ?? 0,
    scope: scope?.name ?? '',
    scopeVersion: scope?.version ?? '',
    resource,
  };
}

function spanOf(span: SentSpan, scope: Scope, resource: Decoded['resource']): DecodedSpan {
  const { flags = 0, events = [] } = span;
  return {
    ...decoded(span, scope, resource),
    name: span.name,
    parentSpanId: span.parentSpanId ?? '',
    isParentRemote: (flags & 0x100) === 0 ? undefined : (flags & 0x200) !== 0,
    start: BigInt(span.startTimeUnixNano),
    end: BigInt(span.endTimeUnixNano),
    status: { code: span.status?.code ?? 0 },
    events: events.map(({ name, timeUnixNano = '0', attributes }) => ({
      name,
      time: BigInt(timeUnixNano),
      attributes: objectOf(attributes),
    })),
  };
}

function logOf(record: SentLog, scope: Scope, resource: Decoded['resource']): DecodedLog {
  const common = decoded(record, scope, resource);
  const { eventName, timeUnixNano, observedTimeUnixNano = '0', body } = record;
  const named = common.attributes['event.name'];
  return {
    ...common,
    eventName: eventName ?? (typeof named === 'string' ? named : ''),
    time: BigInt(timeUnixNano ?? observedTimeUnixNano),
    body: valueOf(body ?? {}),
  };
}

function objectOf(attributes: Attributes = []): Record<string, unknown> {
  const object = Object.create(null) as Record<string, unknown>;
  for (const { key, value } of attributes) object[key] = valueOf(value);
  return object;
}

function valueOf({ arrayValue, kvlistValue, intValue, ...said }: Value): unknown {
  if (arrayValue) return (arrayValue.values ?? []).map(valueOf);
  if (kvlistValue) return objectOf(kvlistValue.values);
  if (intValue !== undefined) return Number(intValue);
  return said.stringValue ?? said.doubleValue ?? said.boolValue ?? null;
}
