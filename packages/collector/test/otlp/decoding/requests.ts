/**
 * Requests of OTLP in both encodings. Spans are written in protobuf by the definitions of OpenTelemetry, not by ours; what
 * npm has of those knows no log records.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type DescMessage, fromJson, type JsonValue, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { decodeLogs, decodeSpans } from '../../../src/otlp/decoding/decode.js';
import type { DecodedLog, DecodedSpan, Encoding, Signal } from '../../../src/otlp/decoded.js';
import {
  ExportLogsServiceRequestSchema,
  LogRecordSchema,
} from '../../../src/otlp/decoding/generated/otlp_pb.js';
import { protobufOf as spansInProtobuf, recoded } from '../../../../exports/test/otlp-reader.js';

const DIRECTORY = path.resolve('test/vectors/otlp');

export interface Recording {
  readonly file: string;
  readonly signal: Signal;
  readonly encoding: Encoding;
  readonly body: Buffer;
}

export const recordings: readonly Recording[] = readdirSync(DIRECTORY, { recursive: true, encoding: 'utf8' })
  .filter((file) => /(request|logs)[^/]*\.(json|pb\.base64)$/.test(file))
  .sort()
  .map((file) => {
    const bytes = readFileSync(path.join(DIRECTORY, file));
    const isProtobuf = file.endsWith('.base64');
    return {
      file,
      signal: path.basename(file).startsWith('logs') ? 'logs' : 'traces',
      encoding: isProtobuf ? 'protobuf' : 'json',
      body: isProtobuf ? Buffer.from(bytes.toString(), 'base64') : bytes,
    };
  });

export function recorded(file: string): Recording {
  const found = recordings.find((each) => each.file.startsWith(file));
  if (!found) throw new Error(`no recording ${file}`);
  return found;
}

export function decode(signal: Signal, encoding: Encoding, body: Uint8Array): (DecodedSpan | DecodedLog)[] {
  return (signal === 'traces' ? decodeSpans : decodeLogs)(body, encoding);
}

export const jsonOf = (request: unknown) => Buffer.from(JSON.stringify(request));

export function protobufOf(signal: Signal, request: unknown): Uint8Array {
  if (signal === 'traces') return spansInProtobuf(request);
  const bytesOf = (type: DescMessage, json: JsonValue) =>
    toBinary(type, fromJson(type, json, { ignoreUnknownFields: true }));
  const copy = recoded(request, 'hex', 'base64') as LogsRequest;
  for (const ofScope of (copy.resourceLogs ?? []).flatMap(({ scopeLogs = [] }) => scopeLogs)) {
    ofScope.logRecords = (ofScope.logRecords ?? []).map((log) =>
      Buffer.from(bytesOf(LogRecordSchema, log)).toString('base64'),
    );
  }
  return bytesOf(ExportLogsServiceRequestSchema, copy as JsonValue);
}

interface LogsRequest {
  readonly resourceLogs?: readonly { readonly scopeLogs?: { logRecords?: JsonValue[] | undefined }[] }[];
}

/** A request of OTLP/JSON in either encoding. */
export function bothOf(signal: Signal, request: unknown): Record<Encoding, Uint8Array> {
  return { json: jsonOf(request), protobuf: protobufOf(signal, request) };
}

export const withSpans = (...spans: readonly object[]) => ({ resourceSpans: [{ scopeSpans: [{ spans }] }] });
export const withAttributes = (...attributes: readonly object[]) => withSpans({ attributes });
export const withValue = (value: unknown) => withAttributes({ key: 'k', value });

/** The attribute `k` of the first span. */
export function valueIn(encoding: Encoding, body: Uint8Array): unknown {
  return decodeSpans(body, encoding)[0]?.attributes['k'];
}

const words = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', '__proto__', 'constructor', '0', '7', 'toString', '\u{1F9E0}', '\uFEFFx', 'event.name'),
);
const double = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer()).map((n) => n + 0);
const base64 = fc.uint8Array({ maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString('base64'));
const time = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String);
const uint32 = fc.nat({ max: 2 ** 32 - 1 });
const optional = <Item extends object>(members: { [Name in keyof Item]: fc.Arbitrary<Item[Name]> }) =>
  fc.record(members, { requiredKeys: [] });

const { value } = fc.letrec<{ value: object; attribute: object }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record({ stringValue: words }),
    fc.record({ intValue: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String) }),
    fc.record({ intValue: fc.maxSafeInteger() }),
    fc.record({ boolValue: fc.boolean() }),
    fc.record({ doubleValue: fc.oneof(double, fc.constantFrom('NaN', 'Infinity', '-Infinity')) }),
    fc.record({ bytesValue: base64 }),
    fc.constant({}),
    fc.record({ arrayValue: optional({ values: fc.array(tie('value'), { maxLength: 4 }) }) }),
    fc.record({ kvlistValue: optional({ values: fc.array(tie('attribute'), { maxLength: 4 }) }) }),
  ),
  attribute: optional({ key: words, value: tie('value') }),
}));
const attributes = fc.array(optional({ key: words, value }), { maxLength: 6 });
const id = (bytes: number) =>
  fc.oneof(
    fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((some) => Buffer.from(some).toString('hex')),
    fc.constantFrom('', '0'.repeat(2 * bytes), 'ab'.repeat(bytes + 1), 'ab'.repeat(bytes - 1)),
  );
const event = optional({ name: words, timeUnixNano: time, attributes });
const span = optional({
  ...{ traceId: id(16), spanId: id(8), parentSpanId: id(8), name: words, attributes, flags: uint32 },
  ...{ startTimeUnixNano: time, endTimeUnixNano: time, droppedAttributesCount: uint32 },
  events: fc.array(event, { maxLength: 3 }),
  status: optional({ code: fc.nat({ max: 3 }), message: words }),
  // Not read.
  ...{
    traceState: words,
    kind: fc.nat({ max: 5 }),
    links: fc.array(optional({ traceId: id(16) }), { maxLength: 2 }),
  },
});
const log = optional({
  ...{
    traceId: id(16),
    spanId: id(8),
    eventName: words,
    attributes,
    body: value,
    droppedAttributesCount: uint32,
  },
  ...{ timeUnixNano: time, observedTimeUnixNano: time, severityText: words, flags: uint32 },
});
const around = { resource: optional({ attributes }), scope: optional({ name: words, version: words }) };
const few = <Item>(item: fc.Arbitrary<Item>) => fc.array(item, { maxLength: 3 });

/** Any request in OTLP/JSON that protobuf can also express. */
export const anyRequest: fc.Arbitrary<{ signal: Signal; request: object }> = fc.oneof(
  optional({
    resourceSpans: few(
      optional({
        resource: around.resource,
        scopeSpans: few(optional({ scope: around.scope, spans: few(span) })),
      }),
    ),
  }).map((request) => ({ signal: 'traces' as const, request })),
  optional({
    resourceLogs: few(
      optional({
        resource: around.resource,
        scopeLogs: few(optional({ scope: around.scope, logRecords: few(log) })),
      }),
    ),
  }).map((request) => ({ signal: 'logs' as const, request })),
);
