/** Erasures as a privacy officer requests them: planned, reviewed, applied. */
import { hash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { PlanEvent } from '../../src/commands/lifecycle/plan-file.js';
import { createKey, launch, run, start, storedEvents, type Running } from '../running/collector-process.js';
import { APPLIER, applied, mark, PLANNER, planIn, planned } from '../running/erasing.js';
import { post } from '../running/load.js';
import { sampleEvent, type SampleEvent } from '../running/sample-events.js';
import { scratch } from '../running/scratch.js';
import { firstKey } from './signed-directory.js';

const SUBJECT = 'patient-zwiebelkuchen-ß';
const OTHER = 'patient-pflaumenmus';

let root: string;
let dataDir: string;
let where: string[];
let subjects: string;
let encrypted: string[];
/** By organisation. */
let keys: Map<string, string>;
let collector: Running;

beforeEach(async () => {
  root = scratch();
  dataDir = path.join(root, 'data');
  where = ['--data-dir', dataDir];
  subjects = path.join(root, 'subject.txt');
  fs.writeFileSync(subjects, `${SUBJECT}\n`);
  const directories = ['keys', 'mirror'].map((name) => path.join(root, name));
  for (const directory of directories) fs.mkdirSync(directory);
  encrypted = ['--encryption-keys', directories.join()];
  keys = new Map([['default', await createKey(dataDir)]]);
  collector = await start(dataDir, encrypted);
  onTestFinished(() => collector.kill());
});

const on = (...args: readonly string[]) => run([...args, ...where]);
const bySubject = () => ['--subject-file', subjects];
const fileOf = (content: string) => {
  const file = path.join(root, randomUUID());
  fs.writeFileSync(file, content);
  return file;
};

interface Named {
  readonly target?: string;
  readonly caller?: string;
  readonly run?: string;
  readonly parent?: string;
}

async function send(
  event: SampleEvent,
  kind: 'inference-start' | 'outcome',
  organisation = 'default',
): Promise<string> {
  const key = keys.get(organisation) ?? (await createKey(dataDir, '--organisation', organisation));
  keys.set(organisation, key);
  const { status, body } = await post(collector.port, key, JSON.stringify(event), { kind });
  expect(status, body).toBe(201);
  return event.event_id;
}

/** @returns its id, by default that of its run too. */
function begin({ target, caller, run: runId, parent }: Named, organisation?: string): Promise<string> {
  const event = sampleEvent('inference-start', {
    target_identity: target === undefined ? undefined : { target_id: target, target_type: 'patient' },
    user_identity: caller === undefined ? undefined : { caller_id: caller, caller_type: 'patient' },
    ...{ run_id: runId, parent_event_id: parent },
  });
  return send(event, 'inference-start', organisation);
}

function outcome(runId?: string, description = 'the ECG showed it', parent?: string): Promise<string> {
  const said = { outcome_type: 'validated', description };
  return send(sampleEvent('outcome', { run_id: runId, parent_event_id: parent, outcome: said }), 'outcome');
}

/** A start and an outcome. @returns the id of the run, and of both events. */
async function whole(named: Named, organisation?: string): Promise<readonly [string, string]> {
  const started = await begin(named, organisation);
  const key = keys.get(organisation ?? 'default') ?? '';
  const ended = sampleEvent('outcome', { run_id: started });
  expect((await post(collector.port, key, JSON.stringify(ended))).status).toBe(201);
  return [started, ended.event_id];
}

/** Makes a plan, which must succeed. @returns the file, and what it says of each event. */
async function plan(...asked: readonly string[]) {
  const { code, stdout, stderr, file } = await planned(where, asked);
  expect(code, stdout + stderr).toBe(0);
  const { events } = planIn(file);
  const says = (event: PlanEvent | undefined) =>
    event && [event.because, event.about, event.erase, event.why];
  const of = (id: string) => says(events.find((event) => event.id === id));
  return { file, stdout, events, of, marked: events.filter(({ erase }) => erase).map(({ id }) => id) };
}

const apply = (file: string, ...more: readonly string[]) => applied(where, file, ...more);

async function erase(file: string, ...more: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await apply(file, '--json', ...more);
  expect(code, stderr).toBe(0);
  return (JSON.parse(stdout) as { action: string }).action;
}

/** The ids of the events whose payloads cannot be opened. */
async function gone(): Promise<string[]> {
  const stored = await storedEvents(dataDir);
  return stored.filter(({ body }) => typeof body !== 'string').map(({ event_id: id }) => id);
}

async function setPolicy(policy: object): Promise<void> {
  const file = fileOf(JSON.stringify({ version: 1, name: 'p', ...policy }));
  const { code, stderr } = await on('retention', 'policy', 'set', file);
  expect(code, stderr).toBe(0);
}

async function hold(name: string, ...what: readonly string[]): Promise<void> {
  const { code, stderr } = await on('hold', 'add', name, ...what);
  expect(code, stderr).toBe(0);
}

const ended = (code: number, ...says: readonly RegExp[]) => ({ code, says });
function expectEnd(
  { code, stdout, stderr }: Awaited<ReturnType<typeof run>>,
  wanted: ReturnType<typeof ended>,
): void {
  expect(code, stdout + stderr).toBe(wanted.code);
  for (const each of wanted.says) expect((stdout + stderr).replace(/\s+/g, ' ')).toMatch(each);
}

async function expectIntact(): Promise<void> {
  await collector.stop();
  const { code, stdout } = await on('verify', '--json');
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { intact: true, findings: [] }]);
}

