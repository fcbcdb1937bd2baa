/** A log of which something was erased, and what may be erased: policies, holds, keys. */
import { commandOf } from '../../src/commands/command-line.js';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { spawnSync } from 'node:child_process';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { command as erase } from '../../src/commands/lifecycle/erase.js';
import { Holds } from '../../src/commands/lifecycle/holds.js';
import { LogRuns } from '../../src/commands/lifecycle/log-runs.js';
import { command as retention } from '../../src/commands/lifecycle/retention.js';
import { keysOf } from '../../src/commands/lifecycle/erasable.js';
import { eventOf, type LogEvent } from '../../src/commands/lifecycle/log-pass.js';
import { answerTo, layRequest } from '../../src/ledger/lifecycle.js';
import { readKeys } from '../../src/privacy/key-directories.js';
import type { EventLog, PassedEntry } from '../../src/store/contract/events.js';
import { openStore } from '../../src/store/open-to-read.js';
import { askForCompaction } from '../../src/store/embedded/inbox.js';
import { Inbox } from '../../src/store/embedded/inbox.js';
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
import { applied, erased, planned } from '../running/erasing.js';
import { post } from '../running/load.js';
import { sampleEvent, type SampleEvent } from '../running/sample-events.js';
import { scratch } from '../running/scratch.js';
import { encryptionIn, segmentPaths } from '../store/embedded/filled-directory.js';
import { independentAction } from './independent-verifier.js';
import { fillSigned, firstKey, loggedEvent } from './signed-directory.js';

const SUBJECT = 'patient-4711-ß';
const OTHER = 'patient-0815';

let root: string;
let dataDir: string;
let keys: string;
let mirror: string;
let encrypted: string[];
let subjects: string;

beforeEach(() => {
  root = scratch();
  dataDir = path.join(root, 'data');
  keys = path.join(root, 'keys');
  mirror = path.join(root, 'mirror');
  for (const directory of [keys, mirror]) fs.mkdirSync(directory);
  encrypted = ['--encryption-keys', `${keys},${mirror}`];
  subjects = path.join(root, 'subject.txt');
  fs.writeFileSync(subjects, `${SUBJECT}\n`);
});

interface SentRun {
  readonly runId: string;
  readonly events: readonly { readonly kind: 'inference-start' | 'outcome'; readonly event: SampleEvent }[];
}

async function sendRun(collector: Running, key: string, target: string): Promise<SentRun> {
  const started = sampleEvent('inference-start', {
    target_identity: { target_id: target, target_type: 'patient' },
  });
  const runId = started.event_id;
  const outcome = sampleEvent('outcome', {
    run_id: runId,
    outcome: { outcome_type: 'validated', description: `of ${target}` },
  });
  const events = [
    { kind: 'inference-start', event: started },
    { kind: 'outcome', event: outcome },
  ] as const;
  for (const { kind, event } of events)
    expect((await post(collector.port, key, JSON.stringify(event), { kind })).status).toBe(201);
  return { runId, events };
}

/** The body of what was erased is null. */
const isOpen = ({ body }: { readonly body: unknown }) => typeof body === 'string';

const on = (...args: readonly string[]) => run([...args, '--data-dir', dataDir]);
/** Planned, and applied by the marks of the plan. */
const erasing = (asked: readonly string[], ...more: readonly string[]) =>
  erased(['--data-dir', dataDir], asked, ...more);

async function json<Told>(...args: readonly string[]): Promise<Told> {
  const { stdout, stderr, code } = await on(...args, '--json');
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Told;
}

async function keepNothing(): Promise<void> {
  const policy = path.join(root, 'policy.json');
  fs.writeFileSync(policy, JSON.stringify({ version: 1, name: 'p', default: { keep: 'P0D' } }));
  expect((await on('retention', 'policy', 'set', policy)).code).toBe(0);
}

interface Verified {
  readonly intact: boolean;
  readonly erased_events: Readonly<Record<string, number>>;
  readonly findings: readonly { kind: string; sequence?: number; message: string }[];
}

/** Events of a log, as a plan has them. */
async function events(log: EventLog, isOne: (entry: PassedEntry) => boolean): Promise<LogEvent[]> {
  const found: LogEvent[] = [];
  for await (const batch of log.pass())
    for (const entry of batch) if (!entry.isOwn && isOne(entry)) found.push(eventOf(entry));
  return found;
}

const sequences = async () => (await storedEvents(dataDir)).map(({ sequence }) => sequence);

const isSegment = (file: string) => /\d{16}\.segment$/.test(file);

/** All bytes below some directories. */
function everything(...directories: readonly string[]): Buffer {
  const files = directories.flatMap((directory) =>
    fs
      .readdirSync(directory, { recursive: true, encoding: 'utf8' })
      .map((name) => path.join(directory, name))
      .filter((name) => fs.statSync(name).isFile()),
  );
  return Buffer.concat(files.map((file) => fs.readFileSync(file)));
}

