/** Certificates of erasures that were planned, as a lawyer and a program read them. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { beginAccess } from '../../src/commands/access-log.js';
import type { Certificate } from '../../src/commands/lifecycle/certificate.js';
import { type ErasureFacts, keepErasureRecord } from '../../src/commands/lifecycle/erasure-record.js';
import { answerTo, layRequest, type LifecycleAnswer, WRITER } from '../../src/ledger/lifecycle.js';
import { ownEntry } from '../../src/ledger/own-entry.js';
import { actionFields, type Erase } from '../../src/privacy/actions.js';
import type { TakenKeys } from '../../src/privacy/payload-keys.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { openStore } from '../../src/store/open-to-read.js';
import { Inbox } from '../../src/store/embedded/inbox.js';
import { uuidText } from '../../src/store/text.js';
import { createKey, run, start } from '../running/collector-process.js';
import { scratch } from '../running/scratch.js';
import type { Made } from '../store/candidate.js';
import { encryptionIn } from '../store/embedded/filled-directory.js';
import { fillSigned, firstKey, loggedEvent } from './signed-directory.js';

const HASH = 'ab'.repeat(32);
const CASE = 'DSR-2026/0042';
/** Three segments of 50 events, and the one that is written to. */
const BATCHES = 8;
const TEXT = 'x'.repeat(1100);

let root: string;
let dataDir: string;
let directories: string[];
/** Of all events, in the order of the log. */
let ids: string[];

beforeEach(async () => {
  root = scratch();
  dataDir = path.join(root, 'data');
  directories = ['keys', 'mirror'].map((name) => path.join(root, name));
  const runs = [randomUUID(), randomUUID()];
  const batches = Array.from({ length: BATCHES }, (_, batch) =>
    Array.from({ length: 25 }, (__, i) =>
      loggedEvent(TEXT, {
        ...{ kind: i % 5 === 0 ? 'inference-start' : 'outcome', runId: runs[i % 2] ?? '' },
        ...{ organisation: i % 2 === 0 ? 'icu' : 'er', receivedAt: Date.UTC(2026, 0, 1 + batch, 0, i) },
      }),
    ),
  );
  ids = batches.flat().map(({ eventId }) => uuidText(eventId));
  await fillSigned(dataDir, batches, { encryption: encryptionIn(dataDir, { directories }) });
  await createKey(dataDir);
});

/** As they were sent. */
const byOrganisation = (some: readonly string[]) => {
  const isIcu = (id: string) => (ids.indexOf(id) % 25) % 2 === 0;
  return { icu: some.filter(isIcu), er: some.filter((id) => !isIcu(id)) };
};

const on = (...args: readonly string[]) => run([...args, '--data-dir', dataDir]);
type Printed = Certificate & { code: number | null };
const json = async (action: string, ...more: readonly string[]): Promise<Printed> => {
  const { stdout, stderr, code } = await on('erase', '--certificate', action, '--json', ...more);
  expect([0, 9], stderr).toContain(code);
  return { ...(JSON.parse(stdout) as Certificate), code };
};
const text = async (action: string, ...more: readonly string[]) =>
  (await on('erase', '--certificate', action, ...more)).stdout.replace(/\s+/g, ' ');

/** Does the work beside a collector that runs on the directory. */
async function beside<Result>(work: () => Promise<Result>): Promise<Result> {
  const collector = await start(dataDir, ['--no-listen', '--encryption-keys', directories.join()]);
  try {
    return await work();
  } finally {
    await collector.stop();
  }
}

async function keysOf(isOne: (sequence: number) => boolean): Promise<TakenKeys[]> {
  const found = new Map<string, { tag: number; organisation: string; sequences: number[] }>();
  const { events: log } = openStore(dataDir);
  for await (const batch of log.pass())
    for (const { isOwn, sequence, organisation, bucket: tag } of batch) {
      if (isOwn || tag === undefined || !isOne(sequence)) continue;
      const name = `${tag} ${organisation}`;
      const known = found.get(name) ?? { tag, organisation, sequences: [] };
      found.set(name, known);
      known.sequences.push(sequence);
    }
  await log.close();
  return [...found.values()].map((each) => ({ ...each, sequences: SequenceSet.of(each.sequences) }));
}

type Facts = Partial<Omit<ErasureFacts, 'action'>>;

