/** Answers from the viewer's own catalogue, in this process; what the threads do with them is tested elsewhere. */
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ClinicalRecord } from '@clinical-events/protocol';
import { candidate, type Made } from '../../../collector/test/store/candidate.js';
import { id } from '../../../collector/test/records/run-events.js';
import { temporaryDirectory } from '../../../collector/test/running/collector-process.js';
import { encryptionIn, fillDirectory } from '../../../collector/test/store/embedded/filled-directory.js';
import { noteKeyPlaces } from '../../../collector/src/store/key-places.js';
import { NotReadable, type ReadingState, type Scope } from '../../src/contract.js';
import { actionFields, Actions } from '@clinical-events/collector/privacy/actions';
import { SequenceSet } from '@clinical-events/collector/privacy/sequence-set';
import { Answers } from '../../src/reading/answers.js';
import { Following } from '../../src/reading/following.js';
import { NamesKeys } from '../../src/reading/names-keys.js';
import { ViewersLog } from '../../src/reading/opened-log.js';
import type { Answered, Kind } from '../../src/reading/questions.js';

const ALL: Scope = { organisations: undefined, applications: undefined, caller: undefined };
const RUNS = 40;
const NORTH = 'north';
/** Words that only bodies have. */
const SECRET = /secret|clinician-|patient-/;

let scratch: string;
let dataDir: string;
let stateDir: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  dataDir = path.join(scratch, 'data');
  stateDir = path.join(scratch, 'viewer');
  fs.mkdirSync(stateDir);
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

const PAYLOADS = {
  'inference-start': (run: number) => ({
    model_instance: {
      model_id: 'triage',
      model_version: '4.2',
      secret_member: 'secret',
      model_card_url: 'secret:',
    },
    user_identity: { caller_id: `clinician-${run % 3}`, secret: 'secret' },
    target_identity: { target_id: `patient-${run}` },
    inputs: { prompt: 'secret question', secret: 1.1 },
  }),
  'internal-artifact': () => ({
    artifact: { artifact_type: 'tool_call', artifact_uri: 'secret:1', description: 'secret' },
  }),
  'human-output': () => ({
    system_metadata: { hostname: 'secret-host', instrumentation: { by: 'secret-library', attempt: 1 } },
    output: { summary: 'secret answer', ending: 'failed', error_name: 'SecretError secret', status: 429 },
  }),
  outcome: () => ({ outcome: { outcome_type: 'validated', description: 'secret' } }),
  'user-feedback': () => ({ feedback: { feedback_type: 'text', comment: 'secret' } }),
} as const;
const KINDS = Object.keys(PAYLOADS) as (keyof typeof PAYLOADS)[];

/** @param above the run in which it is nested. */
function eventsOf(run: number, organisation: string, above?: number): Made[] {
  return KINDS.map((kind, i) => {
    const eventId = id(10 * run + i);
    const body = {
      ...{
        event_id: eventId,
        run_id: id(10 * run),
        timestamp: '2026-03-02T08:31:00Z',
        protocol_version: '0.0.1',
      },
      ...(i > 0 && { parent_event_id: id(10 * run) }),
      ...(i === 0 && above !== undefined && { parent_event_id: id(10 * above) }),
      system_metadata: {
        app_name: run % 2 === 0 ? 'letters' : 'coding',
        hostname: 'secret-host',
        secret: true,
      },
      'secret member': 'secret',
      ...PAYLOADS[kind](run),
    };
    return candidate({
      ...{ kind, organisation, eventId, runId: id(10 * run), receivedAt: 1_772_438_400_000 + run * 1000 + i },
      body: JSON.stringify(body),
    });
  });
}

async function fill(isEncrypted = false, runs = RUNS): Promise<void> {
  const batches = Array.from({ length: runs }, (_, i) =>
    eventsOf(i + 1, (i + 1) % 4 === 0 ? 'south' : NORTH),
  );
  await fillDirectory(dataDir, batches, 64 << 10, isEncrypted ? encryptionIn(dataDir) : undefined);
  const directories = [path.join(dataDir, 'encryption-keys')];
  if (isEncrypted) await noteKeyPlaces(dataDir, { directories, kek: '' });
}

interface Followed {
  readonly following: Following;
  readonly states: ReadingState[];
  readonly troubles: string[];
}