describe('[R-1334] an erased event', () => {
  test('[R-1339] cannot be opened by any reader, and its log is verified and proved', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const mine = await sendRun(collector, key, SUBJECT);
    const theirs = await sendRun(collector, key, OTHER);
    expect((await on('runs', '--target', SUBJECT)).stdout).toContain(mine.runId);

    const before = Date.now();
    const { code, stdout, stderr } = await erasing(['--subject-file', subjects], '--json');
    expect(code, stderr).toBe(0);
    const certificate = JSON.parse(stdout) as Record<string, unknown>;
    expect(certificate).toMatchObject({ reason: 'erasure-request', events: 2, copies: [], directories: 2 });
    for (const date of ['began', 'keys_destroyed'])
      expect(Date.parse(String(certificate[date])), date).toBeGreaterThanOrEqual(before);
    expect(certificate['key_epoch_ended']).toBeNull();

    const stored = await storedEvents(dataDir);
    expect(stored.map((event) => (event as { action?: string }).action)).toEqual([
      ...[certificate['action'], certificate['action'], undefined, undefined],
    ]);
    const printed = stored.map((event) => [event.event_id, isOpen(event)]);
    expect(printed).toEqual([
      ...mine.events.map(({ event }) => [event.event_id, false]),
      ...theirs.events.map(({ event }) => [event.event_id, true]),
    ]);
    const record = JSON.parse(
      (await on('records', '--run', mine.runId, '--format', 'json')).stdout,
    ) as unknown;
    expect(JSON.stringify(record)).toContain(
      `"payload":"erased","action":"${String(certificate['action'])}"`,
    );

    // [R-1334]
    expect(record).toMatchObject([{ metadata: { completeness: { level: 'erased' } } }]);
    const listed = (await on('runs', '--json')).stdout.trim().split('\n');
    expect(listed.map((line) => JSON.parse(line) as object)).toContainEqual(
      expect.objectContaining({ record_id: mine.runId, completeness: 'erased' }),
    );

    // [R-1338]
    expect((await on('runs', '--target', SUBJECT)).stdout).toBe('');
    expect((await on('runs', '--target', OTHER)).stdout).toContain(theirs.runId);
    await collector.stop();

    // [R-1339]
    const { intact, erased_events } = await json<Verified>('verify');
    expect({ intact, erased_events }).toEqual({ intact: true, erased_events: { 'erasure-request': 2 } });
    const logged = (await on('erase', '--list', '--json')).stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
    expect(logged).toMatchObject([{ does: 'erase', reason: 'erasure-request', events: 2, state: 'done' }]);

    // [R-1339]
    const proof = path.join(root, 'proof');
    const id = mine.events[1]?.event.event_id ?? '';
    expect((await on('proof', id, '--out', proof)).code).toBe(0);
    const checked = await run(['check-proof', proof, '--key', firstKey(dataDir)]);
    expect(checked.stdout).toMatch(/^VALID[\s\S]*Its content has been erased\s+since/);
    const body = path.join(root, 'body.json');
    fs.writeFileSync(body, JSON.stringify(mine.events[1]?.event));
    expect((await run(['check-proof', proof, '--event', body, '--key', firstKey(dataDir)])).code).toBe(3);
    expect((await on('proof', theirs.events[1]?.event.event_id ?? '', '--out', `${proof}.2`)).code).toBe(0);
    expect((await run(['check-proof', `${proof}.2`, '--key', firstKey(dataDir)])).code).toBe(2);
  });
});

describe('[R-1341] a policy, and [R-1342] holds, beside a collector that takes no events', () => {
  test('decide what is erased: a hold and a floor win, and the rest is erased once', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const [one, two] = [await sendRun(collector, key, SUBJECT), await sendRun(collector, key, OTHER)];
    await collector.stop();
    const silent = await start(dataDir, ['--no-listen']);
    const policy = path.join(root, 'policy.json');
    const write = (more: object) =>
      fs.writeFileSync(policy, JSON.stringify({ version: 1, name: 'short', ...more }));
    expect((await on('retention', 'run')).code).toBe(6);
    write({ default: { keep: 'a while' } });
    const refused = await run(['retention', 'policy', 'set', policy, '--dry-run']);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('default.keep')]);
    write({ floors: [{ id: 'law', keep: 'P10Y' }], default: { keep: 'P10Y' } });
    expect((await on('retention', 'policy', 'set', policy, '--dry-run')).stdout).toBe('ok: short\n');
    expect((await on('retention', 'policy', 'show')).code).toBe(6);
    expect((await on('retention', 'policy', 'set', policy)).code).toBe(0);
    expect((await on('retention', 'run')).stdout).toContain('nothing ');
    expect((await erasing(['--run', two.runId])).code).toBe(8);

    write({ default: { keep: 'P0D' } });
    const set = await on('retention', 'policy', 'set', policy);
    expect([set.code, set.stderr]).toEqual([0, expect.stringContaining('"default"')]);
    const typo = await on('hold', 'add', 'TYPO', '--organisation', 'demoo');
    expect([typo.code, typo.stderr]).toEqual([0, expect.stringContaining('demoo')]);
    expect((await on('hold', 'release', 'TYPO')).code).toBe(0);
    expect((await on('hold', 'add', 'CASE-7', '--subject-file', subjects)).code).toBe(0);
    expect(everything(path.join(dataDir, 'lifecycle', 'holds')).includes(SUBJECT)).toBe(false);
    expect((await on('hold', 'list')).stdout).toMatch(/CASE-7.*a subject \(1 id\)/);
    // Nor is it erased as a mention of someone else.
    const others = path.join(root, 'others.txt');
    fs.writeFileSync(others, `of ${SUBJECT}\n`);
    for (const asked of [
      ['--subject-file', subjects],
      ['--subject-file', others, '--mentions'],
    ]) {
      const { stdout, file } = await planned(['--data-dir', dataDir], asked);
      expect(stdout).toContain(': on hold by CASE-7');
      expect((await applied(['--data-dir', dataDir], file)).code).toBe(6);
    }
    const dry = await json<{ rules: unknown; held: number }>('retention', 'run', '--dry-run');
    expect(dry).toMatchObject({ rules: [{ rule: 'default', events: 2 }], held: 2 });
    expect((await on('retention', 'run')).code).toBe(0);
    expect((await json<Verified>('verify')).erased_events).toEqual({ policy: 2 });

    // Without its record it is not known what is held.
    const holds = path.join(dataDir, 'lifecycle', 'holds');
    const [record = '', ...more] = fs.readdirSync(holds);
    expect(more).toEqual([]);
    fs.renameSync(path.join(holds, record), path.join(root, record));
    const blind = await on('retention', 'run');
    expect([blind.code, blind.stderr]).toEqual([8, expect.stringContaining('is missing')]);
    fs.renameSync(path.join(root, record), path.join(holds, record));

    expect((await on('hold', 'release', 'CASE-7')).code).toBe(0);
    expect((await on('retention', 'run')).code).toBe(0);
    const { intact, erased_events } = await json<Verified>('verify');
    expect({ intact, erased_events }).toEqual({ intact: true, erased_events: { policy: 4 } });
    expect((await erasing(['--run', one.runId])).code).toBe(6);
    expect(await silent.stop()).toBe(0);
    expect(everything(path.join(dataDir, 'lifecycle')).includes(SUBJECT)).toBe(false);
  });
});

