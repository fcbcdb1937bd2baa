/** Spans and log records are the same in protobuf and in JSON. */
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeLogs, decodeSpans } from '../../../src/otlp/decoding/decode.js';
import type { Encoding } from '../../../src/otlp/decoded.js';
import { jsonOf as spansRead } from '../../../../exports/test/otlp-reader.js';
import { runs } from '../../../../../test/property-runs.js';
import {
  anyRequest,
  bothOf,
  decode,
  jsonOf,
  protobufOf,
  recorded,
  recordings,
  valueIn,
  withAttributes,
  withSpans,
  withValue,
} from './requests.js';

const TRACE = '5b8efff798038103d269b633813fc60c';
const SPAN = 'eee19b7ec3c1b174';
const ENCODINGS: readonly Encoding[] = ['json', 'protobuf'];

describe('recordings', () => {
  test.each(recordings.filter(({ encoding }) => encoding === 'json'))(
    '$file means the same in protobuf [R-1890]',
    ({ signal, body }) => {
      const read = decode(signal, 'json', body);
      expect(read.length).toBeGreaterThan(0);
      expect(decode(signal, 'protobuf', protobufOf(signal, JSON.parse(body.toString())))).toStrictEqual(read);
    },
  );

  test.each(recordings.filter(({ encoding }) => encoding === 'protobuf'))(
    '$file is read as by the definitions of OpenTelemetry [R-1890]',
    ({ signal, body }) => {
      const read = decode(signal, 'protobuf', body);
      expect(read.length).toBeGreaterThan(0);
      if (signal === 'traces') expect(decode(signal, 'json', jsonOf(spansRead(body)))).toStrictEqual(read);
    },
  );

  test.each([
    [
      '08-genai-sdk3-structured-and-details-log/request.json',
      '09-genai-sdk3-structured-and-details-log-proto/request',
    ],
    [
      '08-genai-sdk3-structured-and-details-log/logs-2.json',
      '09-genai-sdk3-structured-and-details-log-proto/logs-2',
    ],
    ['95-traceloop-sdk-workflow/request.json', '95-traceloop-sdk-workflow-proto/request'],
  ])('the SDK sent %s in protobuf too, and it means the same [R-1890]', (json, protobuf) => {
    const said = (file: string) => {
      const { signal, encoding, body } = recorded(file);
      const read = decode(signal, encoding, body);
      // Those of one scenario that ran twice.
      return read.map((item) => ({
        ...item,
        traceId: '',
        spanId: '',
        parentSpanId: '',
        start: 0,
        end: 0,
        time: 0,
      }));
    };
    expect(said(`${protobuf}.pb.base64`)).toStrictEqual(said(json));
  });

  test('a request of a Vercel AI SDK in protobuf is read as its README says [R-1890]', () => {
    const { body } = recorded('28-');
    const spans = decodeSpans(body, 'protobuf');
    expect(spans.map(({ name }) => name)).toEqual([
      'ai.generateText.doGenerate',
      'ai.toolCall',
      'ai.generateText.doGenerate',
      'ai.generateText',
    ]);
    const [model, tool, , outer] = spans as [
      (typeof spans)[0],
      (typeof spans)[0],
      unknown,
      (typeof spans)[0],
    ];
    expect(tool.attributes).toMatchObject({ 'ai.toolCall.name': 'get_potassium' });
    expect(model.attributes).toMatchObject({ 'ai.model.id': 'gpt-4o', 'ai.settings.maxRetries': 2 });
    expect(model).toMatchObject({ parentSpanId: outer.spanId, traceId: outer.traceId, scope: 'ai' });
    expect(outer).toMatchObject({ parentSpanId: '', isParentRemote: false, droppedAttributesCount: 0 });
    expect(model.start).toBeGreaterThanOrEqual(outer.start);
    expect(model.end).toBeLessThanOrEqual(outer.end);
  });
});

test('any request means the same in either encoding [R-1890]', () => {
  fc.assert(
    fc.property(anyRequest, ({ signal, request }) => {
      const { json, protobuf } = bothOf(signal, request);
      // toStrictEqual asks objects for their constructor.
      expect(isDeepStrictEqual(decode(signal, 'json', json), decode(signal, 'protobuf', protobuf))).toBe(
        true,
      );
    }),
    { numRuns: runs(5000) },
  );
});