function opened(kek?: string): Followed {
  const [states, troubles]: [ReadingState[], string[]] = [[], []];
  const following = new Following({
    ...{ dataDir, stateDir, kek, keysKeptMs: 0, onFollowed: () => undefined },
    onState: (state) => void states.push(state),
    onTrouble: (message) => void troubles.push(message),
  });
  onTestFinished(() => following.close());
  return { following, states, troubles };
}

async function followed(kek?: string): Promise<Followed> {
  const made = opened(kek);
  while (!(await made.following.follow()));
  return made;
}

function answers(
  kek?: string,
): <Of extends Kind>(kind: Of, asked: Answered[Of]['asked']) => Promise<Answered[Of]['answer']> {
  const made = new Answers({ dataDir, stateDir, kek, keysKeptMs: 0 });
  onTestFinished(() => made.close());
  return (kind, asked) => made.answer({ id: 1, kind, asked, atLeast: 0 });
}

const listOf = (
  scope: Scope,
  filter: Partial<Answered['runs']['asked']['filter']> = {},
  offset = 0,
  limit = 100,
) => ({
  ...{ scope, offset, limit, filter: { clock: 'received' as const, ...filter } },
});
const runOf = (recordId: string, more: Partial<Answered['run']['asked']> = {}) => ({
  ...{ scope: ALL, recordId, organisation: undefined, withContents: true, from: 0, ...more },
});
const recordOf = ({ record }: { readonly record: string }) => JSON.parse(record) as ClinicalRecord;

describe('[R-2047] a scope', () => {
  test('limits lists, runs, proofs, names and reports, and a run outside is missing', async () => {
    await fill();
    await followed();
    const ask = answers();
    const list = await ask('runs', listOf(ALL));
    expect([list.runs.length, list.hasMore]).toEqual([RUNS, false]);
    expect(JSON.stringify(list)).not.toMatch(SECRET);
    const page = await ask('runs', listOf(ALL, {}, 10, 5));
    expect([page.runs, page.hasMore]).toEqual([list.runs.slice(10, 15), true]);
    const south: Scope = { ...ALL, organisations: ['south'] };
    const letters: Scope = { ...ALL, applications: ['letters'] };
    expect((await ask('runs', listOf(south))).runs).toEqual(
      list.runs.filter(({ organisation }) => organisation === 'south'),
    );
    expect((await ask('runs', listOf(letters))).runs).toHaveLength(RUNS / 2);
    expect((await ask('runs', listOf(south, { organisation: NORTH }))).runs).toEqual([]);
    expect((await ask('runs', listOf({ ...ALL, organisations: [] }))).runs).toEqual([]);
    for (const [scope, run, isThere] of [
      [south, 4, true],
      [south, 5, false],
      [letters, 4, true],
      [letters, 5, false],
      [{ ...ALL, caller: 'clinician-1' }, 4, true],
      [{ ...ALL, caller: 'clinician-1' }, 5, false],
    ] as const) {
      expect((await ask('run', runOf(id(10 * run), { scope }))) !== undefined).toBe(isThere);
      const organisation = run === 4 ? 'south' : NORTH;
      const proof = ask('proof', { scope, eventId: id(10 * run + 1), organisation, withContents: true });
      // Nothing is signed here, so the proof of an event in the scope is not made.
      if (isThere) await expect(proof).rejects.toThrow(NotReadable);
      else expect(await proof).toBeUndefined();
    }
    const own = await ask('runs', listOf({ ...ALL, caller: 'clinician-1' }));
    expect(own.runs.length).toBeGreaterThan(10);
    expect(own.runs.length).toBeLessThan(RUNS / 2);
    const report = await ask('report', { ...REPORT, scope: south });
    expect([report.all.runs, report.organisations.map(({ name }) => name)]).toEqual([RUNS / 4, ['south']]);
    for (const scope of [
      { ...ALL, caller: 'clinician-1' },
      { ...south, organisations: [NORTH] },
    ])
      expect((await ask('report', { ...REPORT, scope, organisation: 'south' })).all.runs).toBe(0);
    expect(await ask('names', south)).toEqual({
      ...{ organisations: ['south'], applications: ['letters'], models: ['triage'] },
    });
    expect((await ask('names', ALL)).organisations).toEqual([NORTH, 'south']);
  });

  test('hides runs outside it also where others name them', async () => {
    // Run 1 is of coding, 2 of letters; 2 is nested in 1, and 3, of coding, in 2. 5 and 6 are in a circle.
    const nestedIn = new Map([
      [2, 1],
      [3, 2],
      [5, 6],
      [6, 5],
    ]);
    const batches = [1, 2, 3, 5, 6].map((run) => eventsOf(run, NORTH, nestedIn.get(run)));
    await fillDirectory(dataDir, batches, 64 << 10);
    await followed();
    const ask = answers();
    const linksOf = async (run: number, scope: Scope) => {
      const found = await ask('run', runOf(id(10 * run), { scope }));
      if (found === undefined) throw new Error('no run');
      const { parent, children, conflicts } = recordOf(found).metadata;
      return { above: parent?.run_id, children, circle: conflicts.flatMap(({ run_ids: ids = [] }) => ids) };
    };
    const letters: Scope = { ...ALL, applications: ['letters'] };
    expect(await linksOf(2, ALL)).toMatchObject({ above: id(10), children: [id(30)] });
    expect(await linksOf(2, letters)).toMatchObject({ above: null, children: [] });
    expect((await linksOf(6, ALL)).circle).toContain(id(50));
    expect(await linksOf(6, letters)).toMatchObject({ above: null, children: [], circle: [id(60)] });
  });

  test('shows an auditor no member that a sender chose', async () => {
    await fill();
    await followed();
    const found = await answers()('run', runOf(id(40), { withContents: false }));
    if (found === undefined) throw new Error('no run');
    expect(JSON.stringify(found)).not.toMatch(SECRET);
    const { metadata, model, ...record } = recordOf(found);
    expect(model).toEqual({ model_id: 'triage', model_version: '4.2' });
    expect([record.inputs, record.user, record.target]).toEqual([null, null, null]);
    expect(record.outputs).toMatchObject([{ event_id: id(42), output: {}, extra: {} }]);
    expect(metadata.events.map(({ kind, sequence }) => [kind, sequence])).toEqual(
      KINDS.map((kind, i) => [kind, 16 + i]),
    );
    expect(metadata.completeness.level).toBe('minimum');
    expect(metadata.call).toMatchObject({ ending: 'failed', status: 429, error_name: null });
    const whole = await answers()('run', runOf(id(40)));
    expect(JSON.stringify(whole)).toMatch(/secret question.*SecretError/);
  });
});