describe('[R-2025] a log that the next start has compacted', () => {
  test('is verified, backed up and restored as before', async () => {
    const text = 'x'.repeat(1100);
    const batches = Array.from({ length: 8 }, () => Array.from({ length: 50 }, () => loggedEvent(text)));
    await fillSigned(dataDir, batches, { segmentBytes: 64 << 10, encryption: encryptionIn(dataDir) });
    await createKey(dataDir);
    const backups = path.join(root, 'backups');
    const backUp = () => on('backup', backups, '--keys-elsewhere');
    expect((await backUp()).code).toBe(0);
    const policy = path.join(root, 'policy.json');
    fs.writeFileSync(policy, JSON.stringify({ version: 1, name: 'all', default: { keep: 'P0D' } }));
    const { code, stderr } = await beside(dataDir, async () => {
      expect((await on('retention', 'policy', 'set', policy)).code).toBe(0);
      return on('retention', 'run');
    });
    expect(code, stderr).toBe(0);
    const sizesNow = () => segmentPaths(dataDir).map((file) => fs.statSync(file).size);
    // The current segment is ended, and all segments except the new one are compacted.
    await beside(dataDir, () =>
      expect.poll(() => Math.max(...sizesNow().slice(0, -1))).toBeLessThan(8 << 10),
    );
    const sizes = sizesNow();
    expect(await json<Verified>('verify')).toMatchObject({
      intact: true,
      erased_events: { policy: 400 },
      findings: [],
    });
    expect((await on('doctor')).stdout).not.toMatch(/^damage/m);
    expect((await backUp()).code).toBe(0);
    const target = path.join(root, 'restored');
    const restored = await run(['restore', backups, '--data-dir', target, '--key', firstKey(dataDir)]);
    expect(restored.code, restored.stderr).toBe(0);
    expect(
      segmentPaths(target)
        .map((file) => fs.statSync(file).size)
        .slice(0, -1),
    ).toEqual(sizes.slice(0, -1));
    expect((await run(['events', '--data-dir', target])).stdout).not.toContain('xxxx');
  });
});

describe('[R-2025] erase apply --wait', () => {
  test('ends when no file of the data directory has the encrypted bytes, or says what is left', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const [one, two] = [await sendRun(collector, key, SUBJECT), await sendRun(collector, key, OTHER)];
    const { code, stdout, stderr } = await erasing(['--run', one.runId], '--wait', '--json');
    expect(code, stderr).toBe(0);
    const { keys_destroyed, bytes_removed, bytes_left } = JSON.parse(stdout) as Record<string, string>;
    expect([typeof keys_destroyed, typeof bytes_removed, bytes_left]).toEqual(['string', 'string', 0]);
    expect(segmentPaths(dataDir).length).toBeGreaterThan(1);
    expect((await storedEvents(dataDir)).map(isOpen)).toEqual([false, false, true, true]);

    // If a segment cannot be compacted.
    const sealed = segmentPaths(dataDir).find(isSegment) ?? '';
    fs.mkdirSync(`${sealed}.draft`);
    const left = await erasing(['--run', two.runId], '--wait', '--json');
    expect([left.code, (JSON.parse(left.stdout) as { bytes_left: number }).bytes_left]).toEqual([9, 2]);
    fs.rmdirSync(`${sealed}.draft`);
    expect(await collector.stop()).toBe(0);
  });

  test('requests a compaction that the next start completes after a kill', async () => {
    const batches = Array.from({ length: 40 }, () =>
      Array.from({ length: 50 }, () => loggedEvent('x'.repeat(1100))),
    );
    await fillSigned(dataDir, batches, { segmentBytes: 256 << 10, encryption: encryptionIn(dataDir) });
    const policy = path.join(root, 'policy.json');
    fs.writeFileSync(policy, JSON.stringify({ version: 1, name: 'all', default: { keep: 'P0D' } }));
    await createKey(dataDir);
    const collector = await start(dataDir, ['--no-listen']);
    expect((await on('retention', 'policy', 'set', policy)).code).toBe(0);
    expect((await on('retention', 'run')).code).toBe(0);
    askForCompaction(dataDir, randomUUID());
    const compacted = () =>
      segmentPaths(dataDir).filter((file) => fs.readFileSync(file).toString('latin1', 0, 8) === 'CLINSEGC');
    await expect.poll(() => compacted().length, { interval: 1 }).toBeGreaterThan(0);
    await collector.kill();
    expect(await json<Verified>('verify')).toMatchObject({ intact: true });
    await beside(dataDir, () =>
      expect.poll(() => compacted().length).toBe(segmentPaths(dataDir).filter(isSegment).length - 1),
    );
    expect(await json<Verified>('verify')).toMatchObject({ intact: true });
  });
});

