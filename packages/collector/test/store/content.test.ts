import { DOORS, type EventKind } from '@clinical-events/protocol';
import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { repeatOutcome, sameContent } from '../../src/store/content.js';
import { candidate } from './candidate.js';
import { growth, LINEAR } from '../running/growth.js';
import { runs } from '../../../../test/property-runs.js';

/** A JSON value whose numbers are exact: sign, decimal digits without zeros at either end, power of ten. */
type Exact =
  | null
  | boolean
  | string
  | { readonly negative: boolean; readonly digits: string; readonly power: bigint }
  | readonly Exact[]
  | ReadonlyMap<string, Exact>;

function isNumber(value: Exact): value is { negative: boolean; digits: string; power: bigint } {
  return typeof value === 'object' && value !== null && 'digits' in value;
}

/** The reference: one text for every value, however it is written. */
function canonical(value: Exact): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (isNumber(value)) {
    return value.digits === '' ? '0' : `${value.negative ? '-' : ''}${value.digits}e${value.power}`;
  }
  if (value instanceof Map) {
    const members = [...(value as ReadonlyMap<string, Exact>)].sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join()}}`;
  }
  return `[${(value as readonly Exact[]).map(canonical).join()}]`;
}

/** Draws how to write what may be written in more than one way. */
type Choose = (below: number) => number;

function writeNumber(
  { negative, digits, power }: { negative: boolean; digits: string; power: bigint },
  choose: Choose,
): string {
  const sign = negative ? '-' : '';
  if (digits === '') return `${sign}${['0', '0.0', '0e5', '0.00E-3'][choose(4)] ?? '0'}`;
  const zeros = '0'.repeat(choose(3));
  const all = digits + zeros;
  // The point anywhere in the digits, with the exponent to match.
  const whole = 1 + choose(all.length);
  const fraction = all.slice(whole);
  const exponent = power - BigInt(zeros.length) + BigInt(fraction.length);
  const mantissa = fraction === '' ? all : `${all.slice(0, whole)}.${fraction}`;
  if (exponent === 0n && choose(2) === 0) return sign + mantissa;
  const plus = exponent >= 0n ? (['', '+'][choose(2)] ?? '') : '-';
  const magnitude = exponent < 0n ? -exponent : exponent;
  return `${sign}${mantissa}${['e', 'E'][choose(2)] ?? 'e'}${plus}${'0'.repeat(choose(3))}${magnitude}`;
}

function writeString(text: string, choose: Choose): string {
  if (choose(2) === 0) return JSON.stringify(text);
  const escaped = Array.from(
    { length: text.length },
    (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`,
  );
  return `"${escaped.join('')}"`;
}

function write(value: Exact, choose: Choose): string {
  const space = () => ['', ' ', '\n', '\t\r '][choose(4)] ?? '';
  if (typeof value === 'string') return writeString(value, choose);
  if (value === null || typeof value === 'boolean') return JSON.stringify(value);
  if (isNumber(value)) return writeNumber(value, choose);
  if (value instanceof Map) {
    const members = [...(value as ReadonlyMap<string, Exact>)];
    for (let i = members.length - 1; i > 0; i--) {
      const j = choose(i + 1);
      const [a, b] = [members[i], members[j]];
      if (a && b) [members[i], members[j]] = [b, a];
    }
    const written = members.map(
      ([name, member]) =>
        `${space()}${writeString(name, choose)}${space()}:${space()}${write(member, choose)}`,
    );
    return `{${written.join(',')}${space()}}`;
  }
  return `[${(value as readonly Exact[]).map((item) => space() + write(item, choose)).join(',')}${space()}]`;
}

const number = fc
  .record({
    negative: fc.boolean(),
    digits: fc.stringMatching(/^([1-9]|[1-9]\d{0,40}[1-9])?$/),
    power: fc.oneof(fc.bigInt(-30n, 30n), fc.bigInt(-(10n ** 30n), 10n ** 30n)),
  })
  .map((parts) => (parts.digits === '' ? { ...parts, power: 0n } : parts));
const name = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', 'a', 'digits', 'exponent', ''),
  fc.string(),
);
const { value: exact } = fc.letrec<{ value: Exact }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, false),
    fc.string({ unit: 'grapheme' }),
    number,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.array(fc.tuple(name, tie('value')), { maxLength: 4 }).map((members) => new Map(members)),
  ),
}));

