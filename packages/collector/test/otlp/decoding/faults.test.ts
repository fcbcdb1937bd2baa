/** Requests that are not OTLP, or exceed its limits. */
import { describe, expect, test } from 'vitest';
import { decodeLogs, decodeSpans } from '../../../src/otlp/decoding/decode.js';
import { DecodingFault } from '../../../src/otlp/decoding/fault.js';
import type { Encoding } from '../../../src/otlp/decoded.js';
import { growth, LINEAR } from '../../running/growth.js';
import { bothOf, jsonOf, recorded, valueIn, withAttributes, withSpans, withValue } from './requests.js';

const ENCODINGS: readonly Encoding[] = ['json', 'protobuf'];

/** Code and message of its fault. */
function faultOf(
  encoding: Encoding,
  body: Uint8Array | string,
  decode = decodeSpans as (...its: never) => unknown,
) {
  try {
    (decode as typeof decodeSpans)(Buffer.from(body as string), encoding);
  } catch (error) {
    if (error instanceof DecodingFault) return `${error.code}: ${error.message}`;
    throw error;
  }
  return undefined;
}

const at = (place: string, problem: string) =>
  `malformed: resourceSpans[0].scopeSpans[0].${place} is ${problem}`;

describe('JSON', () => {
  test.each([
    ['', 'malformed: the request is not JSON'],
    ['{"resourceSpans":[', 'malformed: the request is not JSON'],
    ['[]', 'malformed: the request is not a JSON object'],
    ['null', 'malformed: the request is not a JSON object'],
    [Buffer.from([0x22, 0xff, 0x22]), 'malformed: the request is not UTF-8'],
    ['{"resourceSpans":{}}', 'malformed: resourceSpans is not a list of objects'],
    ['{"resourceSpans":[null]}', 'malformed: resourceSpans is not a list of objects'],
    ['{"resourceSpans":[{"resource":[]}]}', 'malformed: resourceSpans[0].resource is not an object'],
    [jsonOf(withSpans({}, { name: 5 })), at('spans[1].name', 'not a string')],
    [jsonOf(withSpans({ traceId: 5 })), at('spans[0].traceId', 'not a string')],
    [
      jsonOf(withSpans({ startTimeUnixNano: -1 })),
      at('spans[0].startTimeUnixNano', 'not a time in nanoseconds'),
    ],
    [
      jsonOf(withSpans({ startTimeUnixNano: 'now' })),
      at('spans[0].startTimeUnixNano', 'not a time in nanoseconds'),
    ],
    [
      jsonOf(withSpans({ endTimeUnixNano: '18446744073709551616' })),
      at('spans[0].endTimeUnixNano', 'not a time in nanoseconds'),
    ],
    [
      jsonOf(withSpans({ status: { code: 'STATUS_CODE_ERROR' } })),
      at('spans[0].code', 'not a 32-bit integer'),
    ],
    [
      jsonOf(withSpans({ droppedAttributesCount: 2 ** 32 })),
      at('spans[0].droppedAttributesCount', 'not a 32-bit integer'),
    ],
    [
      jsonOf(withSpans({ events: [{ timeUnixNano: 1.5 }] })),
      at('spans[0].events[0].timeUnixNano', 'not a time in nanoseconds'),
    ],
    [jsonOf(withAttributes({ key: 7 })), at('spans[0].attributes[0].key', 'not a string')],
    [
      jsonOf(withAttributes({ key: 'k', value: 'secret' })),
      at('spans[0].attributes[0].value', 'not an object'),
    ],
    [jsonOf(withValue({ stringValue: 1 })), at('spans[0].attributes[0].stringValue', 'not a string')],
    [
      jsonOf(withValue({ boolValue: 'true' })),
      at('spans[0].attributes[0].boolValue', 'neither true nor false'),
    ],
    [jsonOf(withValue({ intValue: '1.5' })), at('spans[0].attributes[0].intValue', 'not a 64-bit integer')],
    [jsonOf(withValue({ intValue: 1.5 })), at('spans[0].attributes[0].intValue', 'not a 64-bit integer')],
    [
      jsonOf(withValue({ intValue: '9223372036854775808' })),
      at('spans[0].attributes[0].intValue', 'not a 64-bit integer'),
    ],
    [jsonOf(withValue({ doubleValue: 'much' })), at('spans[0].attributes[0].doubleValue', 'not a number')],
    [jsonOf(withValue({ bytesValue: '*' })), at('spans[0].attributes[0].bytesValue', 'not base64')],
    [jsonOf(withValue({ arrayValue: [] })), at('spans[0].attributes[0].arrayValue', 'not an object')],
    [
      jsonOf(
        withValue({
          kvlistValue: { values: [{}, { key: 'secret', value: { arrayValue: { values: [5] } } }] },
        }),
      ),
      at('spans[0].attributes[0].values[1].values', 'not a list of objects'),
    ],
  ])('%s is refused with the place of the fault, and without its content [R-1890]', (body, fault) => {
    expect(faultOf('json', body)).toBe(fault);
  });

  test('a log record is refused in the same way [R-1890]', () => {
    const body = jsonOf({
      resourceLogs: [{ scopeLogs: [{ logRecords: [{ body: { intValue: 'secret' } }] }] }],
    });
    const fault = 'malformed: resourceLogs[0].scopeLogs[0].logRecords[0].intValue is not a 64-bit integer';
    expect(faultOf('json', body, decodeLogs)).toBe(fault);
  });

  test('forms that SDKs send outside the specification are read, and names of the .proto are not [R-1890]', () => {
    const value = (said: object) => valueIn('json', jsonOf(withValue(said)));
    expect(value({ intValue: 5 })).toBe(5);
    expect(value({ intValue: 2 ** 60 })).toBe(String(2n ** 60n));
    expect(value({ intValue: 1e300 })).toBe(1e300);
    expect(value({ intValue: -0 })).toBe(0);
    expect(value({ doubleValue: '0.5' })).toBe(0.5);
    expect(value({ bytesValue: '-_8' })).toBe('+/8=');
    expect(value({ stringValue: null, intValue: '6', futureValue: 7 })).toBe(6);
    expect(value({ stringValue: 'first', boolValue: true })).toBe(true);
    expect(
      valueIn(
        'json',
        Buffer.from(
          '{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":{"doubleValue":1e999}}]}]}]}]}',
        ),
      ),
    ).toBeNull();
    expect(value({ stringValue: 'a\ud800' })).toBe('a\ufffd');
    const span = {
      start_time_unix_nano: '5',
      startTimeUnixNano: 1_795_753_195_905_000_000,
      name: null,
      attributes: null,
    };
    expect(decodeSpans(jsonOf(withSpans(span)), 'json')[0]).toMatchObject({
      start: 1_795_753_195_904_999_936n,
      name: '',
    });
    expect(decodeSpans(jsonOf({ resource_spans: [{}] }), 'json')).toEqual([]);
  });
});