/** Erases as `erase apply` does. @returns the action, when there is an answer. */
async function erase(
  isOne: (sequence: number) => boolean,
  more: Partial<Erase> = {},
  facts: Facts | 'none' = {},
  holds: readonly string[] = [],
): Promise<string> {
  const action = randomUUID();
  const whole: ErasureFacts = {
    ...{ action, case: CASE, left: [], overridden: [], mentions: 0, unread: 0 },
    setByHand: { marked: 2, unmarked: 1 },
    planner: { name: 'Ada Privacy', isProven: false, at: '2026-11-27T10:00:00.000Z' },
    applier: { name: 'bob', isProven: true, at: '2026-11-27T11:00:00.000Z' },
    ...(facts === 'none' ? {} : facts),
  };
  const requests = new Inbox(dataDir);
  const planned = { plan: HASH, marks: HASH, record: await keepErasureRecord(dataDir, whole) };
  await layRequest(requests, {
    action: {
      ...{ action, does: 'erase', reason: 'erasure-request', part: 1, parts: 1, keys: await keysOf(isOne) },
      ...(facts === 'none' ? {} : planned),
      ...more,
    },
    considered: { policy: null, holds },
  });
  let answer: LifecycleAnswer | undefined;
  await expect.poll(async () => (answer = await answerTo(requests, action))).toBeDefined();
  expect(answer?.state).not.toBe('refused');
  return action;
}

test('[R-2050] the certificate lists the viewers that have reported, and when they followed', async () => {
  const action = await beside(() => erase((sequence) => sequence === 7));
  expect(await json(action)).toMatchObject({ viewers: [] });
  expect(await text(action)).toContain('Viewers none has reported');
  const [first, second, earlier] = [randomUUID(), randomUUID(), randomUUID()];
  const report = (viewer: string, erased: string, command = 'viewer') =>
    beginAccess(dataDir, { command, filter: { viewer, erased } })({ events: 0, complete: true });
  report(first, earlier);
  report(second, earlier);
  report(second, action);
  report(second, action);
  report(randomUUID(), action, 'viewer run');
  const { viewers } = await json(action);
  const at = expect.stringMatching(/^20..-..-..T/) as string;
  expect(viewers).toEqual([
    { viewer: first, followed: null },
    { viewer: second, followed: at },
  ]);
  expect(await text(action)).toContain(
    `Viewers ${first} has not followed yet; ${second} followed ${viewers[1]?.followed}`,
  );
});

test('[R-2056] the certificate says if the access log is incomplete, and then does not deny that a viewer followed', async () => {
  const action = await beside(() => erase((sequence) => sequence === 7));
  const followed = randomUUID();
  const report = (at: string, erased: string) => {
    vi.useFakeTimers({ toFake: ['Date'], now: new Date(at) });
    const filter = { viewer: followed, erased };
    beginAccess(dataDir, { command: 'viewer', filter })({ events: 0, complete: true });
    vi.useRealTimers();
  };
  const encryption = encryptionIn(dataDir, { directories });
  const moved = path.join(root, 'access.log');
  for (const [at, erased] of [
    ['2997-05-01', action],
    ['2998-05-01', randomUUID()],
  ] as const) {
    report(at, erased);
    await fillSigned(dataDir, [], { encryption });
  }
  expect(await json(action)).not.toHaveProperty('access_log_missing');
  fs.renameSync(path.join(dataDir, 'access.log'), moved);
  expect(await json(action)).toMatchObject({
    ...{ viewers: [{ viewer: followed, followed: null }], access_log_missing: ['access.log'] },
  });
  expect(await text(action)).toContain(
    `Viewers ${followed}: not known whether it followed; access log incomplete: access.log not in the ` +
      'data directory',
  );
  const given = ['--access-log', moved];
  expect(await text(action, ...given)).toContain(`Viewers ${followed} followed 2997-05-01T`);
  expect(await json(action, ...given)).not.toHaveProperty('access_log_missing');
  const { code, stderr } = await on('erase', '--list', ...given);
  expect([code, stderr]).toEqual([2, expect.stringContaining('--access-log: only with --certificate')]);
  fs.renameSync(moved, path.join(dataDir, 'access.log'));
  expect(await text(action)).toContain(`Viewers ${followed} followed 2997-05-01T`);
});

