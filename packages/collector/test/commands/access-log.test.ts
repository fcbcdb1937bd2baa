import { execFile, execFileSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { actingUser } from '../../src/commands/actor.js';
import { findPlan, lineIn } from '../../src/commands/access-lines.js';
import { beginAccess } from '../../src/commands/access-log.js';
import { run, temporaryDirectory } from '../running/collector-process.js';
import { sampleEvent } from '../running/sample-events.js';
import { candidate } from '../store/candidate.js';
import { fillSigned, loggedEvent } from './signed-directory.js';

const execFileAsync = promisify(execFile);
const DIST = new URL('../../dist/commands', import.meta.url).href;
let dataDir: string;
let file: string;
beforeEach(() => {
  dataDir = temporaryDirectory();
  file = path.join(dataDir, 'access.log');
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

function lines(): string[] {
  const all = fs.readFileSync(file, 'utf8').split('\n');
  expect(all.pop()).toBe('');
  return all;
}

/** What depends on who runs the tests. */
function asker({ actor, login_uid, sudo_user }: Record<string, unknown> = {}): object {
  return {
    ...{ actor },
    ...(login_uid !== undefined && { login_uid }),
    ...(sudo_user !== undefined && { sudo_user }),
  };
}

function kindOf(line: string): unknown {
  const found = lineIn(Buffer.from(line));
  return typeof found === 'string' ? found : found.state;
}

/** An access in a process of its own, whose system says who logged in. @returns its lines, and who acts there. */
async function inProcess(
  loginuid: string | undefined,
  sudo: string,
  by?: string,
): Promise<{ stdout: string[]; acting: unknown }> {
  const script = `
    import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    const { readFileSync } = fs;
    const loginuid = ${JSON.stringify(loginuid ?? null)};
    fs.readFileSync = (name, ...more) => {
      if (name !== '/proc/self/loginuid') return readFileSync(name, ...more);
      if (loginuid === null) throw new Error('no such file');
      return loginuid;
    };
    syncBuiltinESMExports();
    const { beginAccess } = await import(${JSON.stringify(DIST)} + '/access-log.js');
    const { actingUser } = await import(${JSON.stringify(DIST)} + '/actor.js');
    const by = ${JSON.stringify(by ?? null)} ?? undefined;
    beginAccess(${JSON.stringify(dataDir)}, { command: 'events', filter: {}, by })({ events: 0, complete: true });
    process.stdout.write(JSON.stringify(actingUser() ?? null));
  `;
  const { stdout } = await execFileAsync(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, SUDO_USER: sudo },
  });
  return { stdout: lines(), acting: JSON.parse(stdout) as unknown };
}

describe('the access log', () => {
  test('[R-702] has a line for the beginning of a reading and one for its end, and parses both', () => {
    const end = beginAccess(dataDir, { command: 'events', filter: { kind: 'outcome' } });
    expect(lines().map(kindOf)).toEqual(['begun']);
    end({ events: 2, complete: true });
    expect(lines().map(kindOf)).toEqual(['begun', 'ended']);
    expect(JSON.parse(lines()[1] ?? '')).toMatchObject({ events: 2, complete: true });
  });

  test('[R-1343] records a filter by patient or user without its value', () => {
    const filter = {
      target: 'patient-zwiebelkuchen',
      user: 'dr-adlerhorst',
      model: 'sepsis-risk',
      since: undefined,
    };
    beginAccess(dataDir, { command: 'runs', filter })({ events: 3, complete: true });
    expect(JSON.parse(lines()[0] ?? '')).toMatchObject({
      filter: { target: true, user: true, model: 'sepsis-risk' },
    });
    expect(fs.readFileSync(file, 'latin1')).not.toMatch(/zwiebelkuchen|adlerhorst/);
    beginAccess(dataDir, { command: 'runs', filter: { target: '' } });
    expect(lines().at(-1)).toContain('"filter":{"target":true}');
    beginAccess(dataDir, { command: 'runs', filter: { user: undefined } });
    expect(lines().at(-1)).toContain('"filter":{}');
  });

  test('[R-718] begins a new line after one that was cut short at any byte, and finds that one torn', () => {
    beginAccess(dataDir, { command: 'events', filter: {} });
    const whole = fs.readFileSync(file);
    for (let length = 1; length < whole.length - 1; length++) {
      fs.writeFileSync(file, whole.subarray(0, length));
      beginAccess(dataDir, { command: 'events', filter: {} });
      expect(lines().map(kindOf)).toEqual(['torn', 'begun']);
    }
    // If only its line feed is missing, the line is whole.
    fs.writeFileSync(file, whole.subarray(0, -1));
    beginAccess(dataDir, { command: 'events', filter: {} });
    expect(lines().map(kindOf)).toEqual(['begun', 'begun']);
    // What a power loss may leave.
    fs.writeFileSync(file, Buffer.concat([whole.subarray(0, 40), Buffer.alloc(60)]));
    beginAccess(dataDir, { command: 'events', filter: {} });
    expect(lines().map(kindOf)).toEqual(['torn', 'begun']);
  });

  test('[R-718] [R-702] finds lines that no command has written, and ignores unknown members', () => {
    const noted = JSON.stringify({
      ...{
        at: '2026-03-04T05:06:07.089Z',
        reading: 'r',
        state: 'ended',
        uid: 1,
        user: null,
        command: 'events',
      },
      ...{ events: 1, complete: true },
    });
    expect(kindOf(noted)).toBe('foreign');
    const more = {
      actor: { kind: 'oidc', name: 'Ada', role: 'reviewer', department: 'icu' },
      ...{
        reason: 'complaint',
        break_glass: false,
        done: { epoch: 2 },
        ticket: ['of', 'a', 'later', 'version'],
      },
    };
    const newer = `${noted.slice(0, -1)},${JSON.stringify(more).slice(1)}`;
    expect(kindOf(newer)).toBe('ended');
    for (const [from, to] of [
      ['"oidc"', '"king"'],
      ['"Ada"', '7'],
      ['"role":"reviewer"', '"role":null'],
      ['"department":"icu"', '"proven":"yes"'],
      ['"department":"icu"', '"stated":1'],
      ['"complaint"', 'true'],
      ['false', '"false"'],
      ['{"epoch":2}', '[2]'],
    ] as const) {
      const changed = newer.replace(from, to);
      expect([changed, kindOf(changed)]).toEqual([changed, 'foreign']);
    }
    for (const [from, to] of [
      ['"uid":1', '"uid":"1"'],
      ['"user":null', '"user":1'],
      ['"ended"', '"begun"'],
      ['"ended"', '"over"'],
      ['"events":1', '"events":-0.5'],
      ['true', '"yes"'],
      ['2026-03-04', '2026-02-30'],
      ['.089Z', '.089+01:00'],
      ['"reading":"r",', ''],
      ['{', '[{'],
    ] as const) {
      const changed = noted.replace(from, to);
      expect([changed, kindOf(changed)]).toEqual([changed, 'foreign']);
    }
    expect(lineIn(undefined)).toBe('foreign');
    for (const text of ['{}', 'null', '[]', '"at"', 'anything', '{"at" : 1'])
      expect(kindOf(text)).toBe('foreign');
    fc.assert(fc.property(fc.string(), (text) => void lineIn(Buffer.from(text))));
    fc.assert(fc.property(fc.json(), (text) => ['foreign', 'torn'].includes(String(kindOf(text)))));
  });

  test('[R-718] is refused if it is a pipe', () => {
    execFileSync('mkfifo', [file]);
    expect(() => beginAccess(dataDir, { command: 'events', filter: {} })).toThrow('(ENOTREG)');
  });

  test('[R-718] is never written through a link, whether its target exists or not', () => {
    const elsewhere = path.join(dataDir, 'elsewhere');
    fs.symlinkSync(elsewhere, file);
    const message = `${file} cannot be written (ELOOP), and nothing is read unless it is logged there`;
    expect(() => beginAccess(dataDir, { command: 'events', filter: {} })).toThrow(message);
    expect(fs.existsSync(elsewhere)).toBe(false);
    fs.writeFileSync(elsewhere, 'of another');
    expect(() => beginAccess(dataDir, { command: 'events', filter: {} })).toThrow(message);
    expect(fs.readFileSync(elsewhere, 'utf8')).toBe('of another');
  });

  test('[R-702] records the filter of each command and who asked, and nothing of an event', async () => {
    const [eventId, runId] = [randomUUID(), randomUUID()];
    const body = sampleEvent('inference-start', { event_id: eventId, run_id: runId });
    await fillSigned(dataDir, [
      [candidate({ kind: 'inference-start', eventId, runId, body }), loggedEvent('another')],
    ]);
    const tiles = path.join(dataDir, 'tiles');
    const asked: readonly [readonly string[], object, number][] = [
      [['events', '--run', runId, '--since', '2026-01-01'], { run: runId, since: '2026-01-01' }, 1],
      [['events', '--event', eventId], { event: eventId }, 1],
      [['records', '--run', runId, '--format', 'json'], { run: runId, format: 'json' }, 1],
      [['runs', '--model', 'x'], { model: 'x' }, 0],
      [['names', 'models', '--user', 'x'], { kind: 'models', user: true }, 0],
      [['proof', eventId], { event: eventId }, 1],
      [['proof', '--tiles', tiles], { tiles }, 2],
    ];
    for (const [args, filter, events] of asked) {
      fs.rmSync(file, { force: true });
      const { code } = await run([...args, '--data-dir', dataDir]);
      expect([args, code]).toEqual([args, 0]);
      const [begun, ended] = lines().map((line) => JSON.parse(line) as Record<string, unknown>);
      const who = { uid: os.userInfo().uid, user: os.userInfo().username, command: args[0] };
      expect(begun).toEqual({
        ...{ at: expect.any(String) as string, reading: expect.any(String) as string, state: 'begun' },
        ...{ ...who, ...asker(begun), filter: expect.objectContaining(filter) as object },
      });
      expect(ended).toEqual({
        ...{ at: expect.any(String) as string, reading: begun?.['reading'], state: 'ended' },
        ...{ ...who, ...asker(begun), events, complete: true },
        ...(args[0] === 'names' && { done: { names: 0 } }),
      });
      expect(lines().map(kindOf)).toEqual(['begun', 'ended']);
      expect(begun?.['actor']).toMatchObject({ kind: 'os', name: expect.any(String) as string });
      expect(lines().join()).not.toMatch(/Chest pain|patient-4711/);
    }
  });

  test.skipIf(process.getuid?.() !== 0)(
    '[R-718] that root creates belongs to the owner of the directory, whose collector has to read it',
    () => {
      fs.chownSync(dataDir, 65_534, 65_534);
      beginAccess(dataDir, { command: 'events', filter: {} });
      expect(fs.statSync(file).uid).toBe(65_534);
    },
  );

  test.skipIf(process.getuid?.() !== 0)(
    '[R-718] is not written by root into a hard link to a file of another owner, and keeps its owner',
    () => {
      fs.chownSync(dataDir, 65_534, 65_534);
      const elsewhere = path.join(dataDir, 'elsewhere');
      fs.writeFileSync(elsewhere, 'of root');
      fs.linkSync(elsewhere, file);
      expect(() => beginAccess(dataDir, { command: 'events', filter: {} })).toThrow('(EMLINK)');
      expect(fs.readFileSync(elsewhere, 'utf8')).toBe('of root');
      // A copy of the directory that consists of links belongs to its owner.
      fs.chownSync(elsewhere, 65_534, 65_534);
      beginAccess(dataDir, { command: 'events', filter: {} });
      expect(lines()).toHaveLength(2);
      fs.rmSync(file);
      fs.writeFileSync(file, '');
      beginAccess(dataDir, { command: 'events', filter: {} });
      expect(fs.statSync(file).uid).toBe(0);
    },
  );

  test('[R-702] names who acts, by the login if there is one, and the evidence for it', async () => {
    const { uid, username } = os.userInfo();
    const evidence = { uid, user: username };
    const of = async (loginuid: string | undefined, sudo: string, by?: string) => {
      const { stdout } = await inProcess(loginuid, sudo, by);
      fs.rmSync(file);
      const [begun, ended, ...more] = stdout.map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(stdout.map(kindOf)).toEqual(['begun', 'ended']);
      expect(more).toEqual([]);
      const [who, atEnd] = [begun, ended].map((line = {}) => {
        const { actor, uid, user, login_uid, sudo_user } = line;
        return { actor, uid, user, login_uid, sudo_user };
      });
      expect(atEnd).toEqual(who);
      return who;
    };
    const long = 'x'.repeat(9999);
    expect(await of(`${uid}\n`, '')).toEqual({
      ...{ ...evidence, login_uid: uid, actor: { kind: 'os', name: username, proven: true } },
    });
    // A user id without a name.
    expect(await of('3999999001\n', 'auditor', long)).toEqual({
      ...{ ...evidence, login_uid: 3_999_999_001, sudo_user: 'auditor' },
      actor: { kind: 'os', name: '3999999001', proven: true, stated: 'x'.repeat(256) },
    });
    expect(await of('4294967295', 'auditor')).toEqual({
      ...{ ...evidence, sudo_user: 'auditor', actor: { kind: 'os', name: 'auditor', proven: false } },
    });
    expect(await of('4294967295', 'auditor', 'Dr. Adler')).toEqual({
      ...{ ...evidence, sudo_user: 'auditor', actor: { kind: 'os', name: 'Dr. Adler', proven: false } },
    });
    expect(await of(undefined, long)).toEqual({
      ...{ ...evidence, sudo_user: 'x'.repeat(256) },
      actor: { kind: 'os', name: 'x'.repeat(256), proven: false },
    });
    expect(await of(undefined, '')).toEqual({
      ...{ ...evidence, actor: { kind: 'os', name: username, proven: false } },
    });
  });

  test('[R-702] has the system name of a user who logged in, and no name without a login', async () => {
    const name = (uid: number) => execFileSync('id', ['-nu', String(uid)], { encoding: 'utf8' }).trim();
    const { uid } = os.userInfo();
    // A user who does not run this process.
    const other = uid === 0 ? 1 : 0;
    expect((await inProcess(`${other}`, '')).acting).toEqual({ name: name(other), isProven: true });
    expect((await inProcess(`${uid}`, '')).acting).toEqual({ name: name(uid), isProven: true });
    expect((await inProcess('4294967295', 'auditor')).acting).toBeNull();
    expect((await inProcess(undefined, 'auditor')).acting).toBeNull();
  });

  test('[R-702] finds who made a plan, and when, only by the line of erase plan with its SHA-256', async () => {
    const plan = createHash('sha256').update('a plan').digest('hex');
    const begin = (command: string, filter: object, more: object = {}) =>
      beginAccess(dataDir, { command, filter: { ...filter }, ...more });
    expect(await findPlan(dataDir, plan)).toBeUndefined();
    const imitated = `"}}\n{"at":"2026-01-01T00:00:00.000Z","command":"erase plan","filter":{"plan":"${plan}"}}`;
    begin('hold add', { name: imitated, plan });
    begin('erase plan', { name: imitated, nested: { plan }, plan: [plan] });
    begin('erase plan', { plan: plan.slice(1) });
    begin('erase plan', { plan: plan.toUpperCase() });
    begin('erase plan', {}, { by: imitated, reason: `"filter":{"plan":"${plan}"}` });
    // No command writes a line without an actor.
    const [line = ''] = lines().slice(-1);
    const before = { ...(JSON.parse(line) as object), actor: undefined };
    fs.appendFileSync(file, `${JSON.stringify({ ...before, filter: { plan } })}\n`);
    // The line of an end has no filter.
    fs.appendFileSync(
      file,
      `${line.replace('"begun"', '"ended"').replace('"filter":{}', `"filter":{"plan":"${plan}"}`)}\n`,
    );
    fs.appendFileSync(file, `${line.slice(0, -9)}"plan":"${plan}"`);
    expect(await findPlan(dataDir, plan)).toBeUndefined();
    // After many others, with a name that the end of a chunk may cut.
    fs.appendFileSync(file, `\n${`${'ä'.repeat(7)}\n`.repeat(20_000)}`);
    begin('erase plan', { plan, mentions: true }, { by: 'Müller' })({ events: 3, complete: true });
    begin('erase plan', { plan }, { by: 'somebody later' });
    expect(await findPlan(dataDir, plan)).toMatchObject({
      ...{ command: 'erase plan', state: 'begun', at: expect.any(String) as string },
      actor: { kind: 'os', [actingUser() === undefined ? 'name' : 'stated']: 'Müller' },
    });
  });

  test('[R-702] has whole lines of several readers at once, also after a torn line', async () => {
    await fillSigned(dataDir, [[loggedEvent('one')]]);
    fs.writeFileSync(file, '{"at":"2026-');
    const readers = Array.from({ length: 8 }, (_, i) =>
      run(['events', '--data-dir', dataDir, '--organisation', `o${i}`]),
    );
    for (const { code } of await Promise.all(readers)) expect(code).toBe(0);
    // Two readers that see the torn line at the same time leave an empty one.
    const [torn, ...rest] = lines().filter((line) => line !== '');
    expect(kindOf(torn ?? '')).toBe('torn');
    const noted = rest.map((line) => JSON.parse(line) as { reading: string; state: string; filter?: object });
    expect(noted).toHaveLength(16);
    const begun = noted.filter(({ state }) => state === 'begun');
    expect(begun.map(({ filter }) => JSON.stringify(filter)).sort()).toEqual(
      readers.map((_, i) => `{"organisation":"o${i}"}`),
    );
    const ended = noted.filter(({ state }) => state === 'ended').map(({ reading }) => reading);
    expect(ended.sort()).toEqual(begun.map(({ reading }) => reading).sort());
  });

  test('[R-702] on a disk with room for half a line prevents the reading, and has whole lines of the next one', async () => {
    await fillSigned(dataDir, [[loggedEvent('one')]]);
    const preload = `
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      const { writeSync } = fs;
      fs.writeSync = (fd, bytes, ...at) => writeSync(fd, bytes, ...(at.length === 0 ? [0, bytes.length >> 1] : at));
      syncBuiltinESMExports();
    `;
    const half = `--import data:text/javascript,${encodeURIComponent(preload)}`;
    fs.writeFileSync(file, '{"at":"2025-12-31T00:00:00.000Z"}\n');
    const newest = path.join(dataDir, `access-${new Date().getUTCFullYear()}.log`);
    expect(await run(['events', '--data-dir', dataDir], { env: { NODE_OPTIONS: half } })).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: `collector: ${newest} cannot be written (ENOSPC), and nothing is read unless it is logged there\n`,
    });
    expect((await run(['events', '--data-dir', dataDir])).code).toBe(0);
    fs.renameSync(newest, file);
    expect(lines().map(kindOf)).toEqual(['torn', 'begun', 'ended']);
  });
});
