import fs from 'node:fs';
import path from 'node:path';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { readSinkStates } from '../../src/publishing/sink-state.js';
import { createKey, outcomeEvent, run, start, temporaryDirectory } from '../running/collector-process.js';
import { post } from '../running/load.js';
import { signReadings } from './signed-directory.js';

const INTERVAL = ['--checkpoint-interval-ms', '100'];

/** A log whose sink has seen more readings than its back-up holds, and then more events: as an honest host leaves it. */
let master: string;
beforeAll(async () => {
  master = temporaryDirectory();
  const at = placesIn(master);
  fs.mkdirSync(at.worm);
  const key = await createKey(at.dataDir);
  const serving = await start(at.dataDir, ['--checkpoint-sink', `dir:${at.worm}`, ...INTERVAL]);
  const send = async () =>
    expect((await post(serving.port, key, JSON.stringify(outcomeEvent()))).status).toBe(201);
  await send();
  await run(['events', '--data-dir', at.dataDir]);
  expect((await run(['backup', at.backups, '--data-dir', at.dataDir])).code).toBe(0);
  await run(['events', '--data-dir', at.dataDir]);
  await vi.waitUntil(() => newestIn(at.worm, /^access-log-\d/) === 6, 10_000);
  fs.cpSync(at.worm, path.join(master, 'before'), { recursive: true });
  await send();
  await vi.waitUntil(() => newestIn(at.worm, /^\d/) === 2, 10_000);
  await serving.kill();
  return () => fs.rmSync(master, { recursive: true, force: true });
}, 60_000);

function placesIn(scratch: string) {
  const [dataDir, backups, worm, target] = ['data', 'backups', 'worm', 'restored'].map((name) =>
    path.join(scratch, name),
  ) as [string, string, string, string];
  return { scratch, dataDir, backups, worm, target };
}

let at: ReturnType<typeof placesIn>;
beforeEach(() => {
  at = placesIn(temporaryDirectory());
  fs.cpSync(master, at.scratch, { recursive: true });
  onTestFinished(() => fs.rmSync(at.scratch, { recursive: true, force: true }));
});

/** As the sink was before it saw an event that no back-up has. */
function withoutLateEvents(): void {
  fs.rmSync(at.worm, { recursive: true });
  fs.renameSync(path.join(at.scratch, 'before'), at.worm);
}

/** The largest number in the names of these files. */
function newestIn(directory: string, names: RegExp): number {
  const found = fs.readdirSync(directory).filter((name) => names.test(name));
  return Math.max(0, ...found.map((name) => Number(/(\d{16})\.checkpoint$/.exec(name)?.[1])));
}

interface Report {
  readonly findings: readonly { kind: string; message: string }[];
  readonly access_log: { restores: readonly Record<string, unknown>[] };
}

async function restore(target = at.target) {
  const key = fs.readFileSync(path.join(at.dataDir, 'checkpoints', 'origin.vkey'), 'utf8').trim();
  const args = ['restore', at.backups, '--to', target, '--against', at.worm, '--key', key, '--json'];
  const { code, stdout, stderr } = await run(args);
  expect(stderr).toBe('');
  fs.cpSync(path.join(at.dataDir, 'signing-keys'), path.join(target, 'signing-keys'), { recursive: true });
  return { code, told: JSON.parse(stdout) as Record<string, unknown> & { verified: Report } };
}

async function verify(dataDir: string) {
  const { code, stdout } = await run(['verify', '--json', '--data-dir', dataDir, '--against', at.worm]);
  return { code, ...(JSON.parse(stdout) as Report) };
}

async function doctor(dataDir: string) {
  const { code, stdout } = await run(['doctor', '--json', '--data-dir', dataDir]);
  const { findings } = JSON.parse(stdout) as { findings: { severity: string; message: string }[] };
  return { code, damage: findings.filter(({ severity }) => severity === 'damage') };
}

/** Runs a collector with the sink until that has its say, and through one more reading. */
async function serveFor(dataDir: string, until: (log: string) => boolean) {
  const management = ['--management', 'on', '--management-port', '0'];
  const serving = await start(dataDir, ['--checkpoint-sink', `dir:${at.worm}`, ...INTERVAL, ...management]);
  onTestFinished(() => serving.kill());
  await expect.poll(() => until(serving.output.stderr), { timeout: 10_000 }).toBe(true);
  const port = /"port":(\d+)[^\n]*"msg":"management listening"/.exec(serving.output.stderr)?.[1] ?? '';
  const state = await fetch(`http://127.0.0.1:${port}/console/state.json`);
  const { warnings, sinks } = (await state.json()) as {
    warnings: { id: string; title: string }[];
    sinks: { state: string }[];
  };
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  expect(await serving.stop()).toBe(0);
  const lines = serving.output.stderr.trimEnd().split('\n');
  const errors = lines.map((line) => JSON.parse(line) as { level: string; msg: string });
  return {
    warnings,
    sinks,
    metrics,
    errors: errors.filter(({ level }) => ['error', 'fatal'].includes(level)).map(({ msg }) => msg),
  };
}