describe('[R-1344] the certificate of an erasure', () => {
  test('states events, period, case, persons, what is left and why, and how it is checked', async () => {
    const action = await beside(() =>
      erase(
        (sequence) => sequence <= 50,
        { reason: 'court-order', override: true, incomplete: true },
        {
          ...{
            mentions: 2,
            unread: 4,
            overridden: [{ of: 'ward', until: '2027-01-02T00:00:00.000Z', events: 3 }],
          },
          left: [
            { why: 'hold', of: 'CASE-7', events: 5 },
            { why: 'floor', of: 'law', until: '2031-05-06T00:00:00.000Z', events: 6 },
            { why: 'not marked', of: 'the run is about someone else', events: 7 },
            { why: 'stored in the clear', events: 1 },
          ],
        },
      ),
    );
    const made = await json(action);
    expect(made).toMatchObject({
      ...{
        format: 'clinical-events/erasure-certificate/v1',
        action,
        code: 0,
        reason: 'court-order',
        case: CASE,
      },
      ...{ organisations: ['er', 'icu'], events: 50, runs: 2, mentions: 2, unread: 4, whole: true },
      events_by_kind: { 'inference-start': 10, outcome: 40 },
      ...{ first_received: '2026-01-01T00:00:00.000Z', last_received: '2026-01-02T00:24:00.000Z' },
      ...{ plan: HASH, marks: HASH, floors_overridden: true, incomplete: true, copies: [], left_out: [] },
      ...{
        event_ids: byOrganisation(ids.slice(0, 50)),
        directories: 2,
        keys_away: [],
        policy: null,
        mirror_of: null,
      },
      planner: { name: 'Ada Privacy', isProven: false },
    });
    const said = await text(action);
    for (const part of [
      ...['CERTIFICATE OF ERASURE Case DSR-2026/0042 ', 'Planned by Ada Privacy', 'Applied by bob'],
      ...['Erased 50 events (10 inference-start, 40 outcome) of 2 runs', `Plan SHA-256 ${HASH}`],
      ...['- 5 events on hold by CASE-7', '- 6 events ', '- 7 events ', '- 1 event '],
      `collector proof ${made.entries[0]?.id} --out ${made.entries[0]?.sequence}.proof`,
      `collector proof ${made.done_entry?.id} --out ${made.done_entry?.sequence}.proof`,
    ])
      expect(said).toContain(part);
    expect(said).not.toMatch(/undefined|null/);
    // A third party checks that, with the entry as the log has it.
    const [proof, body] = ['entry.proof', 'entry.json'].map((name) => path.join(root, name));
    const proved = await on('proof', made.entries[0]?.id ?? '', '--out', proof ?? '');
    expect(proved.code, proved.stderr).toBe(0);
    const { events: log, tree } = openStore(dataDir);
    const { entries } = await log.withId({ eventId: made.entries[0]?.id ?? '', known: [] });
    fs.writeFileSync(body ?? '', entries[0]?.body ?? '');
    await Promise.all([log.close(), tree.close()]);
    const checked = await run([
      'check-proof',
      proof ?? '',
      '--event',
      body ?? '',
      '--key',
      firstKey(dataDir),
    ]);
    expect(checked, checked.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^VALID/) as string,
    });
  });

  test('without its record says what the log says, and "not available"', async () => {
    const action = await beside(() => erase((sequence) => sequence === 7));
    fs.rmSync(path.join(dataDir, 'lifecycle', 'erasures', `${action}.json`));
    expect(await json(action)).toMatchObject({
      ...{ code: 0, case: null, planner: null, applier: null, left: null, mentions: null, unread: null },
      ...{ events: 1, event_ids: { icu: [ids[6]] }, plan: HASH },
    });
    const said = await text(action);
    for (const row of ['Case', 'Planned by', 'Applied by']) expect(said).toContain(`${row} not available`);
    expect(said).not.toContain(CASE);
  });

  test('of an erasure by policy names the rule in place of a person', async () => {
    const [policy, rule] = [randomUUID(), 'old ones'];
    const action = await beside(() =>
      erase((sequence) => sequence === 7, { reason: 'policy', policy, rule }, 'none'),
    );
    expect(await json(action)).toMatchObject({ code: 0, policy, rule, case: null, plan: null, left: null });
    expect(await text(action)).toMatch(new RegExp(`rule old ones .*${policy}`));
  });

  test('names the checkpoint that covers its entries, if there is one yet', async () => {
    const action = await beside(() => erase((sequence) => sequence === 7));
    const { checkpoint, entries, done_entry } = await json(action);
    const signed = path.join(dataDir, 'checkpoints', 'latest');
    const note = fs.readFileSync(signed);
    expect(checkpoint?.size).toBeGreaterThanOrEqual(done_entry?.sequence ?? Infinity);
    expect(entries[0]?.sequence).toBeLessThan(done_entry?.sequence ?? 0);
    // A second one, and the checkpoint from before it.
    const second = await beside(() => erase((sequence) => sequence === 8));
    fs.writeFileSync(signed, note);
    expect((await json(second)).checkpoint).toBeNull();
    expect((await json(action)).checkpoint).toEqual(checkpoint);
  });

  test('is pending while a directory of keys is missing, which it names, and complete when that is back', async () => {
    const [, mirror = ''] = directories;
    const action = await beside(async () => {
      fs.renameSync(mirror, `${mirror}.away`);
      const asked = await erase((sequence) => sequence === 7);
      const pending = await json(asked);
      expect(pending).toMatchObject({ code: 9, keys_destroyed: null, done_entry: null, keys_away: [mirror] });
      expect((await on('erase', '--list')).stdout).toMatch(/erasure-request +1 +\d+ .* pending\n$/);
      const { stdout, stderr, code } = await on('erase', '--certificate', asked);
      expect([code, stderr]).toEqual([9, expect.stringContaining('pending')]);
      expect(stdout).toMatch(/^ERASURE IN PROGRESS: this is not a certificate\n/);
      expect(stdout).toContain(mirror);
      fs.renameSync(`${mirror}.away`, mirror);
      return asked;
    });
    await beside(() => expect.poll(async () => (await json(action)).code).toBe(0));
    expect(await text(action)).toMatch(/Keys destroyed 20\S+Z/);
  });

  test('names copies of keys by their dates, a directory that was taken out of use, and the end of the epoch', async () => {
    const copy = path.join(root, 'copy');
    fs.mkdirSync(copy);
    const copied = await beside(() => on('encryption-keys', 'copy', copy, '--expires', '14d'));
    expect(copied.code, copied.stderr).toBe(0);
    const [left = ''] = directories.splice(1, 1);
    const action = await beside(() => erase((sequence) => sequence === 7));
    const before = await json(action);
    const { made, until } = before.copies[0] ?? { made: '', until: '' };
    expect(Date.parse(until) - Date.parse(made)).toBeGreaterThan(13 * 86_400_000);
    expect(before).toMatchObject({ left_out: [{ directory: left }], key_epoch_ended: null });
    expect(await text(action)).toMatch(new RegExp(`Copies of keys .*${made}.*${until}; ${left}`));
    expect(await beside(async () => (await on('encryption-keys', 'rotate')).code)).toBe(0);
    expect(Date.parse((await json(action)).key_epoch_ended ?? '')).toBeGreaterThan(Date.parse(before.began));
  });

  test('says if not all parts of the erasure were begun', async () => {
    const action = randomUUID();
    const keys = await keysOf((sequence) => sequence === 7);
    const half: Erase = { action, does: 'erase', reason: 'test-data', part: 1, parts: 2, keys };
    const entry = ownEntry(ENTRY_KINDS.lifecycleAction, WRITER, actionFields(half));
    await fillSigned(dataDir, [[entry as Made]], { encryption: encryptionIn(dataDir, { directories }) });
    await beside(() => expect.poll(async () => (await json(action)).code).toBe(0));
    expect(await json(action)).toMatchObject({ whole: false, events: 1 });
  });

  test('[R-1344] of a restored log has the content of the record', async () => {
    const action = await beside(() => erase((sequence) => sequence === 7));
    const [backups, target] = [path.join(root, 'backups'), path.join(root, 'restored')];
    expect((await on('backup', backups, '--keys-elsewhere')).code).toBe(0);
    const restored = await run(['restore', backups, '--data-dir', target, '--key', firstKey(dataDir)]);
    expect(restored.code, restored.stderr).toBe(0);
    expect(await json(action)).toMatchObject({ case: CASE });
    dataDir = target;
    // Without its keys the record cannot be opened.
    expect(await json(action)).toMatchObject({ case: null });
    fs.cpSync(path.join(root, 'data', 'signing-keys'), path.join(target, 'signing-keys'), {
      recursive: true,
    });
    const collector = await start(target, ['--no-listen', '--encryption-keys', directories.join()]);
    await collector.stop();
    expect(await json(action)).toMatchObject({ code: 0, case: CASE, applier: { name: 'bob' } });
  });
});

