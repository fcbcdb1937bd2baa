/** Policies and holds as an operator meets them: what they erase and keep is decided by the log. */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { spawnSync } from 'node:child_process';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Holds } from '../../src/commands/lifecycle/holds.js';
import { LogRuns } from '../../src/commands/lifecycle/log-runs.js';
import { command as retention } from '../../src/commands/lifecycle/retention.js';
import {
  beside,
  createKey,
  ENVIRONMENT,
  MAIN,
  run,
  start,
  storedEvents,
  type Running,
} from '../running/collector-process.js';
import { post } from '../running/load.js';
import { sampleEvent, type SampleEvent } from '../running/sample-events.js';
import { scratch } from '../running/scratch.js';
import { encryptionIn, segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned, loggedEvent } from './signed-directory.js';

const SUBJECT = 'patient-4711-ß';
const OTHER = 'patient-0815';

let root: string;
let dataDir: string;
let subjects: string;
let encrypted: string[];

beforeEach(() => {
  root = scratch();
  dataDir = path.join(root, 'data');
  const keys = [path.join(root, 'keys'), path.join(root, 'mirror')];
  for (const directory of keys) fs.mkdirSync(directory);
  encrypted = ['--encryption-keys', keys.join(',')];
  subjects = path.join(root, 'subject.txt');
  fs.writeFileSync(subjects, `${SUBJECT}\n`);
});

const on = (...args: readonly string[]) => run([...args, '--data-dir', dataDir]);
const isOpen = ({ body }: { readonly body: unknown }) => typeof body === 'string';
/** Of each stored event, whether it can be read. */
const opened = async () => (await storedEvents(dataDir)).map((event) => isOpen(event));

async function done(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await on(...args);
  expect(code, stderr).toBe(0);
  return stdout;
}

type Kind = 'inference-start' | 'outcome';

class Sender {
  constructor(
    private readonly collector: Running,
    private readonly key: string,
  ) {}

  async send(event: SampleEvent, kind: Kind = 'outcome'): Promise<string> {
    const { status } = await post(this.collector.port, this.key, JSON.stringify(event), { kind });
    expect(status).toBe(201);
    return event.event_id;
  }

  /** A start and an outcome. @returns the id of the run. */
  async run(target: string | undefined, more: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const target_identity = target === undefined ? {} : { target_id: target, target_type: 'patient' };
    const id = await this.send(
      sampleEvent('inference-start', { target_identity, ...more }),
      'inference-start',
    );
    await this.send(sampleEvent('outcome', { run_id: id }));
    return id;
  }
}

async function begin(...args: readonly string[]): Promise<{ collector: Running; sender: Sender }> {
  const key = await createKey(dataDir, ...args);
  const collector = await start(dataDir, encrypted);
  return { collector, sender: new Sender(collector, key) };
}

async function setPolicy(policy: object): Promise<{ stderr: string }> {
  const file = path.join(root, 'policy.json');
  fs.writeFileSync(file, JSON.stringify({ version: 1, name: 'p', ...policy }));
  const set = await on('retention', 'policy', 'set', file);
  expect(set.code, set.stderr).toBe(0);
  return set;
}

const keepNothing = () => setPolicy({ default: { keep: 'P0D' } });
const model = (model_id: string) => ({ model_instance: { model_id, model_version: '1' } });

/** Changes the catalogue as someone does who may write there, and not in the log. */
function tamper(change: (database: DatabaseSync) => void): void {
  const database = new DatabaseSync(path.join(dataDir, 'catalogue', 'catalogue.sqlite'));
  change(database);
  database.close();
}

const bytesOf = (id: string) => Buffer.from(id.replaceAll('-', ''), 'hex');

/** The records of holds, as they lie beside the log. */
function holdRecords(): { name: string; runs: string[]; met: { runs: string[]; events: string } }[] {
  const directory = path.join(dataDir, 'lifecycle', 'holds');
  const texts = fs.readdirSync(directory).map((name) => fs.readFileSync(path.join(directory, name), 'utf8'));
  for (const text of texts) expect(text).not.toContain(SUBJECT);
  return texts.map((text) => JSON.parse(text) as ReturnType<typeof holdRecords>[number]);
}