const same = (a: string, b: string) => sameContent(Buffer.from(a), Buffer.from(b));

test('[R-1921] content decides about a repeat, unless OTLP brought both: then it is not read', () => {
  const body = Buffer.from('{"a":1}');
  for (const stored of DOORS)
    for (const door of DOORS) {
      const of = (text: string, found: Buffer | undefined, kind: EventKind = 'outcome') =>
        repeatOutcome({ kind: 'outcome', door: stored }, candidate({ kind, door, body: text }), () => found);
      const isSpan = stored === 'otlp' && door === 'otlp';
      expect(of('{ "a": 1 }', body)).toBe('duplicate');
      expect(of('{"a":2}', body)).toBe(isSpan ? 'duplicate' : 'conflict');
      expect(of('{"a":1}', body, 'human-output')).toBe('conflict');
      expect(of('{"a":1}', undefined)).toBe(isSpan ? 'duplicate' : 'unreadable');
    }
});

describe('sameContent', () => {
  test('two values are equal exactly when the reference says so', () => {
    fc.assert(
      fc.property(exact, exact, fc.infiniteStream(fc.nat()), (a, b, stream) => {
        const choose = (below: number) => (stream.next().value as number) % below;
        expect(same(write(a, choose), write(b, choose))).toBe(canonical(a) === canonical(b));
      }),
      { numRuns: runs(2000) },
    );
  });

  test.each([
    ['9007199254740992', '9007199254740993'],
    ['12345678901234567890', '12345678901234567891'],
    ['1e400', '1e500'],
    ['1e400', '-1e400'],
    ['1e-400', '0'],
    ['0.1', '0.1000000000000000055511151231257827'],
    ['1e99999999999999999999', '1e99999999999999999998'],
    ['1', '"1"'],
    ['1', '[1]'],
    ['0', 'false'],
    ['0', 'null'],
    ['""', 'null'],
    ['{}', '[]'],
    ['[]', '[[]]'],
    ['[1,2]', '[2,1]'],
    ['{"0":1}', '[1]'],
    ['{"a":null}', '{}'],
    ['{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}'],
    ['{"__proto__":{"a":1}}', '{}'],
    ['{"__proto__":null}', '{}'],
    ['{"a":1,"__proto__":{}}', '{"a":1}'],
    ['{"digits":"1","exponent":0}', '1'],
    ['{"a":{"b":1}}', '{"a":{"b":1,"c":1}}'],
    ['"a"', '"A"'],
    ['"é"', '"e\\u0301"'],
    ['"\\ud800"', '"\\ud801"'],
  ])('%s is not %s', (a, b) => {
    expect(same(a, b)).toBe(false);
    expect(same(b, a)).toBe(false);
    expect(same(`{"x":[${a}]}`, `{"x":[${b}]}`)).toBe(false);
  });

  test.each([
    ['-0', '0'],
    ['1e2', '100'],
    ['1.50e+1', '15'],
    ['0.0e999999999999999999999', '0'],
    ['1000e99999999999999999999', '1E100000000000000000002'],
    ['{"__proto__":{"a":1},"b":2}', '{"b":2.0, "__proto__":{"a":10e-1}}'],
    ['"\\u00e9\\/"', '"é/"'],
  ])('%s is %s', (a, b) => {
    expect(same(a, b)).toBe(true);
  });

  const ID = '5b0f2c1e-6c1d-4f57-9a0e-3a1f6d1b7c01';
  const UPPER = ID.toUpperCase();
  const FIRST_ESCAPED = UPPER.replace('B', String.raw`\u0042`);

  test.each(['event_id', 'run_id', 'parent_event_id', String.raw`run\u005fid`])(
    'the member %s of an event compares as a UUID [R-1416]',
    (name) => {
      for (const id of [UPPER, FIRST_ESCAPED]) {
        expect(same(`{"${name}":"${ID}","a":1}`, `{"a":1.0, "${name}":"${id}"}`)).toBe(true);
        expect(same(`{"${name}":"${id}","a":1}`, `{"a":1.0, "${name}":"${ID}"}`)).toBe(true);
        expect(same(`{"${name}":"${id}","a":1}`, `{"a":1.0, "${name}":"${ID.replace('5b', '5c')}"}`)).toBe(
          false,
        );
        expect(same(`{"a":{"${name}":"${ID}"}}`, `{"a":{"${name}":"${id}"}}`)).toBe(false);
        expect(same(`[{"${name}":"${ID}"}]`, `[{"${name}":"${id}"}]`)).toBe(false);
      }
      expect(same(`{"${name}":null}`, `{"${name}":"${ID}"}`)).toBe(false);
      expect(same(`{"${name}":null}`, `{"${name}":null }`)).toBe(true);
      expect(same(`{"${name}":null}`, '{}')).toBe(false);
      expect(same(`{"x":"${ID}"}`, `{"x":"${UPPER}"}`)).toBe(false);
    },
  );

  test('values of the greatest depth that can be configured are compared', () => {
    const deep = (inner: string) => '['.repeat(1024) + inner + ']'.repeat(1024);
    expect(same(deep('1'), deep(' 1.0 '))).toBe(true);
    expect(same(deep('1'), deep('2'))).toBe(false);
  });
});