/** All bytes below some directories. */
function everything(...directories: readonly string[]): Buffer {
  const files = directories.flatMap((directory) =>
    fs
      .readdirSync(directory, { recursive: true, encoding: 'utf8' })
      .map((name) => path.join(directory, name)),
  );
  return Buffer.concat(
    files.filter((file) => fs.statSync(file).isFile()).map((file) => fs.readFileSync(file)),
  );
}

describe('[R-1570] a plan by the ids of a person', () => {
  test('[R-1331] [R-1343] marks only events about this person, and its erasure leaves nothing of the person', async () => {
    const about = await whole({ target: SUBJECT });
    const called = await whole({ caller: SUBJECT });
    const late = randomUUID();
    const early = await outcome(late);
    const lateStart = await begin({ target: SUBJECT, caller: 'clinician-17', run: late });
    const forOther = await whole({ target: OTHER, caller: SUBJECT });
    const both = await begin({ target: SUBJECT });
    await begin({ target: OTHER, run: both });
    const nestedOther = await whole({ target: OTHER, parent: about[0] });
    const nestedNobody = await begin({ parent: nestedOther[0] });
    const [others] = await whole({ target: OTHER });
    const mentioned = await outcome(others, `sent by ${SUBJECT.toUpperCase()}`);
    const other = await begin({ target: SUBJECT.toUpperCase() });
    const loose = await outcome(undefined, 'hangs on it', about[0]);

    const made = await plan(...bySubject(), '--mentions');
    const wanted = [...about, ...called, early, lateStart, loose];
    expect(made.marked.toSorted()).toEqual(wanted.toSorted());
    const target = ['target', 'this person', true, ''];
    for (const id of [...about, early, lateStart, loose]) expect(made.of(id)).toEqual(target);
    for (const id of called) expect(made.of(id)).toEqual(['caller', 'this person', true, '']);
    for (const id of forOther)
      expect(made.of(id)).toEqual([
        'caller',
        'someone else',
        false,
        'the person is the caller, and the target is someone else',
      ]);
    expect(made.of(both)).toEqual(['target', 'someone else', false, 'its starts name several targets']);
    const nested = 'nested in a planned run; ';
    for (const id of nestedOther)
      expect(made.of(id)).toEqual(['nested', 'someone else', false, `${nested}about someone else`]);
    expect(made.of(nestedNobody)).toEqual(['nested', 'no person', false, `${nested}names no person`]);
    expect(made.of(mentioned)).toEqual(['mention', 'someone else', false, 'mentioned only']);
    expect(made.of(others)).toBeUndefined();
    // Ids are compared exactly; the same id in capitals is found as a mention only.
    expect(made.of(other)).toEqual(['mention', 'someone else', false, 'mentioned only']);
    const starts = await plan(...bySubject());
    expect(starts.of(mentioned)).toBeUndefined();

    // [R-1343]
    expect(fs.statSync(made.file).mode & 0o777).toBe(0o600);
    const certificate = await apply(made.file, '--json');
    expect(certificate.code, certificate.stderr).toBe(0);
    expect(JSON.parse(certificate.stdout)).toMatchObject({
      ...{
        reason: 'erasure-request',
        case: 'DSR-2026/114',
        events: wanted.length,
        plan: planIn(made.file).sha256,
      },
      ...{ planner: { name: PLANNER, isProven: false }, applier: { name: APPLIER, isProven: false } },
    });
    expect((await gone()).toSorted()).toEqual(wanted.toSorted());
    expect((await on('runs', '--target', SUBJECT)).stdout).not.toContain(about[0]);

    // [R-1331]
    const again = { ...sampleEvent('outcome', { run_id: about[0] }), event_id: about[1] };
    const answer = await post(collector.port, keys.get('default') ?? '', JSON.stringify(again));
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([409, { code: 'event_erased' }]);
    for (const text of [
      made.stdout,
      starts.stdout,
      certificate.stdout + certificate.stderr,
      fs.readFileSync(made.file, 'utf8'),
    ])
      expect(text.toLowerCase()).not.toContain('zwiebelkuchen');
    for (const name of ['access.log', 'lifecycle']) {
      const place = path.join(dataDir, name);
      const bytes = fs.statSync(place).isFile() ? fs.readFileSync(place) : everything(place);
      for (const word of ['zwiebelkuchen', 'pflaumenmus']) expect(bytes.includes(word), name).toBe(false);
    }
    await collector.stop();
    const left = everything(dataDir, path.join(root, 'keys'), path.join(root, 'mirror'));
    for (const encoding of ['utf8', 'base64', 'hex'] as const)
      expect(left.includes(Buffer.from(SUBJECT).toString(encoding)), encoding).toBe(false);
  });

  test('marks none of the runs that a clinician calls for others', async () => {
    const runs = [];
    for (let i = 0; i < 30; i++)
      runs.push(await begin({ target: `patient-${i % 9}`, caller: 'clinician-17' }));
    fs.writeFileSync(subjects, 'clinician-17\n');
    const made = await plan(...bySubject(), '--mentions');
    expect([made.marked, made.events.length]).toEqual([[], runs.length]);
    expect((await apply(made.file)).code).toBe(6);
    expect(await gone()).toEqual([]);
  });

  test('[R-1570] treats the same id in another organisation as another person', async () => {
    const [mine] = await whole({ target: SUBJECT });
    await whole({ target: SUBJECT }, 'ward');
    await whole({ target: SUBJECT }, 'ward');
    const both = await planned(where, bySubject());
    expectEnd(both, ended(2, /default \(1\), ward \(2\)/));
    expect(fs.existsSync(both.file)).toBe(false);
    const made = await plan(...bySubject(), '--organisation', 'default');
    expect(made.events.map(({ run: of }) => of)).toEqual([mine, mine]);
    expect(await erase(made.file)).toBeDefined();
    expect(await gone()).toHaveLength(2);
    // The same applies to an id of an event or of a run that two organisations have.
    const twice = sampleEvent('inference-start', { target_identity: undefined });
    for (const organisation of ['default', 'ward']) await send(twice, 'inference-start', organisation);
    for (const what of ['--run', '--event'])
      expectEnd(await planned(where, [what, twice.event_id]), ended(2, /2 organisations/));
    expect((await plan('--event', twice.event_id, '--organisation', 'ward')).events).toHaveLength(1);
  });

  test('[R-1342] finds a run whose row was deleted from the catalogue', async () => {
    const mine = await whole({ target: SUBJECT });
    const inner = await begin({ parent: mine[0] });
    expect((await on('runs', '--target', SUBJECT)).stdout).toContain(mine[0]);
    const catalogue = path.join(dataDir, 'catalogue', 'catalogue.sqlite');
    const database = new DatabaseSync(
      fs.existsSync(catalogue) ? catalogue : path.join(dataDir, 'catalogue.sqlite'),
      { timeout: 600_000 },
    );
    expect(database.prepare('DELETE FROM run').run().changes).toBe(2);
    database.close();
    expect((await on('runs', '--target', SUBJECT)).stdout).toBe('');
    expect((await plan(...bySubject())).marked).toEqual(mine);
    expect((await plan('--run', mine[0])).events.map(({ id }) => id)).toEqual([...mine, inner]);
    await hold('CASE-7', '--run', mine[0]);
    expect((await plan(...bySubject())).events.every(({ blocked }) => blocked[0]?.name === 'CASE-7')).toBe(
      true,
    );
  });

  test('[R-1343] accepts any line ends and white space in the file, and says which id no start has', async () => {
    await whole({ target: SUBJECT });
    for (const text of [`\ufeff${SUBJECT}\r\n`, `  ${SUBJECT}\u00a0\r\n\r\n`, `\t${SUBJECT} \r`]) {
      fs.writeFileSync(subjects, text);
      expect((await plan(...bySubject())).marked).toHaveLength(2);
    }
    fs.writeFileSync(subjects, `${SUBJECT}\npatient-4171\n`);
    expect((await plan(...bySubject())).stdout).toContain('number 2');
    for (const text of [Buffer.from(SUBJECT, 'utf16le'), 'a\0b', '\n']) {
      fs.writeFileSync(subjects, text);
      expect((await planned(where, bySubject())).code).toBe(2);
    }
    fs.writeFileSync(subjects, 'patient-4171');
    expectEnd(await planned(where, bySubject()), ended(6, /nothing to erase/));
    // From standard input, with a process title without arguments.
    const child = launch([
      'erase',
      'plan',
      '--subject-file',
      '-',
      '--out',
      path.join(root, 'stdin.json'),
      ...where,
    ]);
    await expect
      .poll(() => fs.readFileSync(`/proc/${child.process.pid}/cmdline`, 'utf8'))
      .toMatch(/^collector erase\0*$/);
    child.process.stdin?.end(SUBJECT);
    expect(await child.exited).toBe(0);
  });
});

