/** A log in PostgreSQL whose payloads are encrypted, its mirrors, and what is erased from it: through the commands. */
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { newKekFile } from '../../../collector/src/privacy/key-encryption-key.js';
import { PostgresServer } from '../running/postgres-server.js';
import { sampleEvent } from '../../../collector/test/running/sample-events.js';
import {
  eventsIn,
  launch,
  outcomeEvent,
  postEvent,
  type PrintedEvent,
  run,
  type Running,
} from '../../../collector/test/running/collector-process.js';
import { applied, erased as erasedBy, mark, planned } from '../../../collector/test/running/erasing.js';
import { sharedLog } from './shared-log.js';

const log = sharedLog();
const { place, succeeds, collector, signed } = log;
let keyServer: PostgresServer;
let store: string;
let keys: string;

beforeAll(async () => {
  keyServer = await PostgresServer.start();
});
afterAll(() => keyServer.remove());
beforeEach(() => {
  store = log.store;
  keys = `${keyServer.url()}?schema=${log.schema}`;
  fs.writeFileSync(place('kek'), newKekFile(), { mode: 0o600 });
});

const kek = () => ['--kek', `file:${place('kek')}`];
const filled = () => log.filled(['--encryption', 'on', '--encryption-keys', keys, ...kek()], kek());

async function printed(...args: readonly string[]): Promise<PrintedEvent[]> {
  return eventsIn(await succeeds('events', ...args));
}

test('[R-1320] collectors that encrypt write one log, which who has the keys reads, and who has not can prove', async () => {
  const { one, other, key, ids } = await filled();
  const event = outcomeEvent();
  for (const each of [one, other]) expect((await postEvent(each, key, event)).status).toBe(201);
  const another = { ...event, outcome: { outcome_type: 'contradicted' } };
  expect((await postEvent(other, key, another)).status).toBe(409);
  await signed(21);
  const all = await printed('--store', store, '--data-dir', place('one'));
  expect(all.map(({ event_id: id }) => id).toSorted()).toEqual([...ids, event.event_id].toSorted());
  expect(all.every((printedEvent) => isOpen(printedEvent))).toBe(true);
  const closed = await printed('--store', store, '--data-dir', place('nowhere'));
  expect(closed.map(({ body }) => body)).toEqual(all.map(() => null));
  expect(await succeeds('verify', '--store', store, '--data-dir', place('one'))).toMatch(/INTACT/);
  const blind = JSON.parse(
    await succeeds('verify', '--store', store, '--data-dir', place('nowhere'), '--json'),
  ) as object;
  expect(blind).toMatchObject({ intact: true, unopened_payloads: 21 });
  expect(await Promise.all([one.stop(), other.stop()])).toEqual([0, 0]);
});

test('[R-1324] a collector that cannot have the keys does not start, and says what it needs', async () => {
  const serve = ['serve', '--store', store, '--data-dir', place('x'), '--port', '0'];
  const without = await run([...serve, '--encryption', 'on']);
  expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('--encryption-keys')]);
  const args = [...serve, '--encryption-keys', keys];
  const noKek = await run(args);
  expect([noKek.code, noKek.stderr]).toEqual([2, expect.stringContaining('--kek')]);
  const { one, other } = await filled();
  await Promise.all([one.stop(), other.stop()]);
  const off = await run([...args, ...kek(), '--encryption', 'off']);
  expect([off.code, off.stderr]).toEqual([
    2,
    expect.stringMatching(/^collector: --encryption off: .* encrypted/m),
  ]);
  fs.writeFileSync(place('kek'), newKekFile(), { mode: 0o600 });
  const wrong = await run([...args, ...kek(), '--signing-keys', place('signing-keys')]);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('--kek')]);
});