describe('[R-1339] verify', () => {
  test('finds a key that was removed without an action, and an erased key that is back', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const { runId } = await sendRun(collector, key, SUBJECT);
    await sendRun(collector, key, OTHER);
    await collector.stop();
    const [first, , third] = await sequences();
    fs.cpSync(keys, `${keys}.old`, { recursive: true });
    expect((await beside(dataDir, () => erasing(['--run', runId], '--reason', 'test-data'))).code).toBe(0);
    const [bucket = ''] = fs.readdirSync(path.join(keys, 'buckets'));
    for (const directory of [keys, mirror]) {
      fs.renameSync(path.join(directory, 'buckets', bucket), path.join(directory, 'taken'));
    }
    const gone = JSON.parse((await on('verify', '--json')).stdout) as Verified;
    expect(gone.findings).toContainEqual(expect.objectContaining({ kind: 'unexplained', sequence: third }));
    for (const directory of [keys, mirror]) {
      fs.rmSync(directory, { recursive: true });
      fs.cpSync(`${keys}.old`, directory, { recursive: true });
    }
    const back = JSON.parse((await on('verify', '--json')).stdout) as Verified;
    expect(back.findings).toContainEqual(expect.objectContaining({ kind: 'not_erased', sequence: first }));
    // Our readers still do not open it, and the next start destroys it.
    expect((await storedEvents(dataDir)).map((event) => !isOpen(event))).toEqual([true, true, false, false]);
    await (await start(dataDir, encrypted)).stop();
    expect((await json<Verified>('verify')).intact).toBe(true);
  });
});

describe('[R-1336] an older state of the log with the keys of today', () => {
  test('is not explained by a note beside the keys, and learns the erasures at its start', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const { runId } = await sendRun(collector, key, SUBJECT);
    await sendRun(collector, key, OTHER);
    expect((await on('hold', 'add', 'dispute', '--run', runId)).code).toBe(0);
    await collector.stop();
    fs.cpSync(dataDir, `${dataDir}.old`, { recursive: true });
    await beside(dataDir, async () => {
      expect((await on('hold', 'release', 'dispute')).code).toBe(0);
      expect((await erasing(['--run', runId], '--reason', 'test-data')).code).toBe(0);
    });
    fs.rmSync(dataDir, { recursive: true });
    fs.renameSync(`${dataDir}.old`, dataDir);

    const noted = await on('verify', '--json');
    expect([noted.code, JSON.parse(noted.stdout)]).toMatchObject([
      3,
      {
        findings: [{ kind: 'unexplained', message: expect.stringContaining('proves nothing') as string }],
      },
    ]);
    await (await start(dataDir, encrypted)).stop();
    // By this state of the log the hold is still on it, and the note beside the keys says that it was released.
    expect((await on('hold', 'list')).stdout).toBe('');
    expect(JSON.parse((await on('verify', '--json')).stdout)).toMatchObject({
      findings: [],
      erased_events: { 'test-data': 2 },
    });
    expect((await on('erase', '--list')).stdout).toContain('test-data');
    expect((await storedEvents(dataDir)).map((event) => isOpen(event))).toEqual([false, false, true, true]);
  });
});

