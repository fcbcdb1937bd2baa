/** The client sends a value exactly as given, or refuses it. */
import vm from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runs } from '../../../test/property-runs.js';
import type { Client, EventInvalid } from '../src/index.js';
import { jsonCopy, NoJson } from '../src/json-value.js';
import { fakeCollector } from './running/fake-collector.js';
import { hurriedClient, temporaryDirectory } from './running/hurried-client.js';

const LIMITS = { bytes: 1 << 20, levels: 64 };
const AWAY = 'http://127.0.0.1:9';
const HALF = '\ud83d';

class Hidden {
  readonly #name = 'SECRET';
  get name() {
    return this.#name;
  }
}

class Named extends Error {
  readonly [Symbol.toStringTag] = 'PrismaClientKnownRequestError';
}
class NamedMap extends Map<string, string> {
  override readonly [Symbol.toStringTag] = 'Named';
}

const circle: Record<string, unknown> = {};
circle['inner'] = { circle };
const coded = Object.assign(new Error('SECRET'), { code: 'SECRET' });
/** An array with a hole in it. */
const sparse = new Array<number>(2);

const NO_VALUES: [string, unknown][] = [
  ['NaN', NaN],
  ['Infinity', Infinity],
  ['-Infinity', -Infinity],
  ['a boxed NaN', Object(NaN)],
  ['a BigInt', 4711n],
  ['a symbol', Symbol('SECRET')],
  ['a function', () => 'SECRET'],
  ['a Map', new Map([['SECRET', 1]])],
  ['a Map with members', Object.assign(new Map(), { SECRET: 1 })],
  ['a Map from another realm', vm.runInNewContext('new Map([[1, 2]])')],
  ['a Set', new Set(['SECRET'])],
  ['an Error', new Error('SECRET')],
  ['an Error with members', coded],
  ['an Error from another realm', vm.runInNewContext('Object.assign(new Error("SECRET"), { code: 1 })')],
  ['an Error in a proxy', new Proxy(coded, {})],
  ['an Error of a class with its own name', Object.assign(new Named('SECRET'), { code: 'SECRET' })],
  ['a Map of a class with its own name', Object.assign(new NamedMap(), { kind: 'SECRET' })],
  ['an object with symbol keys', { [Symbol('SECRET')]: 1 }],
  ['an object with hidden members', Object.defineProperty({}, 'name', { value: 'SECRET' })],
  ['a Map without a prototype', Object.setPrototypeOf(new Map([['SECRET', 1]]), null) as unknown],
  ['Math', Math],
  ['a RegExp', /SECRET/],
  ['a Promise', Promise.resolve('SECRET')],
  ['a WeakMap', new WeakMap()],
  ['a typed array', new Float64Array(2)],
  ['an ArrayBuffer', new ArrayBuffer(8)],
  ['Headers', new Headers({ a: 'SECRET' })],
  ['URLSearchParams', new URLSearchParams('a=SECRET')],
  ['an instance with private fields', new Hidden()],
  ['an invalid date', new Date(NaN)],
  ['undefined in an array', [undefined]],
  ['a hole in an array', sparse],
  ['a circle', circle],
  ['half a surrogate pair', `SEC${HALF}RET`],
  ['half a surrogate pair alone', HALF],
  ['half a surrogate pair before another one', `SEC${HALF}RET${HALF}`],
  ['the other half', '\ude42 SECRET'],
  ['half a surrogate pair in a name', { [`SECRET${HALF}`]: 1 }],
];
const INSIDE: Readonly<Record<string, string>> = {
  'undefined in an array': '/0',
  'a hole in an array': '/0',
  'a circle': '/inner/circle',
};

describe('[R-1413] a value that JSON does not have', () => {
  test.each(NO_VALUES)('is refused with its place and without its value: %s', async (what, value) => {
    const { log, refusals } = hurriedClient({ url: AWAY });
    await log.startRun({}).started;
    const refused = async (captured: PromiseLike<unknown>): Promise<EventInvalid> => {
      const error = await Promise.resolve(captured).then(undefined, (reason: unknown) => reason);
      expect(error).toMatchObject({ name: 'EventInvalid', code: 'not_json' });
      expect(String(error)).not.toMatch(/SECRET|4711/);
      return error as EventInvalid;
    };
    const run = log.startRun({});
    const error = await refused(run.outcome({ scores: [1, { odd: value }] }));
    const pointer = `/outcome/scores/1/odd${INSIDE[what] ?? ''}`;
    expect(error.issues).toMatchObject([{ pointer, rule: 'json' }]);
    expect(error.message).toContain(pointer);
    await refused(run.output({ odd: value }, { content: 'c' }));
    await refused(run.feedback({}, { more: { odd: value } }));
    await refused(run.feedback({}, { metadata: { odd: value } }));
    await refused(log.startRun({ model: { odd: value } }).started);
    expect(refusals).toHaveLength(5);
  });

  test.each<[string, (log: Client, value: never) => PromiseLike<unknown>]>([
    ['a start', (log, value) => log.startRun(value).started],
    ['details', (log, value) => log.startRun({}, value).started],
    ['metadata', (log, value) => log.startRun({}, { metadata: value }).started],
    ['more', (log, value) => log.startRun({}, { more: value }).started],
    ['a model', (log, value) => log.startRun({ model: value }).started],
    ['an outcome', (log, value) => log.startRun({}).outcome(value)],
    ['an outcome with content', (log, value) => log.startRun({}).outcome(value, { content: 'c' })],
  ])('is refused in place of %s too', async (_what, call) => {
    const { log } = hurriedClient({ url: AWAY, content: temporaryDirectory() });
    for (const value of [new Map([['a', 1]]), new Set([1]), coded, new Hidden()]) {
      await expect(call(log, value as never)).rejects.toMatchObject({ name: 'EventInvalid' });
    }
  });

  test.each([
    [new Map(), 'a Map'],
    [coded, 'an Error'],
    [vm.runInNewContext('new Set()'), 'a Set'],
    [new Float64Array(2), 'a typed array'],
  ])('is refused with its type: %#', async (value: unknown, name) => {
    const { log } = hurriedClient({ url: AWAY });
    const message = `is ${name}, which JSON does not have`;
    await expect(log.startRun({}).outcome({ odd: value })).rejects.toMatchObject({ issues: [{ message }] });
    await expect(log.startRun({}).feedback({}, { metadata: value as never })).rejects.toMatchObject({
      issues: [{ pointer: '/system_metadata', message }],
    });
  });

  test('is left out if it is half a surrogate pair at the end of a text [R-1413]', () => {
    expect(jsonCopy({ summary: 'see \u{1F642} there'.slice(0, 5) }, LIMITS)).toEqual({ summary: 'see ' });
  });

  test('is refused without a name that may be data', async () => {
    const { log } = hurriedClient({ url: AWAY });
    const error = await log
      .startRun({})
      .outcome({ 'Mrs X': { n: NaN } })
      .then(undefined, (reason: unknown) => reason as EventInvalid);
    expect((error as EventInvalid).issues).toMatchObject([{ pointer: '/outcome/*/n' }]);
  });
});

