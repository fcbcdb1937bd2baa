/** Requests to a log while something else fails, or happens in between. */
import { SALT_BYTES } from '@clinical-events/protocol';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  answerTo,
  layRequest,
  Lifecycle,
  type LifecycleOptions,
  type LifecycleRequest,
} from '../../src/ledger/lifecycle.js';
import { type Action, actionFields, Actions } from '../../src/privacy/actions.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import type { Requests } from '../../src/store/contract/requests.js';

const ERASURE = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
const HOLD = '00000000-0000-4000-8000-000000000000';

let actions: Actions;
let told: string[];
/** The entries that the log refuses. */
let isRefused: (body: Buffer) => boolean;
/** The entry that another collector stores after an entry. */
let comesBehind: (body: Buffer) => Buffer | undefined;

beforeEach(() => {
  actions = new Actions();
  told = [];
  isRefused = () => false;
  comesBehind = () => undefined;
  calls = [];
  away = {};
});

class Memory implements Requests {
  isAway = false;
  isWritable = true;
  readonly #laid = new Map<string, string>();
  readonly #answers = new Map<string, string>();

  lay(id: string, request: string): Promise<void> {
    this.#laid.set(id, request);
    return Promise.resolve();
  }

  waiting(): Promise<{ id: string; request: string }[]> {
    if (this.isAway) return Promise.reject(new Error('the inbox cannot be read'));
    return Promise.resolve([...this.#laid].sort().map(([id, request]) => ({ id, request })));
  }

  begin(id: string): Promise<boolean> {
    return Promise.resolve(this.#laid.has(id));
  }

  withdraw(id: string): Promise<boolean> {
    return Promise.resolve(this.#laid.delete(id));
  }

  take(id: string): Promise<void> {
    if (!this.isWritable) return Promise.reject(new Error('the inbox cannot be written'));
    this.#laid.delete(id);
    return Promise.resolve();
  }

  answer(id: string, answer: string): Promise<void> {
    if (!this.isWritable) return Promise.reject(new Error('the inbox cannot be written'));
    this.#answers.set(id, answer);
    return Promise.resolve();
  }

  answerTo(id: string): Promise<string | undefined> {
    return Promise.resolve(this.#answers.get(id));
  }
}

/** The calls about keys and names, in their order; and the missing directories that each finds. */
let calls: string[];
let away: Record<string, string[]>;

const noted = (what: string) => () => {
  calls.push(what);
  return Promise.resolve(away[what] ?? []);
};

function lifecycleOf(requests: Requests): Lifecycle {
  let sequence = 0;
  const keys: LifecycleOptions['keys'] = {
    ...{ destroy: noted('destroy'), noteAction: noted('note'), rotate: noted('rotate') },
    ...{ finishRotation: noted('rotate'), destroyHold: noted('destroy hold') },
    ...{ renewNames: noted('renew names'), endOldNames: noted('end old names') },
    ...{ isRotating: false, epoch: 1, epochBegun: Date.now(), directories: { all: 1, inTrouble: 0 } },
    stored: { noted: () => [], holdKey: () => undefined },
  };
  return new Lifecycle({
    ...{ requests, actions, keys },
    keysIn: () => Promise.resolve([]),
    resealNames: () => noted('seal again')().then(() => undefined),
    dropHoldRecord: () => noted('drop record')().then(() => undefined),
    append(entry) {
      const body = Buffer.from(entry.salted).subarray(SALT_BYTES);
      calls.push(/"does":"(\w+)"/.exec(body.toString())?.[1] ?? '');
      if (isRefused(body)) return Promise.reject(new Error('no room'));
      actions.add(++sequence, Date.now(), body);
      const behind = comesBehind(body);
      if (behind !== undefined) actions.add(++sequence, Date.now(), behind);
      return Promise.resolve();
    },
    onTrouble: (what) => told.push(what),
  });
}

/** With enough sequences to need two entries. */
function erasure(): Action {
  const every = (first: number) => SequenceSet.of(Array.from({ length: 40_000 }, (_, i) => first + 2 * i));
  const keys = [1, 100_001].map((first, i) => ({
    ...{ tag: i + 1, organisation: 'icu', sequences: every(first) },
  }));
  return { action: ERASURE, does: 'erase', reason: 'test-data', part: 1, parts: 1, keys };
}

const considered = { policy: null, holds: [] };
const done = () => actions.logged.map(({ said }) => `${said.does}${'part' in said ? said.part : ''}`);

describe('[R-1342] an erasure of which one part is stored', () => {
  test('stores no further part after a hold has begun meanwhile, and says so', async () => {
    const requests = new Memory();
    const lifecycle = lifecycleOf(requests);
    await layRequest(requests, { action: erasure(), considered });
    isRefused = (body) => body.includes('"part":2');
    await lifecycle.look();
    expect(done()).toEqual(['erase1']);
    expect(await answerTo(requests, ERASURE)).toBeUndefined();
    isRefused = () => false;
    await layRequest(requests, {
      action: { action: HOLD, does: 'hold', record: 'ab'.repeat(32) },
      considered,
    });
    await lifecycle.look();
    expect(done()).toEqual(['erase1', 'hold', 'done']);
    expect(await answerTo(requests, ERASURE)).toMatchObject({
      state: 'refused',
      reason: expect.stringMatching(/a hold began/) as string,
    });
  });

  test('stores no further part after another collector has begun a hold between two parts', async () => {
    const requests = new Memory();
    await layRequest(requests, { action: erasure(), considered });
    const hold = Buffer.from(
      JSON.stringify(actionFields({ action: HOLD, does: 'hold', record: 'ab'.repeat(32) })),
    );
    comesBehind = (body) => (body.includes('"part":1') ? hold : undefined);
    await lifecycleOf(requests).look();
    expect(done()).toEqual(['erase1', 'hold', 'done']);
    expect(await answerTo(requests, ERASURE)).toMatchObject({ state: 'refused' });
  });

  test('is completed while requests cannot be read, which is reported', async () => {
    const requests = new Memory();
    const lifecycle = lifecycleOf(requests);
    await layRequest(requests, { action: erasure(), considered });
    isRefused = (body) => body.includes('"done"');
    await lifecycle.look();
    expect(done()).toEqual(['erase1', 'erase2']);
    expect(told).toHaveLength(1);
    isRefused = () => false;
    const next = lifecycleOf(requests);
    requests.isAway = true;
    await next.look();
    expect(done()).toEqual(['erase1', 'erase2', 'done']);
    expect(told).toHaveLength(2);
  });
});

test('[R-1335] an erasure that is done while its answer cannot be written is answered later, and done once', async () => {
  const requests = new Memory();
  await layRequest(requests, { action: erasure(), considered });
  requests.isWritable = false;
  await lifecycleOf(requests).look();
  expect(await requests.waiting()).toHaveLength(1);
  expect(done()).toEqual(['erase1', 'erase2', 'done']);
  expect(await answerTo(requests, ERASURE)).toBeUndefined();
  requests.isWritable = true;
  await lifecycleOf(requests).look();
  expect(await answerTo(requests, ERASURE)).toEqual({ state: 'done' });
  expect(await requests.waiting()).toEqual([]);
  expect(done()).toEqual(['erase1', 'erase2', 'done']);
});

test('[R-1341] an invalid policy is never set, whatever it contains, and blocks nothing else', async () => {
  const requests = new Memory();
  const policy = (text: string) =>
    `{"format":"clinical-events/action/v1","action":"${HOLD}","does":"policy","considered":{"policy":null,"holds":[]},"policy":${text}}`;
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  for (const text of [
    '{"version":2}',
    deep,
    `{"version":1,"name":"p","default":{"keep":"P1D"},"$schema":${deep}}`,
  ]) {
    await requests.lay(HOLD, policy(text));
    await lifecycleOf(requests).look();
    expect(await answerTo(requests, HOLD)).toMatchObject({ state: 'refused', reason: 'it is not a request' });
    expect(await requests.waiting()).toEqual([]);
  }
  expect([done(), told]).toEqual([[], []]);
});

describe('[R-1550] a refusal', () => {
  const once = (): LifecycleRequest => ({ action: { ...erasure(), keys: [] } as Action, considered });

  test.each([
    ['a hold', { action: HOLD, does: 'hold', record: 'ab'.repeat(32) }],
    ['a policy', { action: HOLD, does: 'policy', policy: {} }],
  ] as const)(
    'says that %s was stored after the request was considered, and nothing is begun',
    async (_, since) => {
      const requests = new Memory();
      actions.add(1, Date.now(), Buffer.from(JSON.stringify(actionFields(since))));
      await layRequest(requests, once());
      await lifecycleOf(requests).look();
      expect(await answerTo(requests, ERASURE)).toMatchObject({ state: 'refused', because: 'changed' });
      expect(actions.logged).toHaveLength(1);
    },
  );

  test('for another reason says so', async () => {
    const requests = new Memory();
    await requests.lay(ERASURE, '{}');
    await lifecycleOf(requests).look();
    expect(await answerTo(requests, ERASURE)).toMatchObject({ state: 'refused', because: 'impossible' });
  });
});

describe('[R-1338] the names key', () => {
  const RELEASE = '11111111-1111-4111-8111-111111111111';
  const rotation = { action: RELEASE, does: 'rotate', epoch: 1 } as const;
  const START = ['seal again', 'end old names'];
  const NAMES = ['renew names', ...START];

  test('is replaced after the keys of payloads are destroyed, and before the log says that this is done', async () => {
    const requests = new Memory();
    await layRequest(requests, { action: erasure(), considered });
    await lifecycleOf(requests).look();
    expect(calls).toEqual(['erase', 'erase', 'note', 'note', 'destroy', ...NAMES, 'done']);
  });

  test('is replaced after each rotation and before the log has the rotation', async () => {
    const requests = new Memory();
    await layRequest(requests, { action: rotation, considered });
    await lifecycleOf(requests).look();
    expect(calls).toEqual(['rotate', ...NAMES, 'rotate']);
  });

  test.for(['renew names', 'end old names'])(
    'that waits for a directory to %s delays everything that follows',
    async (what) => {
      const requests = new Memory();
      away = { [what]: ['/keys'] };
      await layRequest(requests, { action: erasure(), considered });
      await lifecycleOf(requests).look();
      expect(calls).not.toContain('done');
      expect(await answerTo(requests, ERASURE)).toEqual({ state: 'pending', unreached: ['/keys'] });
      away = {};
      calls = [];
      // As the next start does it.
      await lifecycleOf(requests).look();
      expect(calls).toEqual(['note', 'note', 'destroy', ...NAMES, 'done']);
      expect(await answerTo(requests, ERASURE)).toEqual({ state: 'done' });
    },
  );

  test('whose replacement was interrupted by the end of the process is completed at the next start', async () => {
    await lifecycleOf(new Memory()).look();
    expect(calls).toEqual(START);
  });

  test('[R-1342] is not part of a release: entry, note, key and record are, again at each start', async () => {
    const requests = new Memory();
    actions.add(
      1,
      1,
      Buffer.from(JSON.stringify(actionFields({ action: HOLD, does: 'hold', record: 'ab' }))),
    );
    away = { 'destroy hold': ['/keys'] };
    await layRequest(requests, { action: { action: RELEASE, does: 'release', hold: HOLD }, considered });
    await lifecycleOf(requests).look();
    const release = ['note', 'destroy hold', 'drop record'];
    expect(calls.filter((call) => !START.includes(call)).slice(0, 4)).toEqual(['release', ...release]);
    expect(await answerTo(requests, RELEASE)).toEqual({ state: 'pending', unreached: ['/keys'] });
    away = {};
    calls = [];
    await lifecycleOf(requests).look();
    expect(calls).toEqual([...START, ...release]);
    expect(await answerTo(requests, RELEASE)).toEqual({ state: 'done' });
  });
});