describe('[R-1570] a plan by run, event or certificate', () => {
  test('marks what is named, and lists what is nested in it', async () => {
    const mine = await whole({ target: SUBJECT });
    const inner = await whole({ target: OTHER, parent: mine[0] });
    const byRun = await plan('--run', mine[0].slice(0, 8));
    expect(byRun.marked).toEqual(mine);
    for (const id of inner) expect(byRun.of(id)?.slice(0, 3)).toEqual(['nested', 'not compared', false]);
    const byEvent = await plan('--event', mine[1], '--event', inner[1]);
    expect(byEvent.marked).toEqual([mine[1], inner[1]]);
    for (const what of [
      ['--run', randomUUID()],
      ['--event', randomUUID()],
    ])
      expect((await planned(where, what)).code).toBe(6);
  });

  test('plans again what a certificate names, for a log that was restored from before it', async () => {
    const mine = await whole({ target: SUBJECT });
    await whole({ target: OTHER });
    const backups = path.join(root, 'backups');
    expect((await on('backup', backups)).code).toBe(0);
    for (const name of ['keys', 'mirror'])
      fs.cpSync(path.join(root, name), path.join(root, `${name}.old`), { recursive: true });
    const since = await whole({ target: SUBJECT });
    const made = await plan(...bySubject());
    const certificate = await apply(made.file, '--json');
    expect(certificate.code).toBe(0);
    await collector.stop();
    const restored = path.join(root, 'restored');
    for (const name of ['keys', 'mirror']) {
      fs.rmSync(path.join(root, name), { recursive: true });
      fs.renameSync(path.join(root, `${name}.old`), path.join(root, name));
    }
    expect((await run(['restore', backups, '--data-dir', restored, '--key', firstKey(dataDir)])).code).toBe(
      0,
    );
    const signing = ['--signing-keys', path.join(dataDir, 'signing-keys')];
    dataDir = restored;
    where = ['--data-dir', restored];
    collector = await start(dataDir, [...encrypted, ...signing, '--no-listen']);
    expect(await gone()).toEqual([]);
    const again = await plan('--certificate', fileOf(certificate.stdout));
    expect(again.marked).toEqual(mine);
    expect(planIn(again.file).asked).toContain(
      `${since.length} of ${made.marked.length} events not in this log`,
    );
    // What was erased once is erased again, although a floor was set since.
    await setPolicy({ floors: [{ id: 'law', keep: 'P10Y' }], default: { keep: 'P10Y' } });
    const floored = await plan('--certificate', fileOf(certificate.stdout));
    expectEnd(await apply(floored.file), ended(8, /floor law|floor "law"/));
    expectEnd(await apply(floored.file, '--override-floor'), ended(0));
    expect(await gone()).toEqual(mine);
    expect((await planned(where, ['--certificate', fileOf('{"events":1}')])).code).toBe(2);
  });
});