describe('protobuf', () => {
  const whole = recorded('28-').body;
  const NO_PROTOBUF = 'malformed: the request is not OTLP in protobuf';

  test('an empty body is a request without spans [R-1890]', () => {
    expect(decodeSpans(Buffer.alloc(0), 'protobuf')).toEqual([]);
  });

  test('a request that is cut off anywhere is refused [R-1890]', () => {
    for (let length = 1; length < whole.length; length++) {
      expect(faultOf('protobuf', whole.subarray(0, length))).toBe(NO_PROTOBUF);
    }
  });

  test.each([
    ['a message longer than the one around it', [0x0a, 0x02, 0x12, 0x05, 0x12, 0x00, 0x00, 0x00]],
    ['a wrong wire type', [0x08, 0x01]],
    ['field 0', [0x02, 0x00]],
    ['an invalid wire type', [0x0f, 0x00]],
    ['the end of a group without its start', [0x0c]],
    ['an unknown group without an end', [0x1b, 0x08, 0x01]],
    ['a tag of more than 32 bits', [0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00]],
    ['text that is not UTF-8', [0x0a, 0x07, 0x12, 0x05, 0x12, 0x03, 0x2a, 0x01, 0xff]],
  ])('%s is refused [R-1890]', (_, bytes) => {
    expect(faultOf('protobuf', Buffer.from(bytes))).toBe(NO_PROTOBUF);
  });

  test('unknown fields and groups are skipped [R-1890]', () => {
    const unknown = Buffer.from([
      0x1b, 0x08, 0x01, 0x1c, 0xf8, 0x01, 0x05, 0x1a, 0x01, 0x07, 0x1d, 1, 2, 3, 4, 0x19, 1, 2, 3, 4, 5, 6, 7,
      8,
    ]);
    const request = Buffer.concat([unknown, whole, unknown]);
    expect(decodeSpans(request, 'protobuf')).toEqual(decodeSpans(whole, 'protobuf'));
  });
});