describe('[R-1344] encrypted bytes', () => {
  test('are pending until a collector has removed them, and then have a fixed time', async () => {
    const early = await beside(() => erase((sequence) => sequence <= 50));
    expect(await json(early)).toMatchObject({ bytes_removed: null, bytes_left: 50 });
    expect(await text(early)).toMatch(/Encrypted bytes removed pending\b.*? 50 events/);
    const began = Date.now();
    await beside(() => expect.poll(async () => (await json(early)).bytes_left).toBe(0));
    const done = await json(early);
    expect(done).toMatchObject({
      ...{ event_ids: byOrganisation(ids.slice(0, 50)), first_received: '2026-01-01T00:00:00.000Z' },
      events: 50,
    });
    expect(Date.parse(done.bytes_removed ?? '')).toBeGreaterThanOrEqual(began);
    expect(await text(early)).toContain(`Encrypted bytes removed ${done.bytes_removed ?? '-'}`);
    // Of the same segments, and of the one that is written to.
    const later = await beside(() => erase((sequence) => [50, 51, 25 * BATCHES].includes(sequence)));
    expect(await json(later)).toMatchObject({ bytes_removed: null, bytes_left: 2 });
    await beside(() => expect.poll(async () => (await json(later)).bytes_left).toBe(0));
    expect((await json(early)).bytes_removed).toBe(done.bytes_removed);
  });
});

