import fc from 'fast-check';
import { expect, test } from 'vitest';
import { JsonScan, MemberName } from '../../src/records/json-scan.js';
import { parseExact } from '../../src/records/raw-json.js';
import { runs } from '../../../../test/property-runs.js';

const scan = new JsonScan();

/** The members of an object as its scan has them; undefined when it is not plain. */
function scanned(text: string): Map<string, string> | undefined {
  const bytes = Buffer.from(`?${text}?`);
  scan.begin(bytes);
  const object = scan.scan(1, bytes.length - 1);
  return object < 0 ? undefined : membersOf(object);
}

function membersOf(object: number): Map<string, string> {
  const found = new Map<string, string>();
  for (let member = scan.first(object); member >= 0; member = scan.after(member, object)) {
    const [from, to] = [scan.from(member), scan.to(member)];
    const nameFrom = scan.bytes.lastIndexOf('"', from - 3) + 1;
    found.set(scan.bytes.toString('utf8', nameFrom, from - 2), scan.bytes.toString('utf8', from, to));
  }
  return found;
}

const key = fc.oneof(
  fc.constantFrom('a', 'b', 'ab', 'aab', 'abb', '__proto__', 'model_id', 'é', '7', ''),
  fc.string({ maxLength: 4 }),
);
const objectOf = (members: readonly (readonly [string, string])[]) =>
  `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
const { object } = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(
      '0',
      '-0',
      '1.50',
      '1E+400',
      '-12.5e-3',
      'true',
      'false',
      'null',
      '""',
      '"\\u00e9"',
      '"\\/"',
    ),
    fc.string({ unit: 'binary', maxLength: 8 }).map((text) => JSON.stringify(text)),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(',')}]`),
    tie('object'),
  ),
  object: fc.array(fc.tuple(key, tie('value')), { maxLength: 5 }).map(objectOf),
}));

test('a plain object has the members that JSON.parse finds, each as JSON.stringify writes it [R-712]', () => {
  let plain = 0;
  fc.assert(
    fc.property(object, (text) => {
      const found = scanned(text);
      if (found === undefined) return;
      plain++;
      expect(JSON.stringify(parseExact(text))).toBe(text);
      const parsed = parseExact(text) as Record<string, unknown>;
      expect([...found]).toEqual(Object.keys(parsed).map((name) => [name, JSON.stringify(parsed[name])]));
    }),
    { numRuns: runs(2000) },
  );
  expect(plain).toBeGreaterThan(runs(200));
});

test.each([
  ['white space', '{"a": 1}'],
  ['white space at the end', '{"a":1} '],
  ['a name twice', '{"a":1,"b":2,"a":3}'],
  ['a name twice in a nested object', '{"a":[{"b":{"c":1,"c":2}}]}'],
  ['a name that JavaScript puts first', '{"a":1,"7":2}'],
  ['an escape in a name', '{"\\n":1}'],
  ['an escape that is not needed', '{"a":"\\/"}'],
  ['an escape in another spelling', '{"a":"\\u000A"}'],
  ['a list', '[1]'],
  ['nothing', ''],
  ['a string without an end', '{"a":"b'],
  ['an object without an end', '{"a":{"b":1}'],
  ['too many levels', `{"a":${'['.repeat(100)}${']'.repeat(100)}}`],
  ['too many names', `{${Array.from({ length: 200 }, (_, i) => `"a${i}":1`).join(',')}}`],
])('%s is not plain [R-712]', (_, text) => {
  expect(scanned(text)).toBeUndefined();
});

test('a member is found two levels deep, and in no other object [R-712]', () => {
  const text = '{"a":{"c":"\\n","deep":{"d":1}},"list":[{"d":2}],"b":{"d":3,"dx":4}}';
  const bytes = Buffer.from(text);
  scan.begin(bytes);
  const event = scan.scan(0, bytes.length);
  const find = (name: string, within = event) => scan.find(within, new MemberName(name));
  expect(find('d')).toBe(-1);
  expect(find('d', find('a'))).toBe(-1);
  expect(scan.isEscaped(find('c', find('a')))).toBe(true);
  expect(scan.isObject(find('deep', find('a')))).toBe(true);
  const d = find('d', find('b'));
  expect(bytes.toString('utf8', scan.from(d), scan.to(d))).toBe('3');
  expect(scan.isString(d)).toBe(false);
});

test('objects of many members are unchanged while others are scanned [R-712]', () => {
  const texts = Array.from(
    { length: 200 },
    (_, i) => `{${'abcdef'.replace(/./g, (c) => `"${c}":${i},`).slice(0, -1)}}`,
  );
  const bytes = Buffer.from(texts.join(''));
  scan.begin(bytes);
  let at = 0;
  const objects = texts.map((text) => scan.scan(at, (at += text.length)));
  for (const [i, object] of objects.entries()) {
    expect([...membersOf(object).values()]).toEqual(Array<string>(6).fill(String(i)));
  }
});