test('[R-1324] where the log does not say any more that it is encrypted, no collector stores in the clear', async () => {
  const { one, other } = await filled();
  await Promise.all([one.stop(), other.stop()]);
  await log.server.query(`DELETE FROM ${log.schema}.encryption`);
  for (const name of ['one', 'new']) {
    const signing = ['--signing-keys', place('signing-keys')];
    const begun = await run([
      'serve',
      '--store',
      store,
      '--data-dir',
      place(name),
      '--port',
      '0',
      ...signing,
      ...kek(),
    ]);
    expect([begun.code, begun.stderr]).toEqual([
      2,
      expect.stringMatching(/are encrypted, .*table encryption .*INSERT INTO encryption/),
    ]);
  }
  await log.server.query(`INSERT INTO ${log.schema}.encryption (keys) VALUES ('${keys}')`);
  await (await collector('one', ...kek())).stop();
});

test('[R-1320] a mirror of an encrypted log encrypts by keys of its own, and every command reads it', async () => {
  const { one, other, ids } = await filled();
  const mirror = place('mirror');
  const refused = await run(['mirror', '--store', store, '--data-dir', mirror, '--once']);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('--kek')]);
  await succeeds('mirror', '--store', store, '--data-dir', mirror, '--once', ...kek());
  expect(await succeeds('verify', '--data-dir', mirror)).toContain('INTACT');
  const all = await printed('--data-dir', mirror);
  expect(all.map(({ event_id: id }) => id).toSorted()).toEqual(ids.toSorted());
  const bytes = fs
    .readdirSync(path.join(mirror, 'ledger'))
    .map((name) => fs.readFileSync(path.join(mirror, 'ledger', name), 'latin1'))
    .join('');
  expect(bytes).not.toContain('"outcome"');
  expect(fs.existsSync(path.join(mirror, 'encryption-keys', 'kek'))).toBe(true);
  // What is asked of the directory of a collector is not asked of it.
  const { findings } = JSON.parse(await succeeds('doctor', '--data-dir', mirror, '--json')) as {
    findings: { severity: string; subject: string; message: string }[];
  };
  expect(findings.filter(({ severity }) => severity !== 'ok')).toEqual([
    expect.objectContaining({
      subject: 'encryption',
      message: expect.stringContaining('on the disk') as string,
    }),
  ]);
  expect(findings.map(({ subject }) => subject)).toContain('mirror');
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-2045] a mirror opens its files to a group, once its own wrapping key is not beside its keys', async () => {
  const { one, other } = await filled();
  const mirror = place('mirror');
  const group = ['--read-group', String(process.getegid?.() ?? 0)];
  const asked = ['mirror', '--store', store, '--data-dir', mirror, '--once', ...kek()];
  const refused = await run([...asked, ...group]);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('is beside them')]);
  await succeeds(...asked);
  fs.writeFileSync(place('mirror-kek'), newKekFile(), { mode: 0o600 });
  await succeeds('encryption-keys', 'rewrap', `file:${place('mirror-kek')}`, '--data-dir', mirror);
  const modes = () =>
    ['', 'ledger', 'checkpoints/mirror.json', 'checkpoints/latest', 'encryption-keys/names.keys'].map(
      (name) => (fs.statSync(path.join(mirror, name)).mode & 0o7777).toString(8),
    );
  await succeeds(...asked, ...group);
  expect(modes()).toEqual(['2710', '2750', '640', '640', '640']);
  await succeeds(...asked);
  expect(modes()).toEqual(['700', '700', '600', '600', '600']);
  await Promise.all([one.stop(), other.stop()]);
});

const SUBJECT = 'patient-4711';
const OTHER = 'patient-0815';

/** A start and an outcome about someone. @returns the id of the run, and of the outcome. */
async function sendRun(to: Running, key: string, target: string): Promise<readonly [string, string]> {
  const begun = sampleEvent('inference-start', {
    target_identity: { target_id: target, target_type: 'patient' },
  });
  const outcome = { ...outcomeEvent(), run_id: begun.event_id };
  expect((await postEvent(to, key, begun, 'inference-start')).status).toBe(201);
  expect((await postEvent(to, key, outcome)).status).toBe(201);
  return [begun.event_id, outcome.event_id];
}

