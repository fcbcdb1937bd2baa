/** Recorded requests of test/vectors/otlp, decoded: a reader of OTLP/JSON that is small and trusts its input. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Decoded, DecodedLog, DecodedSpan } from '../../../src/otlp/decoded.js';

const DIRECTORY = path.resolve('test/vectors/otlp');

type Json = Readonly<Record<string, unknown>>;

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
    const body = JSON.parse(fileOf(recording, name)) as Json;
    for (const each of all(body['resourceSpans'], 'scopeSpans', 'spans')) spans.push(spanOf(...each));
    for (const each of all(body['resourceLogs'], 'scopeLogs', 'logRecords')) logs.push(logOf(...each));
  }
  return { spans, logs };
}

type Item = [item: Json, scope: Json, resource: Json];

function all(resources: unknown, scopes: string, items: string): Item[] {
  return ((resources ?? []) as Json[]).flatMap((resource) => {
    const attributes = objectOf((resource['resource'] as Json)['attributes']);
    return (resource[scopes] as Json[]).flatMap((scope) =>
      (scope[items] as Json[]).map((item): Item => [item, (scope['scope'] ?? {}) as Json, attributes]),
    );
  });
}

function decoded(...[item, scope, resource]: Item): Decoded {
  return {
    traceId: String(item['traceId'] ?? ''),
    spanId: String(item['spanId'] ?? ''),
    attributes: objectOf(item['attributes']),
    droppedAttributesCount: Number(item['droppedAttributesCount'] ?? 0),
    scope: String(scope['name'] ?? ''),
    scopeVersion: String(scope['version'] ?? ''),
    resource,
  };
}

function spanOf(...each: Item): DecodedSpan {
  const [span] = each;
  const flags = Number(span['flags'] ?? 0);
  return {
    ...decoded(...each),
    name: String(span['name']),
    parentSpanId: String(span['parentSpanId'] ?? ''),
    isParentRemote: (flags & 0x100) === 0 ? undefined : (flags & 0x200) !== 0,
    start: BigInt(String(span['startTimeUnixNano'] ?? 0)),
    end: BigInt(String(span['endTimeUnixNano'] ?? 0)),
    status: { code: Number((span['status'] as Json | undefined)?.['code'] ?? 0) },
    events: ((span['events'] ?? []) as Json[]).map((event) => ({
      name: String(event['name']),
      time: BigInt(String(event['timeUnixNano'] ?? 0)),
      attributes: objectOf(event['attributes']),
    })),
  };
}

function logOf(...each: Item): DecodedLog {
  const [record] = each;
  const common = decoded(...each);
  return {
    ...common,
    eventName: String(record['eventName'] ?? common.attributes['event.name'] ?? ''),
    time: BigInt(String(record['timeUnixNano'] ?? record['observedTimeUnixNano'] ?? 0)),
    body: valueOf(record['body']),
  };
}

function objectOf(attributes: unknown): Record<string, unknown> {
  const object = Object.create(null) as Record<string, unknown>;
  for (const { key, value } of (attributes ?? []) as { key: string; value: unknown }[])
    object[key] = valueOf(value);
  return object;
}

function valueOf(value: unknown): unknown {
  const said = (value ?? {}) as Json;
  const { arrayValue, kvlistValue, intValue } = said;
  if (arrayValue !== undefined) return ((arrayValue as Json)['values'] as unknown[]).map(valueOf);
  if (kvlistValue !== undefined) return objectOf((kvlistValue as Json)['values']);
  if (intValue !== undefined) return Number(intValue);
  return said['stringValue'] ?? said['doubleValue'] ?? said['boolValue'] ?? null;
}