describe('[R-1339] an erasure under a hold', () => {
  test('is found by verify, whichever program did it', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const [one, two] = [await sendRun(collector, key, SUBJECT), await sendRun(collector, key, OTHER)];
    expect((await on('hold', 'add', 'CASE-7', '--run', one.runId)).code).toBe(0);
    expect((await erasing(['--run', two.runId], '--reason', 'test-data')).code).toBe(0);
    await collector.stop();
    expect((await json<Verified>('verify')).findings).toEqual([]);
    // A program that ignores the hold, in place of a command.
    const { events: log } = openStore(dataDir);
    const action = randomUUID();
    const [first = 0, second = 0, third = 0] = await sequences();
    const held = await events(log, (entry) => entry.sequence <= second);
    await layRequest(new Inbox(dataDir), {
      action: {
        action,
        does: 'erase',
        reason: 'test-data',
        part: 1,
        parts: 1,
        keys: keysOf(log, held).keys,
      },
      considered: { policy: null, holds: [...(log.actions?.().holds.keys() ?? [])] },
    });
    await log.close();
    const again = await start(dataDir, encrypted);
    await expect.poll(() => answerTo(new Inbox(dataDir), action)).toEqual({ state: 'done' });
    await again.stop();
    expect(again.output.stderr).toContain(`stored events were erased (2, test-data): action ${action}`);
    const { code, stdout } = await on('verify', '--json');
    expect([code, (JSON.parse(stdout) as Verified).findings]).toEqual([
      3,
      [
        {
          ...{ kind: 'unlawful', sequence: first },
          message: `events ${first} to ${second} were erased by action ${action}, although the hold CASE-7 protected it`,
        },
      ],
    ]);
    const doctor = await on('doctor');
    expect([doctor.code, doctor.stdout]).toEqual([
      3,
      expect.stringContaining('although the hold CASE-7 protected'),
    ]);
    // The entry that erased it, and what a proof of it says.
    const { sequence, entryId } =
      openStore(dataDir)
        .events.actions?.()
        .logged.findLast(({ said }) => said.does === 'erase') ?? {};
    const printed = JSON.parse((await on('events', '--event', String(sequence))).stdout) as { body: string };
    expect(printed).toMatchObject({
      kind: 128,
      event_id: entryId,
      body: expect.stringContaining(action) as string,
    });
    const [proof, body] = [path.join(root, 'proof'), path.join(root, 'body')];
    fs.writeFileSync(body, printed.body);
    expect((await on('proof', entryId ?? '', '--out', proof)).code).toBe(0);
    const checked = await run(['check-proof', proof, '--event', body, '--key', firstKey(dataDir)]);
    expect(checked.stdout).toMatch(/^VALID[\s\S]*says +2 events erased, with the reason test-data/);
    expect(checked.stdout).toMatch(/from +the collector itself/);
    // [R-2031]
    const proved = independentAction(
      fs.readFileSync(proof, 'utf8'),
      Buffer.from(printed.body),
      firstKey(dataDir),
    );
    expect(proved).toMatchObject({
      ...{ number: sequence, action, does: 'erase' },
      erased: [{ organisation: 'default', events: [first, second] }],
    });
    // Without its record it is not known what was held, so that removing the record makes no erasure lawful.
    fs.rmSync(path.join(dataDir, 'lifecycle', 'holds'), { recursive: true });
    const { findings } = JSON.parse((await on('verify', '--json')).stdout) as Verified;
    expect(findings.map(({ kind, sequence }) => [kind, sequence])).toEqual([
      ['unlawful', first],
      ['unlawful', third],
    ]);
    expect(findings[1]?.message).toMatch(
      /although hold [\w-]+ was active, and its record is missing or changed/,
    );
  });
});

describe('[R-1325] the keys', () => {
  test('get a mirror, a copy that certificates name, and a new epoch', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, ['--encryption-keys', keys]);
    const { runId } = await sendRun(collector, key, SUBJECT);
    await collector.stop();
    expect((await on('encryption-keys', 'copy', '--mirror', mirror)).code).toBe(0);
    const copy = path.join(root, 'copy');
    fs.mkdirSync(copy);
    for (const expires of [[], ['--expires', '14'], ['--expires', '2001-01-01T00:00:00Z']])
      expect((await on('encryption-keys', 'copy', copy, ...expires)).code).toBe(2);
    expect((await on('encryption-keys', 'copy', copy, '--expires', '14d', '--mirror')).code).toBe(2);
    expect((await on('encryption-keys', 'copy', copy, '--expires', '14d')).code).toBe(0);
    const silent = await start(dataDir, ['--no-listen']);
    expect((await erasing(['--run', runId], '--reason', 'test-data')).code).toBe(0);
    const [listed] = (await on('erase', '--list', '--json')).stdout
      .split('\n')
      .map((line) => JSON.parse(line || '{}') as { action?: string });
    const action = listed?.action ?? '';
    interface Certificate {
      readonly copies: readonly { readonly until: string }[];
      readonly key_epoch_ended: string | null;
    }
    const before = await json<Certificate>('erase', '--certificate', action);
    expect(Date.parse(before.copies[0]?.until ?? '')).toBeGreaterThan(Date.now() + 13 * 86_400_000);
    expect(before.key_epoch_ended).toBeNull();
    expect((await on('encryption-keys', 'rotate')).stdout).toBe('epoch 2 has begun\n');
    expect((await json<Certificate>('erase', '--certificate', action)).key_epoch_ended).not.toBeNull();
    const { directories } = await json<{ directories: { behind: number }[] }>('encryption-keys', 'status');
    expect(directories.map(({ behind }) => behind)).toEqual([0, 0]);
    expect((await json<Verified>('verify')).intact).toBe(true);
    await silent.stop();
    await (await start(dataDir)).stop();
  });
});