/** A mirror that follows, until it is told to stop. */
function follow(name: string) {
  const mirror = launch(['mirror', '--store', store, '--data-dir', place(name), ...kek()]);
  return {
    output: mirror.output,
    async end(): Promise<void> {
      mirror.process.kill('SIGTERM');
      expect(await mirror.exited).toBe(0);
    },
  };
}

/** The body of what was erased is null. */
const isOpen = ({ body }: { readonly body: unknown }) => typeof body === 'string';

interface Verified {
  readonly intact: boolean;
  readonly findings: readonly { readonly message: string }[];
  readonly erased_events: Readonly<Record<string, number>>;
}

test('[R-1334] a person is erased from the log and its mirrors, by a command on one of them', async () => {
  const { one, other, key } = await filled();
  const [run1, outcome1] = await sendRun(one, key, SUBJECT);
  await sendRun(other, key, OTHER);
  await signed(24);
  for (const name of ['mirror', 'second'])
    await succeeds('mirror', '--store', store, '--data-dir', place(name), '--once', ...kek());
  const on = ['--data-dir', place('mirror')];
  const subjects = place('subjects');
  fs.writeFileSync(subjects, `${SUBJECT}\n`);
  const asked = ['--subject-file', subjects];
  const { file, stdout } = await planned(on, asked);
  expect(stdout).toContain('2 events of 1 run marked');
  const nowhere = await applied(on, file);
  expect([nowhere.code, nowhere.stderr]).toEqual([2, expect.stringContaining('--store')]);
  const elsewhere = await run(['erase', '--list', '--store', store, '--data-dir', place('x')]);
  expect([elsewhere.code, elsewhere.stderr]).toEqual([2, expect.stringContaining('mirror of the log')]);

  const mirrors = [follow('mirror'), follow('second')];
  const { code, stdout: certificate, stderr } = await applied([...on, '--store', store], file, '--wait');
  expect(code, stderr).toBe(0);
  expect(certificate).toContain('CERTIFICATE OF ERASURE');
  expect(certificate).toMatch(/Keys destroyed +20/);
  // [R-2025]
  expect(certificate).toMatch(/Encrypted bytes removed +20/);
  expect(certificate).toContain('other mirrors of the log');
  const erased = (events: readonly PrintedEvent[]) =>
    events.filter((event) => !isOpen(event)).map(({ event_id: id }) => id);
  const expected = [run1, outcome1];
  expect(erased(await printed(...on))).toEqual(expected);
  expect(erased(await printed('--store', store, '--data-dir', place('one')))).toEqual(expected);
  await expect.poll(async () => erased(await printed('--data-dir', place('second')))).toEqual(expected);
  for (const collector of [one, other]) {
    const again = await postEvent(collector, key, { ...outcomeEvent(), event_id: outcome1 });
    expect([again.status, await again.json()]).toMatchObject([409, { code: 'event_erased' }]);
  }
  expect((await run(['runs', ...on, '--target', SUBJECT])).stdout).toBe('');

  // On the other mirror something is held: the first knows of it, and lets nothing of it be erased.
  fs.writeFileSync(subjects, `${OTHER}\n`);
  const second = ['--data-dir', place('second'), '--store', store];
  await succeeds('hold', 'add', 'CASE-7', '--subject-file', subjects, ...second, ...kek());
  await expect.poll(() => succeeds('hold', 'list', ...on)).toContain('CASE-7');
  const held = await planned([...on, '--store', store], asked);
  expect(held.stdout).toContain('2 events: on hold by CASE-7');
  mark(held.file, () => true);
  expect((await applied([...on, '--store', store], held.file)).code).toBe(10);
  await succeeds('hold', 'release', 'CASE-7', ...on, '--store', store);
  const policy = place('policy.json');
  fs.writeFileSync(
    policy,
    JSON.stringify({ version: 1, name: 'test', age_from: 'received_at', default: { keep: 'P0D' } }),
  );
  const set = await run(['retention', 'policy', 'set', policy, '--dry-run']);
  expect(set.stderr + set.stdout).toContain('ok');
  await succeeds('retention', 'policy', 'set', policy, ...on, '--store', store);
  await succeeds('retention', 'run', ...on, '--store', store);
  expect((await printed(...on)).filter((event) => isOpen(event))).toEqual([]);
  await Promise.all(mirrors.map((each) => each.end()));

  // A mirror that comes later has no payload of what was erased, and is proved like the others.
  await succeeds('mirror', '--store', store, '--data-dir', place('late'), '--once', ...kek());
  for (const where of [
    ['--data-dir', place('late')],
    on,
    ['--data-dir', place('second')],
    ['--store', store, '--data-dir', place('one')],
  ]) {
    const found = JSON.parse(await succeeds('verify', '--json', ...where)) as Verified;
    // Of the hold that is over each has what it held.
    expect(found.findings.filter(({ message }) => message.includes('hold'))).toEqual([]);
    expect([found.intact, found.erased_events], where.join(' ')).toEqual([
      true,
      { 'erasure-request': 2, policy: 22 },
    ]);
  }
  expect(await Promise.all([one.stop(), other.stop()])).toEqual([0, 0]);
});