const REPORT = {
  ...{ scope: ALL, organisation: undefined, model: undefined, since: undefined, until: undefined },
  clock: 'received' as const,
};

describe('[R-2051] the viewer says what it cannot show', () => {
  test('a run that is too large for a page', async () => {
    const text = 'x'.repeat(1 << 20);
    const events = Array.from({ length: 34 }, (_, i) =>
      candidate({
        ...{ kind: 'human-output', organisation: NORTH, eventId: id(i + 1), runId: id(1) },
        body: JSON.stringify({ event_id: id(i + 1), run_id: id(1), output: { summary: text } }),
      }),
    );
    await fillDirectory(dataDir, [events, eventsOf(9, NORTH)], 64 << 20);
    await followed();
    const ask = answers();
    await expect(ask('run', runOf(id(1)))).rejects.toThrow(/too large for a page/);
    expect(await ask('run', runOf(id(90)))).toBeDefined();
  });

  test('without a log, and shows it as soon as there is one', async () => {
    const { following, states } = await followed();
    expect(states.at(-1)).toMatchObject({ catalogue: 'unusable', reason: /no log yet/ as never });
    await fill();
    while (!(await following.follow()));
    expect(states.at(-1)).toMatchObject({
      catalogue: 'ready',
      entries: 5 * RUNS,
      keys: 'none',
      reason: undefined,
    });
  });

  test('while the keys are away, lists are as they were, and it continues when they are back', async () => {
    await fill(true, 10);
    const { following, states } = await followed();
    expect(states.at(-1)).toMatchObject({ catalogue: 'ready', keys: 'readable', entries: 50 });
    const ask = answers();
    const before = await ask('runs', listOf(ALL, { target: 'patient-7' }));
    expect(before.runs).toHaveLength(1);
    const [keys, away] = [path.join(dataDir, 'encryption-keys'), path.join(scratch, 'away')];
    await fillDirectory(dataDir, [eventsOf(11, NORTH)], 64 << 10, encryptionIn(dataDir));
    for (const hide of [
      () => {
        fs.renameSync(keys, away);
      },
      () => {
        fs.cpSync(keys, away, { recursive: true, preserveTimestamps: true });
        fs.chmodSync(path.join(keys, 'kek'), 0o644);
      },
    ]) {
      hide();
      await following.follow();
      expect(states.at(-1)).toMatchObject({ catalogue: 'ready', keys: 'away', entries: 50 });
      expect(await ask('runs', listOf(ALL, { target: 'patient-7' }))).toEqual(before);
      const run = await ask('run', runOf(id(70)));
      expect(run && recordOf(run).metadata.events.map(({ payload }) => payload)).toEqual(
        Array.from({ length: 5 }, () => 'encrypted'),
      );
      expect(JSON.stringify(run && recordOf(run))).not.toMatch(/secret/);
      fs.rmSync(keys, { recursive: true, force: true });
      fs.renameSync(away, keys);
    }
    while (!(await following.follow()));
    expect(states.at(-1)).toMatchObject({ catalogue: 'ready', keys: 'readable', entries: 55 });
    expect((await ask('runs', listOf(ALL, { target: 'patient-11' }))).runs).toHaveLength(1);
    const run = await ask('run', runOf(id(110)));
    expect(run && recordOf(run).inputs).toMatchObject({ prompt: 'secret question' });
  });

  test('a viewer that starts without the keys makes no list, and one with its own wrapping key does', async () => {
    await fill(true, 10);
    const kek = path.join(dataDir, 'encryption-keys', 'kek');
    const own = path.join(scratch, 'own-kek');
    fs.copyFileSync(kek, own);
    fs.chmodSync(own, 0o600);
    fs.rmSync(kek);
    const { states } = await followed();
    expect(states.at(-1)).toMatchObject({ catalogue: 'unusable', keys: 'away', reason: /keys/ as never });
    const { states: later } = await followed(`file:${own}`);
    expect(later.at(-1)).toMatchObject({ catalogue: 'ready', keys: 'readable', entries: 50 });
  });

  test('a right to the wrapping key that is taken away closes the contents, without a restart', async () => {
    await fill(true, 10);
    const program = path.join(scratch, 'kms.mjs');
    const refused = path.join(scratch, 'refused');
    const module = path.resolve('packages/collector/dist/privacy/key-encryption-key.js');
    fs.writeFileSync(
      program,
      `#!${process.execPath}
import fs from 'node:fs';
import { openKek } from ${JSON.stringify(module)};
if (fs.existsSync(${JSON.stringify(refused)})) process.exit(1);
const kek = openKek('file:${path.join(dataDir, 'encryption-keys', 'kek')}');
console.log(kek.unwrap(fs.readFileSync(0, 'utf8').trim()).toString('base64'));
`,
      { mode: 0o755 },
    );
    const kek = `command:${program}`;
    const { following, states } = await followed(kek);
    const ask = answers(kek);
    const payloads = async () => {
      const run = await ask('run', runOf(id(70)));
      return run === undefined ? [] : recordOf(run).metadata.events.map(({ payload }) => payload);
    };
    expect(await payloads()).toEqual(Array.from({ length: 5 }));
    fs.writeFileSync(refused, '');
    await following.follow();
    expect(states.at(-1)).toMatchObject({ catalogue: 'ready', keys: 'away' });
    expect(new Set(await payloads())).toEqual(new Set(['encrypted']));
    expect((await ask('runs', listOf(ALL))).runs).toHaveLength(10);
    fs.rmSync(refused);
    await following.follow();
    expect(states.at(-1)).toMatchObject({ catalogue: 'ready', keys: 'readable' });
    expect(await payloads()).toEqual(Array.from({ length: 5 }));
  });

  test('a damaged catalogue is made again, as is that of a log that was restored', async () => {
    await fill();
    const { following, states } = await followed();
    const ask = answers();
    const before = await ask('runs', listOf(ALL));
    const file = path.join(stateDir, 'catalogue', 'catalogue.sqlite');
    const fd = fs.openSync(file, 'r+');
    fs.writeSync(fd, Buffer.alloc(64 << 10, 0xa5), 0, 64 << 10, 16 << 10);
    fs.closeSync(fd);
    await expect(answers()('runs', listOf(ALL))).rejects.toThrow(NotReadable);
    const settle = async () => {
      do while (!(await following.follow()));
      while (states.at(-1)?.catalogue !== 'ready');
    };
    await settle();
    expect(await ask('runs', listOf(ALL))).toEqual(before);
    // Another log in its place.
    fs.renameSync(dataDir, path.join(scratch, 'former'));
    await fill(false, 7);
    await settle();
    await expect.poll(() => states.at(-1)?.entries).toBe(35);
    expect((await ask('runs', listOf(ALL))).runs).toHaveLength(7);
    // A former state of that log.
    const copy = path.join(scratch, 'copy');
    fs.cpSync(dataDir, copy, { recursive: true });
    await fillDirectory(dataDir, [eventsOf(50, NORTH)], 64 << 10);
    await settle();
    expect((await ask('runs', listOf(ALL))).runs).toHaveLength(8);
    fs.rmSync(dataDir, { recursive: true });
    fs.renameSync(copy, dataDir);
    await settle();
    await expect
      .poll(async () => {
        await settle();
        return states.at(-1)?.entries;
      })
      .toBe(35);
    expect((await ask('runs', listOf(ALL))).runs).toHaveLength(7);
  });

  test('names a file that it may not open, and the option of the collector', async () => {
    if (process.getuid?.() === 0) {
      process.stdout.write('as root, every file can be opened\n');
      return;
    }
    await fill();
    fs.chmodSync(path.join(dataDir, 'ledger'), 0);
    const { states } = await followed();
    fs.chmodSync(path.join(dataDir, 'ledger'), 0o700);
    expect(states.at(-1)).toMatchObject({ catalogue: 'unusable', reason: /ledger.*--read-group/ as never });
  });
});