describe('[R-1560] collector retention run', () => {
  test('believes the log where a row of the catalogue was changed or deleted, and reports the runs', async () => {
    const { collector, sender } = await begin();
    // Before the runs come, so that nothing but their starts says that they are held.
    await done('hold', 'add', '--name', 'CASE-7', '--subject-file', subjects);
    const plain = await sender.run(OTHER, model('short'));
    const floored = await sender.run(OTHER, model('long'));
    const young = await sender.run(OTHER, model('month'));
    const swapped = await sender.run(OTHER, model('short'));
    const held = await sender.run(SUBJECT, model('short'));
    const outer = await sender.run(SUBJECT, model('long'));
    await sender.run(undefined, { ...model('short'), parent_event_id: outer });
    await setPolicy({
      age_from: 'run_start',
      floors: [{ id: 'law', keep: 'P10Y' }],
      rules: [
        { id: 'short', match: { model_id: ['short'] }, keep: 'P0D', floor: 'none' },
        { id: 'month', match: { model_id: ['month'] }, keep: 'P1M', floor: 'none' },
      ],
      default: { keep: 'P10Y' },
    });
    await done('runs');
    expect(await collector.stop()).toBe(0);
    tamper((database) => {
      const set = (column: string, value: string, of: string) =>
        expect(
          database.prepare(`UPDATE run SET ${column} = ${value} WHERE record = ?`).run(bytesOf(of)).changes,
        ).toBe(1);
      const of = (column: string, id: string) =>
        `(SELECT ${column} FROM run WHERE record = x'${id.replaceAll('-', '')}')`;
      set('model', of('model', plain), floored);
      set('began_received', '1000', young);
      set('entries', of('entries', floored), swapped);
      set('target', of('target', plain), held);
      database.prepare('DELETE FROM run WHERE record = ?').run(bytesOf(outer));
    });
    await beside(dataDir, async () => {
      const dry = await on('retention', 'run', '--dry-run', '--json');
      expect(dry.code, dry.stderr).toBe(7);
      expect(JSON.parse(dry.stdout)).toMatchObject({
        ...{ rules: [{ rule: 'short', events: 2 }], held: 4, below_floors: 0, unread_runs: 0 },
        differences: { runs: 3, first: [floored, young, swapped] },
      });
      const { code, stderr } = await on('retention', 'run');
      expect([code, stderr]).toEqual([
        7,
        expect.stringMatching(
          `differs from the log in 3 runs, not erased: ${floored}, ${young}, ${swapped}; derived; delete catalogue/\n`,
        ),
      ]);
    });
    expect(await opened()).toEqual([false, false, ...Array<boolean>(12).fill(true)]);

    // A catalogue that is made again says what the log says.
    fs.rmSync(path.join(dataDir, 'catalogue'), { recursive: true });
    await beside(dataDir, () => done('retention', 'run'));
    expect((await opened()).filter((isLeft) => !isLeft)).toHaveLength(4);
  });

  test('leaves a run of which a start cannot be opened: whether a hold keeps it is not known', async () => {
    const { collector, sender } = await begin();
    await sender.run(OTHER);
    await keepNothing();
    // eslint-disable-next-line @typescript-eslint/unbound-method -- it is called on what it was called on
    const { collect } = LogRuns.prototype;
    const unread = vi.spyOn(LogRuns.prototype, 'collect');
    unread.mockImplementation(async function (this: LogRuns, ...args) {
      const runs = await collect.apply(this, args);
      for (const each of runs) each.starts.push({ sequence: 1, state: 'unread', parent: undefined });
      return runs;
    });
    onTestFinished(() => {
      unread.mockRestore();
      process.exitCode = undefined;
    });
    const [stdout, stderr] = [process.stdout, process.stderr].map((stream) => {
      const spy = vi.spyOn(stream, 'write').mockReturnValue(true);
      onTestFinished(() => spy.mockRestore());
      return () => spy.mock.calls.map(([text]) => String(text)).join('');
    });
    await retention().parseAsync(['node', 'retention', 'run', '--data-dir', dataDir]);
    expect([process.exitCode, stdout?.(), stderr?.()]).toEqual([
      ...[7, 'nothing is due by p\n'],
      expect.stringContaining('1 run not erased: a start cannot be opened'),
    ]);
    await collector.stop();
    expect(await opened()).toEqual([true, true]);
  });
});