describe.each(ENCODINGS)('in %s', (encoding) => {
  const spansIn = (request: object) => decodeSpans(bothOf('traces', request)[encoding], encoding);
  const logsIn = (request: object) => decodeLogs(bothOf('logs', request)[encoding], encoding);
  const value = (said: object) => valueIn(encoding, bothOf('traces', withValue(said))[encoding]);

  test('a span has its own attributes and those around it [R-1890]', () => {
    const request = {
      resourceSpans: [
        {
          resource: { attributes: [{ key: 'service.name', value: { stringValue: 'ward' } }] },
          scopeSpans: [
            {
              scope: { name: 'hand', version: '1.2' },
              spans: [
                {
                  ...{
                    traceId: TRACE.toUpperCase(),
                    spanId: SPAN,
                    parentSpanId: '00000000000000ff',
                    name: 'chat',
                  },
                  ...{ startTimeUnixNano: '1795753195905000001', endTimeUnixNano: '18446744073709551615' },
                  ...{
                    attributes: [{ key: 'a', value: { intValue: 5 } }],
                    droppedAttributesCount: 3,
                    flags: 0x301,
                  },
                  ...{ status: { code: 2, message: 'no' }, kind: 3 },
                  events: [{ name: 'exception', timeUnixNano: '12', attributes: [{ key: 'b' }] }],
                },
                { flags: 0x100 },
              ],
            },
            { spans: [{}] },
          ],
        },
      ],
    };
    const [first, second, third] = spansIn(request);
    expect(first).toEqual({
      ...{
        traceId: TRACE,
        spanId: SPAN,
        parentSpanId: '00000000000000ff',
        isParentRemote: true,
        name: 'chat',
      },
      ...{
        start: 1_795_753_195_905_000_001n,
        end: 2n ** 64n - 1n,
        status: { code: 2 },
        attributes: { a: 5 },
      },
      ...{
        droppedAttributesCount: 3,
        scope: 'hand',
        scopeVersion: '1.2',
        resource: { 'service.name': 'ward' },
      },
      events: [{ name: 'exception', time: 12n, attributes: { b: null } }],
    });
    expect(second).toMatchObject({
      isParentRemote: false,
      traceId: '',
      name: '',
      start: 0n,
      status: { code: 0 },
    });
    expect(third).toMatchObject({ isParentRemote: undefined, scope: '', events: [], attributes: {} });
    expect(third?.resource).toBe(first?.resource);
  });

  test('a log record has its name, or that of older senders, and its time or time of observation [R-1890]', () => {
    const older = { attributes: [{ key: 'event.name', value: { stringValue: 'gen_ai.choice' } }] };
    const logRecords = [
      {
        ...older,
        eventName: 'newer',
        timeUnixNano: '5',
        observedTimeUnixNano: '6',
        traceId: TRACE,
        spanId: SPAN,
      },
      { ...older, observedTimeUnixNano: '6', body: { kvlistValue: { values: [{ key: 'x' }] } } },
      { attributes: [{ key: 'event.name', value: { intValue: 7 } }], body: { stringValue: 'words' } },
    ];
    const [first, second, third] = logsIn({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
    expect(first).toMatchObject({ eventName: 'newer', time: 5n, traceId: TRACE, spanId: SPAN, body: null });
    expect(second).toMatchObject({ eventName: 'gen_ai.choice', time: 6n, traceId: '', body: { x: null } });
    expect(third).toMatchObject({ eventName: '', time: 0n, body: 'words' });
  });

  test('an id of a wrong length, or of zeros, is left out [R-1890]', () => {
    const [zeros, long, short] = spansIn(
      withSpans(
        { traceId: '0'.repeat(32), spanId: '0'.repeat(16), parentSpanId: '0'.repeat(16) },
        { traceId: `${TRACE}00`, spanId: TRACE, parentSpanId: TRACE },
        { traceId: SPAN, spanId: 'ab', parentSpanId: '01' },
      ),
    );
    for (const span of [zeros, long, short])
      expect(span).toMatchObject({ traceId: '', spanId: '', parentSpanId: '' });
  });

  test('numbers are exact or their digits, others are null; bytes are base64 [R-1890]', () => {
    expect(value({ intValue: '9007199254740991' })).toBe(Number.MAX_SAFE_INTEGER);
    expect(value({ intValue: '9007199254740993' })).toBe('9007199254740993');
    expect(value({ intValue: '-9223372036854775808' })).toBe('-9223372036854775808');
    expect(value({ intValue: '-0' })).toBe(0);
    expect(value({ doubleValue: 1e300 })).toBe(1e300);
    for (const none of ['NaN', 'Infinity', '-Infinity']) expect(value({ doubleValue: none })).toBeNull();
    expect(value({ bytesValue: 'AP+/' })).toBe('AP+/');
    expect(value({})).toBeNull();
  });

  test('names of members of every object are plain names, and the last of repeated names counts [R-1890]', () => {
    const named = (key: string, words: string) => ({ key, value: { stringValue: words } });
    const values = [
      named('__proto__', 'a'),
      named('constructor', 'b'),
      named('k', 'first'),
      named('k', 'last'),
    ];
    const inner = { key: 'inner', value: { arrayValue: { values: [{ kvlistValue: { values } }] } } };
    const [span] = spansIn(withAttributes(...values, inner));
    const [nested] = span?.attributes['inner'] as [object];
    for (const fields of [span?.attributes, nested]) {
      expect(Object.getPrototypeOf(fields)).toBeNull();
      expect(Object.entries(fields ?? {}).slice(0, 3)).toEqual([
        ['__proto__', 'a'],
        ['constructor', 'b'],
        ['k', 'last'],
      ]);
    }
    expect(Object.getPrototypeOf(span?.resource)).toBeNull();
    expect({}).not.toHaveProperty('k');
  });
});