test('[R-2050] a run is assembled again if an event of it was erased meanwhile', async () => {
  await fill(false, 3);
  await followed();
  const reads = vi.spyOn(ViewersLog.prototype, 'read');
  const actions = vi.spyOn(ViewersLog.prototype, 'actions');
  onTestFinished(() => void vi.restoreAllMocks());
  const erased = new Actions();
  const fields = actionFields({
    ...{ action: id(900), does: 'erase', reason: 'test-data', part: 1, parts: 1 },
    keys: [{ tag: 1, organisation: NORTH, sequences: SequenceSet.ofStretches([{ first: 7, end: 8 }]) }],
  });
  expect(erased.add(100, 0, Buffer.from(JSON.stringify(fields)))).toBe(true);
  actions.mockReturnValueOnce(erased);
  const ask = answers();
  expect(await ask('run', runOf(id(20)))).toBeDefined();
  expect(reads).toHaveBeenCalledTimes(2);
  // As long as the log says that it is erased, its contents are not shown.
  actions.mockReturnValue(erased);
  await expect(ask('run', runOf(id(20)))).rejects.toThrow(NotReadable);
});

test('[R-2050] names are sealed by a key of the viewer, which only its user can read', async () => {
  await fill();
  await followed();
  const [cipher] = new NamesKeys(stateDir).ciphers();
  const files = ['catalogue.sqlite', 'catalogue.sqlite-wal']
    .map((name) => path.join(stateDir, 'catalogue', name))
    .filter((file) => fs.existsSync(file))
    .map((file) => fs.readFileSync(file));
  expect(files.some((bytes) => bytes.includes('patient-7'))).toBe(false);
  expect(files.some((bytes) => bytes.includes(cipher?.seal('patient-7') ?? 'none'))).toBe(true);
  const keyOf = (number: number) => path.join(stateDir, 'names-keys', `000000000${number}.key`);
  expect(fs.statSync(keyOf(1)).mode & 0o777).toBe(0o600);
  const keys = new NamesKeys(stateDir);
  // A replacement is interrupted; until it is completed, the names are still sealed by the former key.
  keys.add();
  expect((await answers()('runs', listOf(ALL, { target: 'patient-7' }))).runs).toHaveLength(1);
  const interrupted = await followed();
  expect(keys.ciphers().map(({ id }) => Number(id.slice(0, 10)))).toEqual([2]);
  expect(interrupted.troubles).toEqual([]);
  expect((await answers()('runs', listOf(ALL, { target: 'patient-7' }))).runs).toHaveLength(1);
  // Without its key the catalogue is of no use.
  fs.rmSync(keyOf(2));
  const { states } = await followed();
  expect(states.at(-1)).toMatchObject({ catalogue: 'ready', entries: 5 * RUNS });
});