describe('[R-1341] a policy, and [R-1342] holds, beside a collector that takes no events', () => {
  test('decide what goes: a hold and a floor win, and the rest is erased once', async () => {
    const { collector, sender } = await begin();
    await sender.run(SUBJECT);
    await sender.run(OTHER);
    await collector.stop();
    const silent = await start(dataDir, ['--no-listen']);
    const policy = path.join(root, 'policy.json');
    const check = () => run(['retention', 'policy', 'set', policy, '--dry-run']);
    expect((await on('retention', 'run')).code).toBe(6);
    fs.writeFileSync(policy, JSON.stringify({ version: 1, name: 'p', default: { keep: 'a while' } }));
    const refused = await check();
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('default.keep: has to be a time'),
    ]);
    const floors = '"floors":[{"id":"law","keep":"P10Y"}]';
    fs.writeFileSync(policy, `{"version":1,"name":"p",${floors},"default":{"keep":"P0D"},"floors":[]}`);
    const twice = await check();
    expect([twice.code, twice.stderr]).toEqual([2, expect.stringContaining('stands twice')]);
    fs.writeFileSync(policy, `{"$schema":${'['.repeat(40)}${']'.repeat(40)},"version":1}`);
    const nested = await check();
    expect([nested.code, nested.stderr]).toEqual([2, expect.stringContaining('nested too deep')]);
    fs.writeFileSync(policy, '\ufeff{"version":1,"name":"p","default":{"keep":"P1D"}}');
    expect(await check()).toMatchObject({ code: 0, stdout: 'ok: p\n' });
    expect((await on('retention', 'policy', 'show')).code).toBe(6);
    await setPolicy({ floors: [{ id: 'law', keep: 'P10Y' }], default: { keep: 'P10Y' } });
    expect(await done('retention', 'run')).toContain('nothing is due');

    expect((await keepNothing()).stderr).toContain('the rule "default" has zero retention');
    const typo = await on('hold', 'add', '--name', 'TYPO', '--organisation', 'demoo');
    expect([typo.code, typo.stderr]).toEqual([
      0,
      expect.stringContaining('no event is of organisation demoo'),
    ]);
    await done('hold', 'release', 'TYPO');
    await done('hold', 'add', '--name', 'CASE-7', '--subject-file', subjects);
    expect(await done('hold', 'list')).toMatch(/CASE-7.*a subject \(1 id\)/);
    expect(JSON.parse(await done('retention', 'run', '--dry-run', '--json'))).toMatchObject({
      ...{ rules: [{ rule: 'default', events: 2 }], held: 2, differences: { runs: 0, first: [] } },
    });
    await done('retention', 'run');
    expect(await opened()).toEqual([true, true, false, false]);

    // Without its record it is not known what is held.
    const holds = path.join(dataDir, 'lifecycle', 'holds');
    const has7 = (name: string) => fs.readFileSync(path.join(holds, name), 'utf8').includes('CASE-7');
    const record = fs.readdirSync(holds).find(has7) ?? '';
    fs.renameSync(path.join(holds, record), path.join(root, record));
    const blind = await on('retention', 'run');
    expect([blind.code, blind.stderr]).toEqual([8, expect.stringContaining('is missing')]);
    fs.renameSync(path.join(root, record), path.join(holds, record));

    await done('hold', 'release', 'CASE-7');
    await done('retention', 'run');
    expect(await silent.stop()).toBe(0);
    expect(await opened()).toEqual([false, false, false, false]);
    expect(JSON.parse(await done('verify', '--json'))).toMatchObject({ intact: true, findings: [] });
  });
});

describe('[R-1561] collector hold add', () => {
  test('finds runs in the log: of callers, of several organisations, nested ones, and those whose row was deleted', async () => {
    const { collector, sender } = await begin();
    const icu = new Sender(collector, await createKey(dataDir, '--organisation', 'icu'));
    const called = { user_identity: { caller_id: SUBJECT, caller_type: 'patient' } };
    const outer = await sender.run(OTHER, called);
    const middle = await sender.run(undefined, { parent_event_id: outer });
    const inner = await sender.run(undefined, { parent_event_id: middle });
    const there = await icu.run(SUBJECT);
    const alien = await sender.run(OTHER);
    await done('runs');
    await collector.stop();
    tamper((database) => database.prepare('DELETE FROM run WHERE record <> ?').run(bytesOf(alien)));
    await beside(dataDir, async () => {
      const held = await on('hold', 'add', '--name', 'CASE-7', '--subject-file', subjects);
      expect(held, held.stderr).toMatchObject({
        ...{
          code: 0,
          stdout: expect.stringContaining(': 8 events by now, and those that come later') as string,
        },
        stderr: 'collector: the hold reaches 2 organisations: default, icu\n',
      });
      const [record] = holdRecords();
      expect(record?.met.runs.sort()).toEqual([outer, middle, inner, there].sort());
      await done('hold', 'release', 'CASE-7');

      // A short id is of a run that is there; a whole one may come later.
      const later = sampleEvent().event_id;
      const typed = ['--run', outer.slice(0, 8), '--run', later];
      await done('hold', 'add', '--name', 'CASE-8', ...typed);
      const eight = holdRecords().find(({ name }) => name === 'CASE-8');
      expect(eight?.runs).toEqual([outer, later]);
      expect(eight?.met.runs.sort()).toEqual([outer, middle, inner].sort());
      const unknown = await on(
        'hold',
        'add',
        '--name',
        'CASE-9',
        '--run',
        sampleEvent().event_id.slice(0, 8),
      );
      expect([unknown.code, unknown.stderr]).toEqual([6, expect.stringContaining('there is no run')]);

      await keepNothing();
      await done('retention', 'policy', 'show');
      await on('retention', 'run');
    });
    expect(await opened()).toEqual([...Array<boolean>(6).fill(true), true, true, false, false]);
  });
});