test('[R-1342] [R-1338] a hold on a person is on what comes later, on every mirror and whatever keys are replaced, until it is released', async () => {
  const { one, other, key } = await filled();
  const [run1] = await sendRun(one, key, OTHER);
  await signed(22);
  const names = ['mirror', 'second'];
  for (const name of names)
    await succeeds('mirror', '--store', store, '--data-dir', place(name), '--once', ...kek());
  const mirrors = names.map(follow);
  const on = (name: string) => ['--data-dir', place(name)];
  const asked = [...on('mirror'), '--store', store];
  const subjects = place('subjects');
  fs.writeFileSync(subjects, `${SUBJECT}\n`);
  await succeeds('hold', 'add', 'CASE-7', '--subject-file', subjects, ...asked, ...kek());
  const records = async () =>
    JSON.stringify(await log.server.query(`SELECT record FROM ${log.schema}.hold_records`));
  expect(await records()).toContain('sealed-hold');
  expect(await records()).not.toContain('CASE-7');
  await succeeds('encryption-keys', 'rotate', ...asked);
  const erased = await erasedBy(asked, ['--run', run1]);
  expect(erased.code, erased.stderr).toBe(0);
  const [, action = ''] = /Action +([0-9a-f-]{36})/.exec(erased.stdout) ?? [];
  const certificate = async () =>
    JSON.parse(await succeeds('erase', '--certificate', action, '--json', ...on('second'))) as {
      mirrors: { mirror: string; followed: string | null }[];
    };
  await expect
    .poll(async () => (await certificate()).mirrors.filter(({ followed }) => followed !== null))
    .toHaveLength(2);

  const [run2] = await sendRun(other, key, SUBJECT);
  for (const name of names) {
    await expect
      .poll(async () => (await planned(on(name), ['--run', run2])).stdout)
      .toContain('on hold by CASE-7');
    const { file } = await planned(on(name), ['--run', run2]);
    mark(file, () => true);
    expect((await applied([...on(name), '--store', store], file)).code).toBe(10);
  }
  await succeeds('hold', 'release', 'CASE-7', ...asked);
  for (const name of names) {
    await expect.poll(async () => (await run(['hold', 'list', ...on(name)])).stderr).toContain('no holds');
    expect(fs.readdirSync(path.join(place(name), 'lifecycle', 'holds'))).toEqual([]);
  }
  expect(await records()).toBe('[]');
  await Promise.all(mirrors.map((each) => each.end()));
  expect(await Promise.all([one.stop(), other.stop()])).toEqual([0, 0]);
});