describe('[R-1570] an event that comes late for a run that was erased whole', () => {
  test('is counted by every plan, and marked with --late unless a late start names a target', async () => {
    const [mine] = await whole({ target: SUBJECT });
    const [other] = await whole({ target: SUBJECT });
    const kept = await whole({ target: OTHER });
    const action = await erase((await plan(...bySubject())).file);
    const late = await outcome(mine);
    const [lateStart, lateEnd] = [await begin({ target: OTHER, run: other }), await outcome(other)];
    expectEnd(await planned(where, bySubject()), ended(6, new RegExp(`3 events .*${action}`)));
    const made = await plan('--late', action);
    expect(made.marked).toEqual([late]);
    for (const id of [lateStart, lateEnd])
      expect(made.of(id)).toEqual(['late', 'someone else', false, 'a late start names a target']);
    // In a plan for the other person: a start of the run was erased.
    fs.writeFileSync(subjects, `${OTHER}\n`);
    const ofOther = await plan(...bySubject());
    expect(ofOther.of(lateStart)).toEqual(['target', 'this person', false, 'a start was erased']);
    expect(ofOther.marked).toEqual(kept);
    const second = await erase(made.file);
    expect(await gone()).toContain(late);
    const later = await outcome(mine);
    expect((await plan('--late', second)).marked).toEqual([later]);
    expect((await planned(where, ['--late', randomUUID()])).code).toBe(6);
  });
});

