/** What a policy erases and a hold keeps is decided by the log, whatever the catalogue says. */
import fs from 'node:fs';
import path from 'node:path';
import { commandOf } from '../../src/commands/command-line.js';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type HoldRecord, holdsOf } from '../../src/commands/lifecycle/holds.js';
import { LogRuns } from '../../src/commands/lifecycle/log-runs.js';
import { command as retention } from '../../src/commands/lifecycle/retention.js';
import { Actions } from '../../src/privacy/actions.js';
import { openStore } from '../../src/store/open-to-read.js';
import { beside, createKey, run, start, storedEvents, type Running } from '../running/collector-process.js';
import { post } from '../running/load.js';
import { sampleEvent, type SampleEvent } from '../running/sample-events.js';
import { scratch } from '../running/scratch.js';

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

/** Changes the catalogue, as someone could who may write there, but not in the log. */
function tamper(change: (database: DatabaseSync) => void): void {
  const database = new DatabaseSync(path.join(dataDir, 'catalogue', 'catalogue.sqlite'), {
    timeout: 600_000,
  });
  change(database);
  database.close();
}

const bytesOf = (id: string) => Buffer.from(id.replaceAll('-', ''), 'hex');

/** The records of holds, opened; as they lie beside the log, they name no person. */
function holdRecords(): readonly HoldRecord[] {
  const directory = path.join(dataDir, 'lifecycle', 'holds');
  for (const name of fs.readdirSync(directory))
    expect(fs.readFileSync(path.join(directory, name), 'utf8')).not.toContain(SUBJECT);
  const { events: log } = openStore(dataDir);
  return holdsOf(dataDir, log.actions?.() ?? new Actions(), log);
}

describe('[R-1341] collector retention run', () => {
  test('follows the log if a row of the catalogue was changed or deleted, and reports the runs', async () => {
    const { collector, sender } = await begin();
    // Before the runs come, so that only their starts say that they are held.
    await done('hold', 'add', 'CASE-7', '--subject-file', subjects);
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
      database.exec(`DELETE FROM event WHERE run = ${of('id', swapped)}`);
      database.exec(`INSERT INTO event SELECT ${of('id', swapped)}, sequence, at, size, kind, received, sent FROM event
        WHERE run = ${of('id', floored)}`);
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
      expect([code, stderr]).toEqual([7, expect.stringContaining(`${floored}, ${young}, ${swapped}`)]);
    });
    expect(await opened()).toEqual([false, false, ...Array<boolean>(12).fill(true)]);

    // A catalogue that is made again agrees with the log.
    fs.rmSync(path.join(dataDir, 'catalogue'), { recursive: true });
    await beside(dataDir, () => done('retention', 'run'));
    expect((await opened()).filter((isLeft) => !isLeft)).toHaveLength(4);
  });

  test('does not erase a run with a start that cannot be opened, since a hold may cover it', async () => {
    const { collector, sender } = await begin();
    await sender.run(OTHER);
    expect((await keepNothing()).stderr).toContain('"default"');
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
    await commandOf(retention).parseAsync(['node', 'retention', 'run', '--data-dir', dataDir]);
    expect([process.exitCode, stdout?.(), stderr?.()]).toEqual([
      7,
      expect.stringContaining('nothing '),
      expect.stringContaining('1 run not erased'),
    ]);
    await collector.stop();
    expect(await opened()).toEqual([true, true]);
  });
});

describe('[R-1342] collector hold add', () => {
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
      const held = await on('hold', 'add', 'CASE-7', '--subject-file', subjects);
      expect(held, held.stderr).toMatchObject({
        ...{
          code: 0,
          stdout: expect.stringContaining(': 8 events') as string,
        },
        stderr: expect.stringContaining('default, icu') as string,
      });
      const [record] = holdRecords();
      expect([...(record?.met?.runs ?? [])].sort()).toEqual([outer, middle, inner, there].sort());
      await done('hold', 'release', 'CASE-7');

      // A short id must be of an existing run; a run with a whole id may come later.
      const later = sampleEvent().event_id;
      const typed = ['--run', outer.slice(0, 8), '--run', later];
      await done('hold', 'add', 'CASE-8', ...typed);
      const eight = holdRecords().find(({ name }) => name === 'CASE-8');
      expect(eight?.runs).toEqual([outer, later]);
      expect([...(eight?.met?.runs ?? [])].sort()).toEqual([outer, middle, inner].sort());
      const unknown = await on('hold', 'add', 'CASE-9', '--run', sampleEvent().event_id.slice(0, 8));
      expect([unknown.code, unknown.stderr]).toEqual([6, expect.stringContaining('run')]);

      await keepNothing();
      await on('retention', 'run');
    });
    expect(await opened()).toEqual([...Array<boolean>(6).fill(true), true, true, false, false]);
  });
});