test('[R-1335] of what was changed in the database no key is known: the rest is erased, and the command says so', async () => {
  const { one, other } = await filled();
  const mirror = ['--data-dir', place('mirror')];
  await succeeds('mirror', '--store', store, ...mirror, '--once', ...kek());
  const [first, second] = await printed(...mirror);
  const place3 = (by: string) =>
    log.server.query(`
      UPDATE ${log.schema}.events SET salted = set_byte(salted, 11, get_byte(salted, 11) ${by})
      WHERE encode(substring(envelope FROM 15 FOR 16), 'hex')::uuid = '${first?.event_id ?? ''}'`);
  await place3('# 128');
  const following = follow('mirror');
  const asked = [first, second].flatMap((event) => ['--event', event?.event_id ?? '']);
  const erased = await erasedBy([...mirror, '--store', store], asked, '--reason', 'test-data');
  expect([erased.code, erased.stderr]).toEqual([
    7,
    expect.stringContaining(`not erased: event ${first?.sequence ?? 0}.`),
  ]);
  expect(erased.stdout).toMatch(/^Erased +1 event /m);
  await following.end();
  await place3('# 128');
  expect(await succeeds('verify', '--store', store, '--data-dir', place('one'))).toContain('INTACT');
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-1328] a back-up of a mirror from before an erasure is restored with its keys, and is a mirror still', async () => {
  const { one, other, ids } = await filled();
  const mirror = ['--data-dir', place('mirror')];
  const own = place('own');
  fs.mkdirSync(own, { mode: 0o700 });
  await succeeds('mirror', '--store', store, ...mirror, '--once', ...kek());
  await succeeds('encryption-keys', 'copy', '--mirror', own, ...mirror);
  await succeeds('backup', place('backups'), ...mirror, '--keys-elsewhere');
  fs.cpSync(own, place('old'), { recursive: true });
  const following = follow('mirror');
  const { code, stderr } = await erasedBy([...mirror, '--store', store], ['--event', ids[0] ?? '']);
  expect(code, stderr).toBe(0);
  await following.end();
  const key = path.join(place('mirror'), 'checkpoints', 'origin.vkey');
  for (const [to, from] of [
    ['of-old', 'old'],
    ['of-today', 'own'],
  ] as const) {
    const restored = await run([
      ...['restore', place('backups'), '--data-dir', place(to), '--key', key],
      ...['--encryption-keys', place(from)],
    ]);
    expect(restored.code, restored.stderr).toBe(0);
    const serve = await run(['serve', '--data-dir', place(to), '--port', '0']);
    expect([serve.code, serve.stderr]).toEqual([2, expect.stringContaining('is a mirror of')]);
  }
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-1334] a mirror whose keys cannot be reached stands still before it says that they are gone', async () => {
  const { one, other, ids } = await filled();
  const [mirror, keysAway] = [place('mirror'), place('keys')];
  for (const name of ['mirror', 'second'])
    await succeeds('mirror', '--store', store, '--data-dir', place(name), '--once', ...kek());
  fs.mkdirSync(keysAway, { mode: 0o700 });
  await succeeds('encryption-keys', 'copy', '--mirror', keysAway, '--data-dir', mirror);
  fs.renameSync(keysAway, `${keysAway}.away`);
  const mirrors = [follow('mirror'), follow('second')];
  const second = ['--data-dir', place('second'), '--store', store];
  const { code, stderr } = await erasedBy(second, ['--event', ids[0] ?? '']);
  expect(code, stderr).toBe(0);
  await expect.poll(() => mirrors[0]?.output.stderr).toContain('waits for its keys');
  const state = async () => {
    const { stdout } = await run(['erase', '--list', '--json', '--data-dir', mirror]);
    return stdout === '' ? undefined : (JSON.parse(stdout) as { state: string }).state;
  };
  expect(await state()).toBe('pending');
  expect((await printed('--data-dir', mirror)).filter((event) => !isOpen(event))).toHaveLength(1);
  fs.renameSync(`${keysAway}.away`, keysAway);
  await expect.poll(state).toBe('done');
  await Promise.all(mirrors.map((each) => each.end()));
  expect(await succeeds('verify', '--data-dir', mirror)).toContain('INTACT');
  await Promise.all([one.stop(), other.stop()]);
});