/** Requests that wait for a collector. */
function laid(): string[] {
  const inbox = path.join(dataDir, 'lifecycle', 'inbox');
  const names = fs.existsSync(inbox) ? fs.readdirSync(inbox) : [];
  return names.filter((name) => name.endsWith('.request.json'));
}

const shutKeys = (isShut: boolean) => {
  for (const name of ['keys', 'mirror']) {
    const [open, shut] = [path.join(root, name), path.join(root, `${name}.away`)];
    fs.renameSync(isShut ? open : shut, isShut ? shut : open);
  }
};

describe('[R-1580] a plan', () => {
  test('is applied once, by its marks, beside a collector, under the name of who does it', async () => {
    const [mine, others] = [
      await whole({ target: SUBJECT }),
      await whole({ target: OTHER, caller: SUBJECT }),
    ];
    const { file } = await plan(...bySubject());
    const refusals: [readonly string[], RegExp][] = [
      [['--reason', 'because'], /--reason/],
      [['--case', 'DSR 2026'], /--case/],
      [['--case', 'x'.repeat(65)], /--case/],
      [['--by', 'a\nb'], /--by/],
    ];
    for (const [args, says] of refusals) expectEnd(await apply(file, ...args), ended(2, says));
    for (const args of [
      ['--case', '1'],
      ['--reason', 'test-data', '--case', '1'],
      ['--reason', 'test-data', '--by', 'x'],
    ])
      expect((await on('erase', 'apply', file, ...args)).code).toBe(2);
    mark(file, () => false);
    expectEnd(await apply(file), ended(6, /marks no event/));
    // Only what a person has marked is erased.
    mark(file, ({ id }) => id === others[1]);
    // As docs/guide/privacy/erasure-request.md has it: members in alphabetical order, without marks and hash.
    const { sha256, ...rest } = JSON.parse(fs.readFileSync(file, 'utf8')) as Record<string, unknown>;
    const unmarked = JSON.stringify(rest, (name, value: unknown) => {
      if (name === 'erase') return undefined;
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
      return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
    });
    const marks = planIn(file).events.map(({ sequence, erase: isMarked }) => `${sequence} ${isMarked}\n`);
    const checked = await on('erase', 'apply', file, '--check');
    expectEnd(checked, ended(0, /1 event of 1 run/));
    for (const hashed of [unmarked, marks.join('')]) expect(checked.stdout).toContain(hash('sha256', hashed));
    expect(hash('sha256', unmarked)).toBe(sha256);
    expect(checked.stdout).toContain(`planned by ${PLANNER}`);
    expect(await gone()).toEqual([]);
    const action = await erase(file);
    expect(await gone()).toEqual([others[1]]);
    expectEnd(await apply(file), ended(6, new RegExp(`erased.*${action}`)));
    mark(file, ({ because }) => because === 'target');
    const text = await apply(file);
    expectEnd(text, ended(0, /CERTIFICATE OF ERASURE/));
    for (const word of [APPLIER, PLANNER, 'DSR-2026/114', 'not verified'])
      expect(text.stdout).toContain(word);
    expect(await gone()).toEqual([...mine, others[1]]);
    await expectIntact();
  });

  test('[R-1580] is refused without its line in the access log, or on another log', async () => {
    const mine = await whole({ target: SUBJECT });
    const { file } = await plan(...bySubject());
    const log = path.join(dataDir, 'access.log');
    const lines = fs.readFileSync(log, 'utf8');
    const { sha256 } = planIn(file);
    fs.writeFileSync(log, lines.replaceAll(sha256, '0'.repeat(64)));
    expectEnd(await apply(file), ended(2, /access log/));
    fs.writeFileSync(log, lines);
    // On another log, also if the line was copied there.
    const other = path.join(root, 'other');
    const line = lines.split('\n').find((each) => each.includes(sha256)) ?? '';
    await createKey(other);
    const second = await start(other, ['--no-listen']);
    onTestFinished(() => second.kill());
    const elsewhere = () => applied(['--data-dir', other], file);
    expectEnd(await elsewhere(), ended(2, /access log/));
    fs.appendFileSync(path.join(other, 'access.log'), `${line}\n`);
    expectEnd(await elsewhere(), ended(2, /another log/));
    expect(await gone()).toEqual([]);

    // The certificate has a forged planner as the line has it, and verify finds that the line was changed.
    await collector.stop();
    collector = await start(dataDir, encrypted);
    await collector.stop();
    fs.writeFileSync(log, fs.readFileSync(log, 'utf8').replaceAll(PLANNER, 'Dr Made Up!'));
    expect(JSON.parse((await on('verify', '--json')).stdout)).toMatchObject({ intact: false });
    collector = await start(dataDir, encrypted);
    const { code, stdout } = await apply(file);
    expect([code, stdout]).toEqual([0, expect.stringContaining('Dr Made Up!')]);
    expect(await gone()).toEqual(mine);
    expect((await on('verify')).code).toBe(3);
  });

  test('[R-1580] is refused if a hold or a policy was set since', async () => {
    const [mine, theirs] = [await whole({ target: SUBJECT }), await whole({ target: OTHER })];
    const before = await plan(...bySubject());
    await hold('CASE-7', '--run', theirs[0]);
    expectEnd(await apply(before.file), ended(10, /a hold was added since.*plan again/));
    const between = await plan(...bySubject());
    await setPolicy({ default: { keep: 'P10Y' } });
    expectEnd(await apply(between.file), ended(10, /different retention policy.*plan again/));
    const under = await plan('--run', theirs[0]);
    expect(under.marked).toEqual([]);
    expect(under.of(theirs[0])?.[3]).toBe('on hold by CASE-7');
    mark(under.file, () => true);
    expectEnd(
      await apply(under.file, '--reason', 'court-order', '--override-floor'),
      ended(10, /a marked event is on hold/),
    );
    // A released hold forbids nothing, except for a plan that was made under it.
    const mineNow = await plan(...bySubject());
    expect((await on('hold', 'release', 'CASE-7')).code).toBe(0);
    expect((await apply(under.file)).code).toBe(10);
    expect(await gone()).toEqual([]);
    await erase(mineNow.file);
    expect(await gone()).toEqual(mine);
  });

  test('[R-1342] marks nothing that is nested in a held run, and no run that names a held person', async () => {
    const mine = await whole({ target: SUBJECT });
    const inner = await whole({ target: OTHER, parent: mine[1] });
    const innermost = await begin({ parent: inner[1] });
    const called = await begin({ target: OTHER, caller: SUBJECT });
    await hold('RUN', '--run', mine[0]);
    const nested = await plan('--run', inner[0]);
    expect([nested.marked, nested.events.map(({ id }) => id)]).toEqual([[], [...inner, innermost]]);
    await hold('PERSON', '--subject-file', subjects);
    const names = (of: readonly PlanEvent[]) => of.map(({ blocked }) => blocked.map(({ name }) => name));
    expect(names((await plan('--run', called)).events)).toEqual([['PERSON']]);
    expect((await on('hold', 'release', 'RUN')).code).toBe(0);
    expect(names((await plan('--event', innermost)).events)).toEqual([['PERSON']]);
    expect((await on('hold', 'release', 'PERSON')).code).toBe(0);
    expect((await plan('--run', mine[0])).marked).toEqual(mine);
  });

  test('[R-1580] overrides a floor for four reasons, with --override-floor', async () => {
    const mine = await whole({ target: SUBJECT });
    await setPolicy({ floors: [{ id: 'law', keep: 'P10Y' }], default: { keep: 'P10Y' } });
    const { file, events, stdout } = await plan(...bySubject());
    expect(events.map(({ blocked, erase: isMarked }) => [blocked[0]?.name, isMarked])).toEqual([
      ['law', true],
      ['law', true],
    ]);
    expect(stdout).toMatch(/2 events.* law until 2036/);
    const floored = ended(8, /law until 2036.*--override-floor/);
    expectEnd(await apply(file), floored);
    expectEnd(await apply(file, '--reason', 'court-order'), floored);
    for (const reason of ['erasure-request', 'consent-withdrawn', 'objection'])
      expectEnd(await apply(file, '--reason', reason, '--override-floor'), ended(2));
    expect(await gone()).toEqual([]);
    for (const reason of ['court-order', 'unlawful-processing', 'sent-in-error', 'test-data']) {
      const one = await plan(
        '--run',
        reason === 'court-order' ? mine[0] : (await whole({ target: OTHER }))[0],
      );
      const {
        code,
        stdout: certificate,
        stderr,
      } = await apply(one.file, '--reason', reason, '--override-floor', '--json');
      expect(code, stderr).toBe(0);
      expect(JSON.parse(certificate)).toMatchObject({
        reason,
        floors_overridden: true,
        overridden: [{ of: 'law', events: 2 }],
      });
    }
    expect(await gone()).toHaveLength(8);
    await expectIntact();
  });

  test('[R-1580] is refused if a later start names another person or one on hold; other events are reported', async () => {
    const runs = await Promise.all(Array.from({ length: 6 }, () => begin({ target: SUBJECT })));
    const [mine = '', again = '', relabelled = '', unknown = '', inner = '', last = ''] = runs;
    const outer = await begin({});
    await begin({ run: inner, parent: outer });
    const parent = sampleEvent('inference-start', {
      target_identity: { target_id: 'held', target_type: 'patient' },
    });
    const loose = await outcome(undefined, 'hangs on what has not come', parent.event_id);
    const stranger = fileOf('held');
    await hold('PERSON', '--subject-file', stranger);
    const plans = new Map<string, string>();
    for (const each of runs) plans.set(each, (await plan('--run', each)).file);
    const ofLoose = await plan('--event', loose);
    expect(ofLoose.marked).toEqual([loose]);

    const later = await outcome(mine);
    const reported = await apply(plans.get(mine) ?? '');
    expectEnd(reported, ended(0, /1 event .*plan.*(left|stay|not erased)/));
    expect(await gone()).toEqual([mine]);
    await begin({ target: SUBJECT, caller: 'clinician-17', run: again });
    expect((await apply(plans.get(again) ?? '')).code).toBe(0);
    await begin({ target: OTHER, run: relabelled });
    expectEnd(await apply(plans.get(relabelled) ?? ''), ended(10, /another person.*plan again/));
    await begin({ caller: 'held', run: unknown });
    expectEnd(await apply(plans.get(unknown) ?? ''), ended(10, /puts a run on hold/));
    // The run that it is nested in is on hold now.
    await begin({ target: 'held', run: outer });
    expectEnd(await apply(plans.get(inner) ?? ''), ended(10, /puts a run on hold/));
    await send(parent, 'inference-start');
    expectEnd(await apply(ofLoose.file), ended(10, /belongs to an event that came later.*plan again/));
    expect((await apply(plans.get(last) ?? '')).code).toBe(0);
    expect((await gone()).toSorted()).toEqual([mine, again, last].toSorted());
    expect(await gone()).not.toContain(later);
  });

  test('[R-1570] with payloads that could not be opened needs --incomplete, which the certificate states', async () => {
    const [outer] = await whole({ target: OTHER });
    // Each process has buckets of its own.
    await collector.stop();
    collector = await start(dataDir, encrypted);
    const mine = await whole({ target: SUBJECT });
    for (const name of ['keys', 'mirror']) {
      const buckets = path.join(root, name, 'buckets');
      fs.renameSync(
        path.join(buckets, fs.readdirSync(buckets).toSorted()[0] ?? ''),
        path.join(root, `${name}.bucket`),
      );
    }
    const made = await plan(...bySubject(), '--mentions');
    expect([made.marked, planIn(made.file).unread]).toEqual([mine, 2]);
    expect(made.stdout).toContain('2 payloads could not be ');
    expectEnd(await apply(made.file), ended(2, /2 payloads .*--incomplete/));
    const { code, stdout, stderr } = await apply(made.file, '--incomplete', '--json');
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ incomplete: true, unread: 2, events: 2 });
    // An erased payload does not count as one that could not be opened.
    expectEnd(await planned(where, [...bySubject(), '--mentions']), ended(6, /2 payloads /));
    shutKeys(true);
    expectEnd(await planned(where, bySubject()), ended(6, /1 payload /));
    shutKeys(false);
    // It is not known whom the outer run is about, and something is on hold.
    const inner = await begin({ target: SUBJECT, parent: outer });
    expect((await plan('--run', inner)).marked).toEqual([inner]);
    await hold('CASE-1', '--run', randomUUID());
    const hidden = 'a start that it hangs on cannot be decrypted, and may name a person on hold';
    expect((await plan('--run', inner)).of(inner)).toEqual(['run', 'not compared', false, hidden]);
  });

  test('[R-1570] leaves events without a key, and reports them with exit code 7', async () => {
    await collector.stop();
    for (const directory of [dataDir, path.join(root, 'keys'), path.join(root, 'mirror')])
      fs.rmSync(directory, { recursive: true });
    for (const name of ['keys', 'mirror']) fs.mkdirSync(path.join(root, name));
    keys = new Map([['default', await createKey(dataDir)]]);
    collector = await start(dataDir, ['--encryption', 'off']);
    const plain = await whole({ target: SUBJECT });
    await collector.stop();
    collector = await start(dataDir, ['--encryption', 'on', ...encrypted]);
    const later = await outcome(plain[0]);
    const made = await plan(...bySubject());
    expect(made.marked).toEqual([later]);
    expect(made.of(plain[0])?.[3]).toBe('stored in the clear');
    mark(made.file, ({ id }) => id !== later);
    expectEnd(await apply(made.file), ended(7, /nothing was erased/));
    mark(made.file, () => true);
    const { code, stdout } = await apply(made.file, '--json');
    expect([code, JSON.parse(stdout)]).toMatchObject([
      7,
      { events: 1, left: [{ why: 'stored in the clear', events: 2 }] },
    ]);
    expect(await gone()).toEqual([later]);
  });

  test('[R-1550] is refused if no collector runs, and leaves no request', async () => {
    await whole({ target: SUBJECT });
    await collector.stop();
    const { file } = await plan(...bySubject());
    expectEnd(await apply(file), ended(2, /--no-listen/));
    expect(laid()).toEqual([]);
    collector = await start(dataDir, [...encrypted, '--no-listen']);
    expect((await apply(file)).code).toBe(0);
  });
});