describe('[R-1328] restore with keys', () => {
  test('destroys keys of events that the back-up or a note beside the keys says are erased, or else names the command', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const [mine, theirs] = [await sendRun(collector, key, SUBJECT), await sendRun(collector, key, OTHER)];
    const [before, after] = [path.join(root, 'before'), path.join(root, 'after')];
    expect((await on('backup', before)).code).toBe(0);
    for (const name of ['old', 'narrowed']) fs.cpSync(keys, `${keys}.${name}`, { recursive: true });
    expect((await erasing(['--subject-file', subjects])).code).toBe(0);
    // The end puts the action under a checkpoint.
    await collector.stop();
    expect((await on('backup', after)).code).toBe(0);
    const restored = path.join(root, 'restored');
    const restore = async (backups: string, from: string, ...args: readonly string[]) => {
      fs.rmSync(restored, { recursive: true, force: true });
      const where = ['--data-dir', restored, '--encryption-keys', from];
      const { code, stdout, stderr } = await run(['restore', backups, ...where, ...args]);
      return [code, (stdout + stderr).replace(/\s+/g, ' ')];
    };
    const trusted = ['--key', firstKey(dataDir)];
    const opened = async () => (await storedEvents(restored)).map((event) => [event.event_id, isOpen(event)]);
    const both = (isMineOpen: boolean) => [
      ...mine.events.map(({ event }) => [event.event_id, isMineOpen]),
      ...theirs.events.map(({ event }) => [event.event_id, true]),
    ];
    // A back-up that is not verified by a trusted key destroys no key.
    const untrusted = await restore(after, `${keys}.narrowed`);
    expect(untrusted).toEqual([2, expect.stringContaining('--encryption-keys: ')]);
    const states = (directory: string) => everything(path.join(directory, 'buckets'));
    expect(states(`${keys}.narrowed`).equals(states(`${keys}.old`))).toBe(true);

    expect((await restore(after, `${keys}.narrowed`, ...trusted))[0]).toBe(0);
    // No other reader can open them either: the keys are destroyed.
    expect(states(`${keys}.narrowed`).equals(states(`${keys}.old`))).toBe(false);
    expect(await opened()).toEqual(both(false));

    // Old log and old keys: only the certificates name the erasure.
    expect(await restore(before, `${keys}.old`, ...trusted)).toEqual([
      0,
      expect.stringContaining('collector erase plan --certificate FILE'),
    ]);
    expect(await opened()).toEqual(both(true));

    expect(await restore(before, keys, ...trusted)).toEqual([0, expect.stringContaining('2 events ')]);
    expect(await opened()).toEqual(both(false));
    await (await start(restored, ['--signing-keys', path.join(dataDir, 'signing-keys')])).stop();
    expect(await opened()).toEqual(both(false));
    const verified = await run(['verify', '--data-dir', restored, '--json']);
    expect(JSON.parse(verified.stdout)).toMatchObject({ intact: true });
  });
});