const states = (dataDir: string) => readSinkStates(dataDir).map(({ state }) => state);
const readLines = (dataDir: string) =>
  fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8').trimEnd().split('\n');
const writeLines = (dataDir: string, lines: readonly string[]) =>
  fs.writeFileSync(path.join(dataDir, 'access.log'), lines.map((line) => `${line}\n`).join(''));
const isRestore = (line: string) => line.includes('"state":"restored"');

describe('[R-812] [R-718] the access log of a restored directory', () => {
  test('goes on from the back-up without contradicting what a sink holds of the lines after it', async () => {
    withoutLateEvents();
    const { code, told } = await restore();
    expect(told).toMatchObject({ access_log_lines: 3, newest_access_checkpoint_given: 6 });
    expect(told.verified).toMatchObject({
      intact: true,
      // The end of the back-up's own reading was noted behind its copy, and the restore still runs.
      access_log: { restores: [{ lines: 3, lines_lost: 3, backup: told['manifest'] }], unended: 0 },
    });
    expect((await verify(at.target)).access_log).toMatchObject({ lines: 6, unended: 0 });
    expect(told.verified.findings).toContainEqual(
      expect.objectContaining({
        kind: 'note',
        message: expect.stringMatching(/signed over 6, so 3 lines .* did not/) as string,
      }),
    );
    expect([code, told['newest_checkpoint_given']]).toEqual([0, null]);
    const { errors, warnings } = await serveFor(
      at.target,
      () => states(at.target).length === 2 && newestIn(at.worm, /^access-log-\w{16}-/) === 6,
    );
    expect([errors, warnings.filter(({ id }) => id.startsWith('sink'))]).toEqual([[], []]);
    expect(states(at.target)).toEqual(['ok', 'ok']);
    // Nothing is given out in the old name any more: what was signed last in it is older than what the sink has.
    const anew = fs.readdirSync(at.worm).filter((name) => /^access-log-\w{16}-/.test(name));
    for (const name of anew) {
      const note = fs.readFileSync(path.join(at.worm, name), 'utf8');
      expect(note.split('\n')[0]).toMatch(new RegExp(`/access-log/${name.split('-')[2]}$`));
    }
    expect(await doctor(at.target)).toEqual({ code: 0, damage: [] });
    expect(await verify(at.target)).toMatchObject({ code: 0, intact: true });
    const again = await run(['backup', at.backups, '--data-dir', at.target, '--json']);
    expect(again.code).toBe(0);
  }, 60_000);

  test('says of events that are lost, and of nothing else, at the restore, in the log, on the console and in doctor', async () => {
    const { code, told } = await restore();
    expect([code, told['newest_checkpoint_given'], told['newest_access_checkpoint_given']]).toEqual([
      7, 2, 6,
    ]);
    const { errors, warnings } = await serveFor(at.target, () => states(at.target).includes('forked'));
    expect(errors).toEqual([expect.stringContaining('contradicts this ledger')]);
    expect(warnings.filter(({ id }) => id === 'sink_forked')).toEqual([
      expect.objectContaining({ title: expect.stringContaining('contradicts this ledger') as string }),
    ]);
    const { code: unwell, damage } = await doctor(at.target);
    expect([unwell, damage.map(({ message }) => message)]).toEqual([
      3,
      [expect.stringContaining('contradicts this ledger since')],
    ]);
  }, 60_000);

  test('goes on also when it was restored twice from the same back-up', async () => {
    withoutLateEvents();
    await restore();
    await serveFor(at.target, () => newestIn(at.worm, /^access-log-\w{16}-/) > 3);
    const second = path.join(at.scratch, 'second');
    const { code, told } = await restore(second);
    expect([code, told.verified.findings.map(({ kind }) => kind)]).toEqual([0, ['note', 'note', 'note']]);
    const { errors } = await serveFor(second, () => states(second).length === 2);
    expect([errors, states(second)]).toEqual([[], ['ok', 'ok']]);
    expect(await verify(second)).toMatchObject({ code: 0 });
    // Where nothing tells of a restore, a second copy that signs is a fork.
    const { code: unwell, findings } = await verify(at.dataDir);
    expect([unwell, findings.filter(({ kind }) => kind === 'access_log_altered')]).toEqual([
      3,
      [
        {
          kind: 'access_log_altered',
          file: 'access.log',
          message: expect.stringContaining('another copy') as string,
        },
      ],
    ]);
  }, 60_000);

  test('is found changed when lines before the restore, or the line that tells of it, are', async () => {
    withoutLateEvents();
    await restore();
    await signReadings(at.target);
    await serveFor(at.target, () => newestIn(at.worm, /^access-log-\w{16}-/) >= 6);
    const lines = readLines(at.target);
    const told = async () => (await verify(at.target)).findings.filter(({ kind }) => kind !== 'note');
    expect(await told()).toEqual([]);
    const checkpoint = path.join(at.target, 'checkpoints', 'access-log');
    const newest = fs.readFileSync(checkpoint);
    // With its own checkpoint gone: what the line of the restore says is enough.
    writeLines(at.target, lines.with(1, lines[1]?.replace('"events"', '"backup"') ?? ''));
    fs.rmSync(checkpoint);
    expect(await told()).toContainEqual(
      expect.objectContaining({
        message: expect.stringMatching(/line 4 .* tells of a restore, and not/) as string,
      }),
    );
    // Put back to the state of the back-up, with the checkpoint of then.
    writeLines(
      at.target,
      lines.filter((line, i) => i < 3 && !isRestore(line)),
    );
    const other = path.join(at.scratch, 'other');
    await restore(other);
    fs.copyFileSync(path.join(other, 'checkpoints', 'access-log'), checkpoint);
    expect((await told()).map(({ kind }) => kind)).toContain('access_log_altered');
    // The restore taken for a later one.
    writeLines(
      at.target,
      lines.filter((line) => !isRestore(line)),
    );
    fs.writeFileSync(checkpoint, newest);
    expect(await told()).toContainEqual(
      expect.objectContaining({
        message: expect.stringContaining('after a restore that access.log does not') as string,
      }),
    );
    const serving = await start(at.target, INTERVAL);
    onTestFinished(() => serving.kill());
    await expect.poll(() => serving.output.stderr).toMatch(/access\.log was changed/);
    await serving.stop();
  }, 60_000);

  test('is found cut short behind a line that only claims a restore', async () => {
    withoutLateEvents();
    const lines = readLines(at.dataDir);
    await restore();
    const line = readLines(at.target).find(isRestore) ?? '';
    // Its own newest checkpoint is of more lines, under the name that the log had.
    writeLines(at.dataDir, [...lines.slice(0, 3), line]);
    const { code, findings } = await verify(at.dataDir);
    expect([code, findings.some(({ kind }) => kind === 'access_log_altered')]).toEqual([3, true]);
    const serving = await start(at.dataDir, INTERVAL);
    onTestFinished(() => serving.kill());
    await expect.poll(() => serving.output.stderr).toMatch(/access\.log was changed/);
    await serving.stop();
    // And put in where it is not true, it is no line of a restore.
    writeLines(at.dataDir, [...lines, line]);
    expect((await verify(at.dataDir)).findings).toContainEqual(
      expect.objectContaining({
        message: expect.stringContaining('tells of a restore, and not of the lines') as string,
      }),
    );
  }, 60_000);

  test('[R-834] [R-906] that was put back by other means contradicts the sink, and everybody says which log it is', async () => {
    withoutLateEvents();
    await restore();
    writeLines(at.dataDir, readLines(at.dataDir).slice(0, 3));
    const checkpoint = path.join('checkpoints', 'access-log');
    fs.copyFileSync(path.join(at.target, checkpoint), path.join(at.dataDir, checkpoint));
    fs.rmSync(path.join(at.dataDir, 'checkpoints', 'sinks.json'));
    const { errors, warnings, sinks, metrics } = await serveFor(at.dataDir, () =>
      states(at.dataDir).includes('forked'),
    );
    expect(errors).toEqual([
      expect.stringMatching(/^a checkpoint sink contradicts access\.log; events are not concerned/),
    ]);
    expect(warnings.filter(({ id }) => id.startsWith('sink'))).toEqual([
      expect.objectContaining({
        id: 'sink_forked',
        title: expect.stringContaining('contradicts the access log') as string,
      }),
    ]);
    expect(sinks.map(({ state }) => state)).toEqual(['forked']);
    expect(metrics).toMatch(/^collector_sink_state\{.*state="forked"\} 1$/m);
    const { code, damage } = await doctor(at.dataDir);
    expect([code, damage.map(({ message }) => message)]).toEqual([
      3,
      [
        expect.stringMatching(
          /\(access log\) contradicts access\.log since .*; it has taken none from this directory yet$/,
        ),
      ],
    ]);
  }, 60_000);

  test('[R-834] that was changed is a warning of the console too', async () => {
    withoutLateEvents();
    const lines = readLines(at.dataDir);
    writeLines(at.dataDir, lines.with(0, lines[0]?.replace('begun', 'ended') ?? ''));
    const { errors, warnings } = await serveFor(at.dataDir, (log) => log.includes('access.log was changed'));
    expect(errors).toEqual([expect.stringContaining('access.log was changed')]);
    expect(warnings.map(({ id }) => id)).toContain('access_log_altered');
  }, 60_000);
});
