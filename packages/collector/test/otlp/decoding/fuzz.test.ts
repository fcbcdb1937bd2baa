/** Requests of recorded emitters and of any other, with parts that are changed, left out or inserted. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DecodingFault } from '../../../src/otlp/decoding/fault.js';
import type { Encoding, Signal } from '../../../src/otlp/decoded.js';
import { random, runs, SEED } from '../../../../../test/property-runs.js';
import { anyRequest, bothOf, decode, recordings } from './requests.js';

const COUNT = runs(100_000, 3000);
/** Larger ones say the same things more often. */
const MOST_BYTES = 16_384;
const PROTOTYPES = [Object.prototype, Array.prototype, String.prototype, Number.prototype];

type Sample = readonly [Signal, Encoding, Buffer];

const samples: readonly Sample[] = [
  ...recordings.map(({ signal, encoding, body }): Sample => [signal, encoding, body]),
  ...fc.sample(anyRequest, { numRuns: 200, seed: SEED }).flatMap(({ signal, request }): Sample[] => {
    const { json, protobuf } = bothOf(signal, request);
    return [
      [signal, 'json', Buffer.from(json)],
      [signal, 'protobuf', Buffer.from(protobuf)],
    ];
  }),
].filter(([, , { length }]) => length > 0 && length < MOST_BYTES);

const JSON_PARTS = [
  'null',
  '{}',
  '[]',
  '"x"',
  '-1',
  '1e999',
  '"__proto__"',
  '{"__proto__":{"x":1}}',
  '"\\ud800"',
  ',',
  '}',
  ']',
];

function mutated(body: Buffer, encoding: Encoding): Buffer {
  const at = random.below(body.length + 1);
  const end = Math.min(body.length, at + random.below(random.chance(3) ? body.length : 8));
  const [before, part, after] = [body.subarray(0, at), body.subarray(at, end), body.subarray(end)];
  switch (random.below(5)) {
    case 0:
      return Buffer.concat([before, after]);
    case 1:
      return Buffer.concat([before, part, part, after]);
    case 2:
      return Buffer.concat([before, Buffer.from(part.map(() => random.below(256))), after]);
    case 3:
      return Buffer.concat([before, random.of(samples)[2].subarray(0, random.below(64)), part, after]);
    default:
      return encoding === 'json'
        ? exchanged(body.toString())
        : Buffer.from(body.map((byte) => (random.chance(64) ? random.below(256) : byte)));
  }
}

/** Changes one of its values. */
function exchanged(json: string): Buffer {
  const values = [...json.matchAll(/"(?:[^"\\]|\\.)*"(?!:)|-?\d[\d.]*|true|false|null/gs)];
  if (values.length === 0) return Buffer.from(json);
  const { index, 0: value } = random.of(values);
  return Buffer.from(json.slice(0, index) + random.of(JSON_PARTS) + json.slice(index + value.length));
}

/** What the mapping may rely on. */
function check(value: unknown): void {
  if (typeof value === 'string') expect(value.isWellFormed()).toBe(true);
  else if (typeof value === 'number') expect(Number.isFinite(value)).toBe(true);
  else if (Array.isArray(value)) value.forEach(check);
  else if (typeof value === 'object' && value !== null) {
    expect(Object.getPrototypeOf(value)).toBeNull();
    for (const [name, member] of Object.entries(value)) {
      expect(name.isWellFormed()).toBe(true);
      check(member);
    }
  } else expect(value === null || typeof value === 'boolean').toBe(true);
}

test('any request is read or refused, and changes no prototype [R-1890]', () => {
  const namesOf = () => PROTOTYPES.map((prototype) => Reflect.ownKeys(prototype));
  const before = namesOf();
  let [read, refused] = [0, 0];
  for (let count = 0; count < COUNT; count++) {
    const [signal, encoding, body] = random.of(samples);
    let changed = mutated(body, encoding);
    while (random.chance(2) && changed.length > 0) changed = mutated(changed, encoding);
    try {
      for (const item of decode(signal, encoding, changed)) {
        read++;
        check(item.attributes);
        check(item.resource);
        if ('body' in item) check(item.body);
        else item.events.forEach(({ attributes }) => check(attributes));
        expect(item.traceId).toMatch(/^([0-9a-f]{32})?$/);
      }
    } catch (error) {
      if (!(error instanceof DecodingFault)) throw error;
      refused++;
      // Names of OTLP, numbers and words of ours.
      expect(error.message).toMatch(
        /^(the request [\w ,-]+|[a-zA-Z]+(\[\d+\])?(\.[a-zA-Z]+(\[\d+\])?)* is (not|neither) [\w -]+)$/,
      );
    }
  }
  expect(namesOf()).toEqual(before);
  expect(read).toBeGreaterThan(COUNT / 10);
  expect(refused).toBeGreaterThan(COUNT / 10);
});