const preload = (module: string) =>
  `--import=${pathToFileURL(path.resolve(import.meta.dirname, '../running', module)).href}`;

describe('[R-1580] a plan or its application', () => {
  test('is done whole or not at all when it is killed at any step', async () => {
    const mine = await whole({ target: SUBJECT });
    const killed = async (args: readonly string[], step: number) => {
      const env = { NODE_OPTIONS: preload('killed-at-step.mjs'), KILLED_AT: String(step) };
      return (await run([...args, ...where], { env })).code;
    };
    const steps = (from: number) => Array.from({ length: 60 }, (_, i) => from + i);
    const out = (step: number) => path.join(root, `plan-${step}.json`);
    let last = '';
    for (const step of steps(1)) {
      const code = await killed(['erase', 'plan', ...bySubject(), '--by', PLANNER, '--out', out(step)], step);
      if (fs.existsSync(out(step))) expect(planIn((last = out(step))).events).toHaveLength(2);
      if (code === 0) break;
      expect(code).toBe(null);
    }
    const asked = ['--reason', 'erasure-request', '--case', 'x', '--by', APPLIER];
    for (const step of steps(1)) {
      const code = await killed(['erase', 'apply', last, ...asked], step);
      await expect.poll(laid).toEqual([]);
      expect([[], mine]).toContainEqual(await gone());
      if (code !== null) break;
    }
    expect((await gone()).length + ((await apply(last)).code ?? 0)).toBe(8);
    await expectIntact();
  });

  test('changes nothing on a full disk', async () => {
    await whole({ target: SUBJECT });
    const { file } = await plan(...bySubject());
    const flag = path.join(root, 'full');
    const env = { NODE_OPTIONS: preload('full-disk.mjs'), FULL_DISK: flag };
    fs.writeFileSync(flag, '');
    const out = path.join(root, 'full.json');
    for (const args of [
      ['erase', 'plan', ...bySubject(), '--out', out],
      ['erase', 'apply', file, '--reason', 'test-data', '--case', 'x', '--by', 'x'],
    ])
      expectEnd(await run([...args, ...where], { env }), ended(1, /ENOSPC|no space/));
    expect(fs.existsSync(out)).toBe(false);
    expect(await gone()).toEqual([]);
    // Where there is room for the lines of the access log, and for nothing more.
    const records = path.join(dataDir, 'lifecycle', 'erasures');
    fs.mkdirSync(path.dirname(records), { recursive: true });
    fs.writeFileSync(records, '');
    expect((await apply(file)).code).toBe(1);
    expect(await gone()).toEqual([]);
    fs.rmSync(records);
    expect((await apply(file)).code).toBe(0);
  });

  test('is refused if --out exists or cannot be written', async () => {
    await whole({ target: SUBJECT });
    const there = fileOf('mine');
    const link = path.join(root, 'link');
    fs.symlinkSync(path.join(root, 'target'), link);
    for (const out of [
      there,
      root,
      link,
      path.join(root, 'none', 'plan.json'),
      path.join(there, 'plan.json'),
    ])
      expectEnd(await planned(where, bySubject(), out), ended(2, /--out/));
    expect(fs.readFileSync(there, 'utf8')).toBe('mine');
    expect(fs.existsSync(path.join(root, 'target'))).toBe(false);
  });
});

describe('[R-1570] collector erase plan', () => {
  test.each([
    [[], /--subject-file, --run, --event, --late and --certificate/],
    [['--run', 'a1b2c3d4', '--event', randomUUID()], /one of/],
    [['--run', 'a1b2c3d4', '--mentions'], /--mentions/],
    [['--late', randomUUID(), '--organisation', 'icu'], /--organisation/],
    [['--event', 'x'], /is not a UUID/],
    [['--subject-file', '/nonexistent'], /ENOENT/],
    [['--subject-file', '/'], /--subject-file/],
    [['--certificate', '/nonexistent'], /ENOENT/],
    [['--run', 'Jane-Doe-4711'], /--run/],
    [['--run', 'a1b2c3d4', '--by', 'a\nb'], /--by/],
  ])('with %j is refused before anything is read', async (args, says) => {
    expectEnd(await on('erase', 'plan', ...args, '--out', path.join(root, 'plan.json')), ended(2, says));
    const log = path.join(dataDir, 'access.log');
    const lines = fs.existsSync(log) ? fs.readFileSync(log, 'utf8') : '';
    expect(lines).not.toMatch(/erase plan|Jane/);
  });
});