describe('[R-1344] erase --list', () => {
  test('lists actions, oldest first, and their state', async () => {
    expect(await on('erase', '--list')).toMatchObject({ code: 0, stdout: '' });
    const action = await beside(async () => {
      expect((await on('hold', 'add', 'CASE-7', '--organisation', 'ward')).code).toBe(0);
      expect((await on('encryption-keys', 'rotate')).code).toBe(0);
      const [hold = ''] = openStore(dataDir).events.actions?.().holds.keys() ?? [];
      return erase((sequence) => sequence === 3, { reason: 'test-data' }, {}, [hold]);
    });
    const { stdout } = await on('erase', '--list', '--json');
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
    expect(lines).toMatchObject([
      { does: 'hold', reason: null, events: null, state: 'done' },
      { does: 'rotate' },
      { action, does: 'erase', reason: 'test-data', rule: null, events: 1, state: 'done' },
    ]);
    expect((await on('erase', '--list')).stdout.split('\n')).toHaveLength(5);
  });

  test('and --certificate refuse what they cannot show', async () => {
    expect((await on('erase', '--list', '--certificate', randomUUID())).code).toBe(2);
    expect((await on('erase', '--certificate', 'all')).code).toBe(2);
    expect((await on('erase', '--certificate', randomUUID())).code).toBe(6);
    expect((await on('actions')).code).toBe(2);
    // Options before the subcommand, as messages have them.
    const plan = ['plan', '--event', randomUUID(), '--out', path.join(root, 'plan.json')];
    const asked = await run(['erase', '--data-dir', dataDir, ...plan]);
    expect([asked.code, asked.stderr]).toEqual([6, expect.stringContaining(`in ${dataDir}`)]);
  });
});

describe('[R-1344] erase plan --certificate', () => {
  test('plans what the certificate of an erasure names, and no event of another organisation with the same id', async () => {
    // As in a copy of the log from before the erasure.
    const older = path.join(root, 'older');
    const [eventId, runId] = [randomUUID(), randomUUID()];
    const same = ['icu', 'er'].map((organisation) => loggedEvent('same', { eventId, runId, organisation }));
    await fillSigned(dataDir, [same], { encryption: encryptionIn(dataDir, { directories }) });
    await beside(() => Promise.resolve());
    fs.cpSync(dataDir, older, { recursive: true });
    const last = 25 * BATCHES + 1;
    const action = await beside(() => erase((sequence) => sequence <= 2 || sequence === last));
    const { stdout } = await on('erase', '--certificate', action, '--json');
    const [file, out] = ['certificate.json', 'plan.json'].map((name) => path.join(root, name));
    fs.writeFileSync(file ?? '', stdout);
    const planned = ['erase', 'plan', '--certificate', file ?? '', '--out', out ?? '', '--data-dir', older];
    const { code, stderr } = await run(planned);
    expect(code, stderr).toBe(0);
    const { events } = JSON.parse(fs.readFileSync(out ?? '', 'utf8')) as {
      events: { id: string; organisation: string; erase: boolean }[];
    };
    const marked = events.filter(({ erase: mark }) => mark);
    expect(marked.map(({ id, organisation }) => [id, organisation])).toEqual([
      ...[ids[0], ids[1]].map((id, i) => [id, i === 0 ? 'icu' : 'er']),
      [eventId, 'icu'],
    ]);
  });
});