test('[R-1413] values that JSON has are sent, and undefined members are left out', async () => {
  const collector = await fakeCollector();
  const { log, refusals } = hurriedClient({ url: collector.url });
  class Score {
    readonly value = 0.5;
  }
  const outcome = {
    ...{
      absent: undefined,
      date: new Date(0),
      url: new URL('https://a.example/'),
      boxed: Object('b') as unknown,
    },
    ...{ score: new Score(), bytes: Buffer.from('a'), emoji: '\u{1F642}', ['__proto__']: { own: true } },
    ...{ twice: [circle['none'] ?? null, {}], realm: vm.runInNewContext('({ a: [1] })') as unknown },
  };
  log.startRun({}).outcome(outcome);
  await log.flush();
  expect(refusals).toEqual([]);
  const sent = collector.accepted.find(({ event }) => 'outcome' in event)?.event['outcome'];
  expect(JSON.stringify(sent)).toBe(JSON.stringify(outcome));
});

/** Any values, also those that JSON does not have. */
const anything = fc.anything({
  ...{ withBigInt: true, withBoxedValues: true, withDate: true, withMap: true, withSet: true },
  ...{ withNullPrototype: true, withSparseArray: true, withTypedArray: true },
});
const wild = fc.oneof(anything, fc.array(fc.string({ unit: 'binary' })), fc.jsonValue());

test('[R-1413] any value is refused or can be read again as it was', () => {
  fc.assert(
    fc.property(wild, (value) => {
      let copy: unknown;
      try {
        copy = jsonCopy(value, LIMITS);
      } catch (error) {
        expect(error).toBeInstanceOf(NoJson);
        return;
      }
      const text = JSON.stringify(copy) as string | undefined;
      expect(text).toBe(JSON.stringify(value));
      if (text === undefined) return;
      expect(text).not.toMatch(/[^\\](\\\\)*\\ud[89a-f]/);
      expect(isSame(JSON.parse(text), value)).toBe(true);
    }),
    { numRuns: runs(2000) },
  );
});

/** An independent comparison of a value with its JSON. */
function isSame(read: unknown, given: unknown): boolean {
  if (given instanceof Date) return read === given.toISOString();
  if (given instanceof Number || given instanceof String || given instanceof Boolean) {
    return isSame(read, given.valueOf());
  }
  if (typeof given !== 'object' || given === null) return read === given || (read === 0 && given === 0);
  if (Array.isArray(given)) {
    return Array.isArray(read) && read.length === given.length && given.every((g, i) => isSame(read[i], g));
  }
  if (given instanceof Map || given instanceof Set || ArrayBuffer.isView(given)) return false;
  const named = Object.entries(given).filter(([, value]) => value !== undefined);
  const members = new Map(Object.entries(read as object));
  return named.length === members.size && named.every(([name, value]) => isSame(members.get(name), value));
}

test.each<[string, (log: Client) => PromiseLike<unknown>]>([
  ['an outcome of undefined', (log) => log.run(undefined as never).outcome({ outcome_type: 'contradicted' })],
  ['feedback to undefined', (log) => log.run(undefined as never).feedback({})],
  ['an output of null', (log) => log.run(null as never).output({})],
  ['an output of an empty string', (log) => log.run('').output({})],
  ['a number', (log) => log.run(4711 as never).feedback({})],
  ['an object', (log) => log.run({ id: 'SECRET' } as never).feedback({})],
  ['a start in the run null', (log) => log.startRun({}, { runId: null as never }).started],
])('[R-861] an event without a valid run is refused: %s', async (_what, call) => {
  const { log, refusals } = hurriedClient({ url: AWAY });
  await expect(call(log)).rejects.toMatchObject({ name: 'EventInvalid', issues: [{ pointer: '/run_id' }] });
  expect(refusals).toHaveLength(1);
  expect(String(refusals[0]?.error)).not.toMatch(/SECRET|4711/);
});

test('[R-861] an undefined runId gives a new run, and an undefined parentEventId no parent', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const run = log.startRun({}, { runId: undefined, parentEventId: undefined });
  run.outcome({}, { parentEventId: undefined });
  await log.flush();
  expect(collector.accepted.map(({ event }) => [event['run_id'], event['parent_event_id']])).toEqual([
    [run.startEventId, undefined],
    [run.startEventId, undefined],
  ]);
});