describe('[R-1342] a hold', () => {
  const allKept = async () => (await storedEvents(dataDir)).map((event) => isOpen(event));

  test.each(['erase apply', 'retention run'])('that begins while %s reads the log stops it', async (name) => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const { runId } = await sendRun(collector, key, SUBJECT);
    await keepNothing();
    const where = ['--data-dir', dataDir];
    const { file } = await planned(where, ['--run', runId]);
    // In place of a log that takes minutes to read.
    const begin = () => {
      const hold = ['hold', 'add', 'CASE-7', '--run', runId, '--data-dir', dataDir];
      expect(spawnSync(process.execPath, [MAIN, ...hold], { env: ENVIRONMENT }).status).toBe(0);
      return [];
    };
    const read =
      name === 'erase apply'
        ? vi.spyOn(LogRuns.prototype, 'collect').mockImplementationOnce(() => Promise.resolve(begin()))
        : vi.spyOn(Holds.prototype, 'on').mockImplementationOnce(begin);
    onTestFinished(() => read.mockRestore());
    const by = ['--reason', 'test-data', '--case', '1', '--by', 'x'];
    const asked =
      name === 'erase apply'
        ? commandOf(erase).parseAsync(['node', 'erase', 'apply', file, ...by, ...where])
        : commandOf(retention).parseAsync(['node', 'retention', 'run', ...where]);
    await expect(asked).rejects.toThrow('a hold has begun meanwhile');
    await collector.stop();
    expect(await allKept()).toEqual([true, true]);
  });

  test('covers what is nested in a run, and each person that a start of it names [R-1342]', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const send = async (event: object, kind: 'inference-start' | 'outcome') =>
      expect((await post(collector.port, key, JSON.stringify(event), { kind })).status).toBe(201);
    expect((await on('hold', 'add', 'CASE-7', '--subject-file', subjects)).code).toBe(0);
    const { runId, events: sent } = await sendRun(collector, key, SUBJECT);
    // It names no run, only what it is nested in.
    const child = { ...sampleEvent('outcome'), run_id: undefined, parent_event_id: runId };
    await send(child, 'outcome');
    const isKept = async (...asked: readonly string[]) => {
      const { stdout } = await planned(['--data-dir', dataDir], asked);
      expect(stdout).toMatch(/^0 events of 0 runs marked[^]*: on hold by CASE-7$/m);
    };
    await isKept('--event', child.event_id);
    // An earlier start says that the run is about someone else.
    const someone = { target_identity: { target_id: 'nobody', target_type: 'patient' } };
    const earlier = { ...sampleEvent('inference-start', someone), run_id: runId };
    await send({ ...earlier, timestamp: '2020-01-01T00:00:00Z' }, 'inference-start');
    // The run is listed by that start, and found by either id.
    for (const person of [SUBJECT, 'nobody'])
      expect((await on('runs', '--target', person)).stdout).toContain(runId);
    await isKept('--run', runId);
    await keepNothing();
    expect(await json('retention', 'run', '--dry-run')).toMatchObject({ rules: [], held: 4 });
    await collector.stop();
    expect(sent).toHaveLength(2);
  });

  test('survives the loss of the id index, and so do erasures', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const [one, two] = [await sendRun(collector, key, SUBJECT), await sendRun(collector, key, OTHER)];
    await collector.stop();
    fs.cpSync(keys, `${keys}.old`, { recursive: true });
    await beside(dataDir, async () => {
      expect((await on('hold', 'add', 'CASE-7', '--run', one.runId)).code).toBe(0);
      expect((await erasing(['--run', two.runId])).code).toBe(0);
    });
    fs.rmSync(path.join(dataDir, 'index'), { recursive: true });
    expect((await on('hold', 'list')).stdout).toContain('CASE-7');
    // The key of the hold is younger than the copy.
    for (const directory of [keys, mirror]) {
      fs.rmSync(path.join(directory, 'buckets'), { recursive: true });
      fs.cpSync(path.join(`${keys}.old`, 'buckets'), path.join(directory, 'buckets'), { recursive: true });
    }
    expect(await allKept()).toEqual([true, true, false, false]);
    const again = await start(dataDir, encrypted);
    const { stdout } = await planned(['--data-dir', dataDir], ['--run', one.runId]);
    expect(stdout).toContain(': on hold by CASE-7');
    await again.stop();
    expect((await json<Verified>('verify')).findings).toEqual([]);
  });

  test('whose entry cannot be read prevents a start', async () => {
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
    const hold = ['hold', 'add', 'CASE-7', '--organisation', 'default'];
    expect((await beside(dataDir, () => on(...hold))).code).toBe(0);
    await fill(6);
    const [file = ''] = segmentPaths(dataDir);
    const bytes = fs.readFileSync(file);
    const at = bytes.indexOf('"does":"hold"');
    expect(at).toBeGreaterThan(0);
    bytes[at + 8] = 0x48;
    fs.writeFileSync(file, bytes);
    const policy = path.join(root, 'policy.json');
    fs.writeFileSync(policy, JSON.stringify({ version: 1, name: 'p', default: { keep: 'P0D' } }));
    const refused = await on('serve', '--no-listen');
    expect([refused.code, refused.stderr]).toEqual([3, expect.stringContaining(path.basename(file))]);
    bytes[at + 8] = 0x68;
    fs.writeFileSync(file, bytes);
    await beside(dataDir, async () => {
      expect((await on('retention', 'policy', 'set', policy)).code).toBe(0);
      expect((await on('retention', 'run')).stdout).toMatch(/350 events .*hold/);
    });
  });

  test('keeps the events that it covered when it began, whatever a sender sends later', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    const { runId } = await sendRun(collector, key, SUBJECT);
    // An event without a run, whose record changes when its parent comes.
    const parent = sampleEvent('outcome');
    const child = sampleEvent('outcome', { parent_event_id: parent.event_id });
    const send = async (event: SampleEvent, kind: 'inference-start' | 'outcome' = 'outcome') =>
      expect((await post(collector.port, key, JSON.stringify(event), { kind })).status).toBe(201);
    await send(child);
    const held = await on('hold', 'add', 'CASE-7', '--subject-file', subjects);
    expect(held.stdout).toMatch(/CASE-7 \([0-9a-f-]+\): 2 events/);
    expect((await on('hold', 'add', 'CASE-8', '--run', child.event_id.slice(0, 8))).code).toBe(0);
    await send(parent);
    const target_identity = { target_id: 'nobody', target_type: 'patient' };
    const timestamp = '2020-01-01T00:00:00Z';
    await send(
      sampleEvent('inference-start', { run_id: runId, timestamp, target_identity }),
      'inference-start',
    );
    await keepNothing();
    expect((await on('retention', 'run')).code).toBe(0);
    // The second start is of the held run; the parent came later, and is of no held run.
    await collector.stop();
    expect(await allKept()).toEqual([true, true, true, false, true]);
    expect((await json<Verified>('verify')).findings).toEqual([]);
  });
});