describe.each(ENCODINGS)('in %s', (encoding) => {
  const bodyOf = (request: object) => bothOf('traces', request)[encoding];
  const nested = (levels: number, inner: object = { intValue: 1 }): object =>
    levels === 0 ? inner : { kvlistValue: { values: [{ key: 'k', value: nested(levels - 1, inner) }] } };

  test('a hundred nested messages are read, and no more [R-1890]', () => {
    // Request, resource, scope, span, attribute and its value; then three messages a level, and two for a list.
    const array = { arrayValue: { values: [{}] } };
    const most = bodyOf(
      withValue(nested(30, { arrayValue: { values: [{ arrayValue: { values: [{}] } }] } })),
    );
    expect(JSON.stringify(valueIn(encoding, most))).toContain('[[null]]');
    const more = bodyOf(withValue(nested(31, array)));
    expect(faultOf(encoding, more)).toBe('too_deep: the request has more than 100 levels');
    expect(faultOf(encoding, bodyOf(withValue(nested(300))))).toMatch(/^too_deep/);
  });

  test('text that looks like JSON is text, however deep [R-1890]', () => {
    const words = `${'[{"\\"'.repeat(500)}${'['.repeat(2 ** 20)}`;
    expect(valueIn(encoding, bodyOf(withValue({ stringValue: words })))).toBe(words);
  });

  test('10,000 spans, and a name of 1 MiB, are read [R-1890]', () => {
    const key = 'n'.repeat(2 ** 20);
    const spans = Array.from({ length: 10_000 }, (_, index) => ({
      name: `span ${index}`,
      attributes: [{ key: index === 77 ? key : 'k', value: { intValue: index } }],
    }));
    const read = decodeSpans(bodyOf(withSpans(...spans)), encoding);
    expect(read.map(({ name }) => name)).toEqual(spans.map(({ name }) => name));
    expect(read[77]?.attributes[key]).toBe(77);
  });

  test('the time is linear in the number of spans and attributes [R-1890]', () => {
    const kinds: ((size: number) => object)[] = [
      (size) => withSpans(...Array.from({ length: size }, () => ({ name: 'a' }))),
      (size) => withAttributes(...Array.from({ length: size }, (_, index) => ({ key: `k${index}` }))),
      (size) =>
        withAttributes(...Array.from({ length: size }, (_, index) => ({ key: String(index * 4099) }))),
    ];
    for (const kind of kinds) {
      const bodies = new Map([512, 4096].map((size) => [size, bodyOf(kind(size))]));
      expect(growth((size) => decodeSpans(bodies.get(size) ?? Buffer.alloc(0), encoding), 512)).toBeLessThan(
        LINEAR,
      );
    }
  });
});

describe('a request of few bytes and many parts is refused [R-1890]', () => {
  /** Of protobuf: a field of bytes. */
  function field(number: number, bytes: Uint8Array): Buffer {
    const length: number[] = [];
    for (let left = bytes.length; ; left >>>= 7) {
      length.push(left < 128 ? left : (left & 127) | 128);
      if (left < 128) break;
    }
    return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), bytes]);
  }
  const times = (bytes: Uint8Array, count: number) => Buffer.alloc(bytes.length * count, bytes);
  const spanOf = (bytes: Uint8Array) => field(1, field(2, field(2, bytes)));
  const MESSAGES = 'too_many: the request has more than 2097152 messages';
  const MARKS = 'too_many: the request has more than 4194304 objects, lists and commas';
  const ITEMS = 'too_many: the request has more than 262144 spans, events and log records';
  const listed = (text: string, count: number) =>
    `${Buffer.alloc((count - 1) * (text.length + 1), `${text},`).toString()}${text}`;

  test.each<[string, Encoding, () => Uint8Array, string]>([
    [
      '4 million empty attributes',
      'protobuf',
      () => spanOf(times(field(9, Buffer.alloc(0)), 4_000_000)),
      MESSAGES,
    ],
    ['2.1 million resources', 'protobuf', () => times(field(1, Buffer.alloc(0)), 2_100_000), MESSAGES],
    ['262,145 spans', 'protobuf', () => field(1, field(2, times(field(2, Buffer.alloc(0)), 262_145))), ITEMS],
    ['262,145 events', 'protobuf', () => spanOf(times(field(11, Buffer.alloc(0)), 262_145)), ITEMS],
    ['4 million empty attributes', 'json', () => Buffer.from(`{"x":[${listed('{}', 4_000_000)}]}`), MARKS],
    ['4.2 million numbers', 'json', () => Buffer.from(`{"x":[${listed('0', 4_200_000)}]}`), MARKS],
    [
      '262,145 spans',
      'json',
      () => Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[${listed('{}', 262_145)}]}]}]}`),
      ITEMS,
    ],
  ])('%s in %s', (_, encoding, body, fault) => {
    expect(faultOf(encoding, body())).toBe(fault);
  });
});