test.each([
  ['small numbers', '1,', '1'],
  ['empty objects', '{},', '{}'],
  ['numbers of two spellings', '1.0,', '1'],
])('a body of a MiB of %s is compared in one pass [R-803]', (_, item, last) => {
  const compare = (bytes: number) => {
    const items = item.repeat(Math.floor(bytes / item.length));
    const [a, b] = [`[${items}${last}]`, ` [${items}${last.replace('1', '1.00')}]`].map((text) =>
      Buffer.from(text),
    );
    expect(sameContent(a as Buffer, b as Buffer)).toBe(true);
  };
  expect(growth(compare, 1 << 17)).toBeLessThan(LINEAR);
});

describe('the work of a comparison [R-304]', () => {
  afterEach(() => vi.unstubAllGlobals());

  /** How often a unit of either text, or a word of what was found in it, is read. */
  function unitsRead(a: string, b: string): number {
    let read = 0;
    const counted = <T extends Uint16Array | Int32Array>(units: T) =>
      new Proxy(units, {
        get(target, name) {
          if (typeof name === 'string' && /^\d/.test(name)) read++;
          const value = Reflect.get(target, name, target) as unknown;
          return typeof value === 'function' ? (value.bind(target) as unknown) : value;
        },
      });
    const [Units, Words] = [Uint16Array, Int32Array];
    const unitsOf = { construct: (_: unknown, [length]: [number]) => counted(new Units(length)) };
    const wordsOf = { construct: (_: unknown, [length]: [number]) => counted(new Words(length)) };
    vi.stubGlobal('Uint16Array', new Proxy(Units, unitsOf));
    vi.stubGlobal('Int32Array', new Proxy(Words, wordsOf));
    expect(same(a, b)).toBe(true);
    vi.unstubAllGlobals();
    return read;
  }

  /** Nested objects, this deep, and in each of them the members the other way round in the second text. */
  function reversed(depth: number, inner: string): [string, string] {
    let [a, b] = [inner, inner];
    for (let i = 0; i < depth; i++) [a, b] = [`{"a":${a},"z":1}`, `{"z":1,"a":${b}}`];
    return [a, b];
  }

  test.each([1, 16, 256, 1023])('is linear in the number of characters, at depth %i', (depth) => {
    const inner = `[${'{"b":1},'.repeat(3000)}0]`;
    const [a, b] = reversed(depth, inner);
    const read = unitsRead(a, b);
    expect(read).toBeGreaterThan(a.length);
    expect(read).toBeLessThan(25 * a.length);
  });

  test('is linear in the number of characters, with many names, escapes in names and long numbers', () => {
    const names = Array.from({ length: 2000 }, (_, i) => `\\u006b${i.toString(36)}`);
    const members = names.map((each) => `"${each}":1${'0'.repeat(20)}e-1${'0'.repeat(20)}`);
    const a = `{${members.join()}}`;
    const b = `{${members.toReversed().join().replaceAll('\\u006b', 'k')}}`;
    const read = unitsRead(a, b);
    expect(read).toBeGreaterThan(a.length);
    expect(read).toBeLessThan(25 * a.length);
  });

  test('is linear in the number of characters, with names that differ only at the end', () => {
    const members = Array.from({ length: 4000 }, (_, i) => `"${String.fromCharCode(0x3400 + i)}":0`).join();
    const a = `[${Array<string>(4).fill(`{${members}}`).join()}]`;
    const read = unitsRead(a, `${a} `);
    expect(read).toBeGreaterThan(a.length);
    expect(read).toBeLessThan(25 * a.length);
  });
});