describe('[R-1325] directories of keys', () => {
  const byPerson = (...more: readonly string[]) => erasing(['--subject-file', subjects], ...more);
  const keyIn = (directory: string) => {
    const reader = readKeys({ directories: [directory], kek: '' });
    const [bucket = ''] = fs.readdirSync(path.join(directory, 'buckets'));
    // The first of the log may be an entry of its own.
    const tag = Number.parseInt(bucket.slice(17, 25), 16);
    return [1, 2].some((sequence) => reader?.keyOf(tag, 'default', sequence) !== undefined);
  };

  test('that are added beside a collector follow its next erasure', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, ['--encryption-keys', keys]);
    await sendRun(collector, key, SUBJECT);
    fs.writeFileSync(path.join(mirror, 'letter.txt'), 'x');
    expect((await on('encryption-keys', 'copy', '--mirror', mirror)).stderr).toContain(mirror);
    fs.rmSync(path.join(mirror, 'letter.txt'));
    expect((await on('encryption-keys', 'copy', '--mirror', mirror)).code).toBe(0);
    expect(keyIn(mirror)).toBe(true);
    expect((await byPerson()).code).toBe(0);
    expect([keyIn(keys), keyIn(mirror)]).toEqual([false, false]);
    await collector.stop();
  });

  test('that are empty but had keys count as failed mounts: an erasure waits for them', async () => {
    const key = await createKey(dataDir);
    let collector = await start(dataDir, encrypted);
    await sendRun(collector, key, SUBJECT);
    const unmount = () => {
      fs.renameSync(mirror, `${mirror}.unmounted`);
      fs.mkdirSync(mirror);
    };
    unmount();
    const { code, stdout } = await byPerson();
    expect([code, stdout]).toEqual([9, expect.stringMatching(/^ERASURE IN PROGRESS/)]);
    await collector.stop();
    collector = await start(dataDir, encrypted);
    const { stdout: status } = await on('encryption-keys', 'status');
    expect(status.replace(/\s+/g, ' ')).toContain(`${mirror} holds no keys`);
    expect(fs.readdirSync(mirror)).toEqual([]);
    fs.rmdirSync(mirror);
    fs.renameSync(`${mirror}.unmounted`, mirror);
    await collector.stop();
    collector = await start(dataDir, encrypted);
    await expect.poll(async () => (await on('erase', '--list', '--json')).stdout).toContain('"state":"done"');
    expect(keyIn(mirror)).toBe(false);
    // A disk that was replaced.
    unmount();
    const refused = await on('encryption-keys', 'rotate');
    expect([refused.code, refused.stderr]).toEqual([8, expect.stringContaining('epoch')]);
    expect((await on('encryption-keys', 'copy', '--mirror', mirror)).code).toBe(0);
    expect((await on('encryption-keys', 'rotate')).code).toBe(0);
    expect((await on('encryption-keys', 'status')).code).toBe(0);
    await collector.stop();
  });

  test('that a start leaves out are named by certificates until they are back', async () => {
    const key = await createKey(dataDir);
    let collector = await start(dataDir, encrypted);
    await sendRun(collector, key, SUBJECT);
    await collector.stop();
    collector = await start(dataDir, ['--encryption-keys', keys]);
    const { code, stdout } = await byPerson('--json');
    const certificate = JSON.parse(stdout) as { action: string; left_out: { directory: string }[] };
    expect([code, certificate]).toMatchObject([0, { directories: 1, left_out: [{ directory: mirror }] }]);
    const text = (await on('erase', '--certificate', certificate.action)).stdout.replace(/\s+/g, ' ');
    expect(text).toMatch(new RegExp(`Copies of keys .*${mirror}`));
    await collector.stop();
    collector = await start(dataDir, encrypted);
    expect(keyIn(mirror)).toBe(false);
    expect(await json('erase', '--certificate', certificate.action)).toMatchObject({ left_out: [] });
    await collector.stop();
  });

  test('that are lost are reported as damage, not as a log in the clear', async () => {
    await createKey(dataDir);
    await (await start(dataDir, encrypted)).stop();
    for (const directory of [keys, mirror]) fs.renameSync(directory, `${directory}.away`);
    const status = await on('encryption-keys', 'status');
    expect([status.code, status.stderr]).toEqual([3, expect.stringContaining('their keys are not in')]);
    expect((await on('doctor')).stdout).toMatch(/DAMAGED +encryption/);
  });
});

describe('[R-1328] a back-up whose newest event was erased since', () => {
  test('can be started with the keys of today, and leaves the event erased', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, encrypted);
    await sendRun(collector, key, OTHER);
    await sendRun(collector, key, SUBJECT);
    const backups = path.join(root, 'backups');
    expect((await on('backup', backups)).code).toBe(0);
    const { code } = await erasing(['--subject-file', subjects]);
    expect(code).toBe(0);
    await collector.stop();
    const restored = path.join(root, 'restored');
    const { stdout } = await run(['restore', backups, '--data-dir', restored, '--key', firstKey(dataDir)]);
    expect(stdout.replace(/\s+/g, ' ')).toMatch(/hold/);
    const signing = ['--signing-keys', path.join(dataDir, 'signing-keys')];
    await (await start(restored, [...encrypted, ...signing])).stop();
    const opened = (await storedEvents(restored)).map((event) => isOpen(event));
    expect(opened).toEqual([true, true, false, false]);
    const verified = await run(['verify', '--data-dir', restored, '--json']);
    expect(JSON.parse(verified.stdout)).toMatchObject({ intact: true });
  });
});

describe('[R-1343] a policy', () => {
  test('that has a duplicate name, or is nested too deep, is refused', async () => {
    const policy = path.join(root, 'policy.json');
    const floors = '"floors":[{"id":"law","keep":"P10Y"}]';
    fs.writeFileSync(policy, `{"version":1,"name":"p",${floors},"default":{"keep":"P0D"},"floors":[]}`);
    const twice = await run(['retention', 'policy', 'set', policy, '--dry-run']);
    expect([twice.code, twice.stderr]).toEqual([2, expect.stringContaining('a duplicate name')]);
    const deep = `{"$schema":${'['.repeat(40)}${']'.repeat(40)},"version":1,"name":"x","floors":[],"floors":[],"default":{"keep":"P1Y"}}`;
    fs.writeFileSync(policy, deep);
    const nested = await run(['retention', 'policy', 'set', policy, '--dry-run']);
    expect([nested.code, nested.stderr]).toEqual([2, expect.stringContaining('nested')]);
    fs.writeFileSync(policy, '\ufeff{"version":1,"name":"p","default":{"keep":"P1D"}}');
    expect((await run(['retention', 'policy', 'set', policy, '--dry-run'])).code).toBe(0);
  });
});