describe('[R-1367] a hold', () => {
  test('that begins while retention run plans is not passed over', async () => {
    const { collector, sender } = await begin();
    const runId = await sender.run(SUBJECT);
    await keepNothing();
    // In place of a plan that takes minutes.
    const judged = vi.spyOn(Holds.prototype, 'on');
    onTestFinished(() => judged.mockRestore());
    judged.mockImplementationOnce(() => {
      const hold = ['hold', 'add', '--name', 'CASE-7', '--run', runId, '--data-dir', dataDir];
      expect(spawnSync(process.execPath, [MAIN, ...hold], { env: ENVIRONMENT }).status).toBe(0);
      return [];
    });
    const asked = retention().parseAsync(['node', 'retention', 'run', '--data-dir', dataDir]);
    await expect(asked).rejects.toMatchObject({
      ...{ exitCode: 10, message: expect.stringContaining('plan again') as string },
    });
    await collector.stop();
    expect(await opened()).toEqual([true, true]);
  });

  test('is on what is nested in a run, and on each person that a start of it names [R-1375]', async () => {
    const { collector, sender } = await begin();
    await done('hold', 'add', '--name', 'CASE-7', '--subject-file', subjects);
    const runId = await sender.run(SUBJECT);
    // It names no run, only what it is nested in.
    await sender.send(sampleEvent('outcome', { parent_event_id: runId }));
    // A start that says of the run that it is about someone else, from before.
    const target_identity = { target_id: 'nobody', target_type: 'patient' };
    const timestamp = '2020-01-01T00:00:00Z';
    await sender.send(
      sampleEvent('inference-start', { run_id: runId, timestamp, target_identity }),
      'inference-start',
    );
    expect(await done('runs', '--target', SUBJECT)).toBe('');
    await keepNothing();
    const dry = JSON.parse(await done('retention', 'run', '--dry-run', '--json')) as object;
    expect(dry).toMatchObject({ rules: [], held: 4 });
    await collector.stop();
  });

  test('whose entry cannot be read lets nothing start', async () => {
    const text = 'x'.repeat(1100);
    const batch = () => Array.from({ length: 50 }, () => loggedEvent(text));
    const fill = (batches: number) =>
      fillSigned(
        dataDir,
        Array.from({ length: batches }, batch),
        ...[{ segmentBytes: 64 << 10, encryption: encryptionIn(dataDir) }],
      );
    await fill(1);
    await createKey(dataDir);
    await beside(dataDir, () => done('hold', 'add', '--name', 'CASE-7', '--organisation', 'default'));
    await fill(6);
    const [file = ''] = segmentPaths(dataDir);
    const bytes = fs.readFileSync(file);
    const at = bytes.indexOf('"does":"hold"');
    expect(at).toBeGreaterThan(0);
    bytes[at + 8] = 0x48;
    fs.writeFileSync(file, bytes);
    const refused = await on('serve', '--no-listen');
    expect([refused.code, refused.stderr]).toEqual([
      3,
      expect.stringContaining('does not hold what was written'),
    ]);
    bytes[at + 8] = 0x68;
    fs.writeFileSync(file, bytes);
    await beside(dataDir, async () => {
      await keepNothing();
      expect(await done('retention', 'run')).toContain('350 events due, and on hold');
    });
  });

  test('keeps what it met when it began, whatever a sender says of the run later', async () => {
    const { collector, sender } = await begin();
    const runId = await sender.run(SUBJECT);
    // One that has no run, and whose record is another one when its parent comes.
    const parent = sampleEvent('outcome');
    const child = await sender.send(sampleEvent('outcome', { parent_event_id: parent.event_id }));
    const held = await done('hold', 'add', '--name', 'CASE-7', '--subject-file', subjects);
    expect(held).toMatch(/^held: CASE-7 \([0-9a-f-]+\): 2 events by now, and those that come later$/m);
    await done('hold', 'add', '--name', 'CASE-8', '--run', child.slice(0, 8));
    await sender.send(parent);
    const target_identity = { target_id: 'nobody', target_type: 'patient' };
    const timestamp = '2020-01-01T00:00:00Z';
    await sender.send(
      sampleEvent('inference-start', { run_id: runId, timestamp, target_identity }),
      'inference-start',
    );
    await keepNothing();
    await done('retention', 'run');
    // The second start is of the run that was met; the parent came later, and is of no run that is held.
    await collector.stop();
    expect(await opened()).toEqual([true, true, true, false, true]);
    expect(JSON.parse(await done('verify', '--json'))).toMatchObject({ findings: [] });
  });
});
