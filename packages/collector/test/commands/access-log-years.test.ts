/** The access log over several years: each has a file of its own. */
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { accessLines, closedFilesFrom, findPlan } from '../../src/commands/access-lines.js';
import { beginAccess } from '../../src/commands/access-log.js';
import { offerAccessSocket, socketAddress } from '../../src/commands/access-socket.js';
import { accessLogText } from '../../src/commands/verify/access-log-check.js';
import { verifyLog, type Verification } from '../../src/commands/verify/verification.js';
import { verificationFields } from '../../src/commands/verify/verification-report.js';
import { nodeFiles } from '../../src/files.js';
import { openAccessLog, openMirroredLog } from '../../src/store/open-access-log.js';
import { writeMirrorNote } from '../../src/tree/state-files.js';
import { run } from '../running/collector-process.js';
import { scratch } from '../running/scratch.js';
import { fillSigned, loggedEvent, signAccesses } from './signed-directory.js';

let dataDir: string;
beforeEach(() => {
  dataDir = scratch();
});
afterEach(() => vi.useRealTimers());

const inDirectory = (name: string) => path.join(dataDir, name);
const linesOf = (name: string) => fs.readFileSync(inDirectory(name), 'utf8').split('\n').slice(0, -1);
const logFiles = () => openAccessLog(dataDir).files();

function setClock(at: string): void {
  vi.useFakeTimers({ toFake: ['Date'], now: new Date(at) });
}

/** An access that begins and ends at a time. */
function access(at: string, command = 'events', filter: object = {}): void {
  setClock(at);
  beginAccess(dataDir, { command, filter: { ...filter } })({ events: 1, complete: true });
}

/** Accesses in three years, each with heads: two lines in 2026, four in 2027, two in 2029. */
async function threeYears(): Promise<void> {
  access('2026-12-31T23:59:59.999Z');
  await fillSigned(dataDir, [[loggedEvent('one')]]);
  access('2027-01-01T00:00:00.000Z');
  access('2027-07-01T00:00:00.000Z');
  await signAccesses(dataDir);
  access('2029-01-01T00:00:00.000Z');
  await signAccesses(dataDir);
}

function verified(closedFiles: readonly string[] = []): Promise<Verification> {
  const log = { dataDir, files: nodeFiles, against: [], keys: [] };
  const given = closedFilesFrom(closedFiles, dataDir);
  return verifyLog({ ...log, closedFiles: given, onProgress: () => undefined });
}

async function verify(closedFiles?: readonly string[]) {
  const verification = await verified(closedFiles);
  const text = verification.access && accessLogText(verification.access);
  return { ...(JSON.parse(JSON.stringify(verificationFields(verification))) as object), text };
}

function change(name: string, from: string, to: string): void {
  const text = fs.readFileSync(inDirectory(name), 'utf8');
  expect(text).toContain(from);
  fs.writeFileSync(inDirectory(name), text.replace(from, to));
}

const YEARS = ['access.log', 'access-2027.log', 'access-2029.log'];

describe('[R-2056] a line of a new year', () => {
  test('begins a file, whatever the clock says later, and is read after the older ones', async () => {
    access('2026-12-31T23:59:59.999Z', 'one');
    access('2027-01-01T00:00:00.000Z', 'two');
    access('2026-12-31T23:59:59.000Z', 'three');
    expect(YEARS.slice(0, 2)).toEqual(logFiles());
    expect(linesOf('access.log')).toHaveLength(2);
    expect(fs.statSync(inDirectory('access-2027.log')).mode & 0o777).toBe(0o600);
    const commands: unknown[] = [];
    for await (const line of accessLines(dataDir))
      if (typeof line === 'object' && line.state === 'begun') commands.push(line.command);
    expect(commands).toEqual(['one', 'two', 'three']);
  });

  test('begins a file after a torn line, and after a first line without a time', () => {
    fs.writeFileSync(inDirectory('access.log'), '\0\0\n{"at":"2026-05-01T00:00:00.000Z","reading":"to');
    access('2027-01-01T00:00:00.000Z');
    expect(linesOf('access-2027.log')).toHaveLength(2);
  });

  test('is durable with the name of its file, whichever process created it', () => {
    const sync = vi.spyOn(nodeFiles, 'syncDirectory');
    onTestFinished(() => sync.mockRestore());
    for (const name of YEARS.slice(0, 2)) {
      // Its process has not synchronised the directory yet.
      fs.writeFileSync(inDirectory(name), '', { mode: 0o600 });
      sync.mockClear();
      for (let i = 0; i < 2; i++) openAccessLog(dataDir).append('{"at":"2027-01-01T00:00:00.000Z"}');
      expect(sync.mock.calls).toEqual([[dataDir]]);
    }
    for (const name of YEARS.slice(0, 2)) fs.rmSync(inDirectory(name));
    openAccessLog(dataDir).append('{"at":"2027-01-01T00:00:00.000Z"}');
    expect(sync.mock.calls).toHaveLength(2);
  });

  test('of a look through the socket begins a file too', async () => {
    const collector = await offerAccessSocket(dataDir);
    onTestFinished(() => collector.close());
    const { address, release } = socketAddress(dataDir);
    const viewer = net.connect(address);
    onTestFinished(release);
    onTestFinished(() => void viewer.destroy());
    const actor = { kind: 'oidc', name: 'ada', role: 'reviewer' };
    const look = { state: 'begun', command: 'viewer runs', uid: 1, user: null, filter: {}, actor };
    for (const at of ['2026-12-31T23:00:00.000Z', '2027-01-01T00:00:00.000Z']) {
      setClock(at);
      viewer.write(`${JSON.stringify(look)}\n`);
      expect(String((await once(viewer, 'data'))[0])).toContain('"kept":true');
    }
    expect(logFiles()).toEqual(YEARS.slice(0, 2));
    for (const name of YEARS.slice(0, 2)) expect(linesOf(name)).toHaveLength(1);
  });

  test('does not divide the copy of a log in a database, whose heads count all lines', () => {
    const log = openMirroredLog(dataDir);
    for (const year of [2026, 2027]) log.append(JSON.stringify({ at: `${year}-06-01T00:00:00.000Z` }));
    expect(logFiles()).toEqual(['access.log']);
  });

  test('does not hide a plan of the old year', async () => {
    access('2026-12-31T00:00:00.000Z', 'erase plan', { plan: 'ab'.repeat(32) });
    access('2027-01-02T00:00:00.000Z');
    expect(await findPlan(dataDir, 'ab'.repeat(32))).toMatchObject({ at: '2026-12-31T00:00:00.000Z' });
  });

  test('of a command on an old directory begins a file', async () => {
    access('2025-12-31T00:00:00.000Z');
    await fillSigned(dataDir, [[loggedEvent('one')]]);
    vi.useRealTimers();
    expect((await run(['events', '--data-dir', dataDir])).code).toBe(0);
    await signAccesses(dataDir);
    const name = `access-${new Date().getUTCFullYear()}.log`;
    expect(logFiles()).toEqual(['access.log', name]);
    expect(linesOf(name)).toHaveLength(2);
    expect(await verify()).toMatchObject({ intact: true, access_log: { lines: 4, unsigned_lines: 0 } });
  });
});

describe('[R-2056] collector verify, of an access log with several files', () => {
  beforeEach(threeYears);

  test('checks all files of the directory', async () => {
    expect(logFiles()).toEqual(YEARS);
    expect(await verify()).toMatchObject({
      ...{ intact: true, findings: [] },
      access_log: { lines: 8, unsigned_lines: 0, unended: 0, unchecked_files: [] },
    });
    access('2029-02-01T00:00:00.000Z');
    expect(await verify()).toMatchObject({ intact: true, access_log: { lines: 10, unsigned_lines: 2 } });
  });

  test('states how many lines of a file that was moved away it did not check, and checks a given one', async () => {
    const archive = scratch();
    const moved = YEARS.slice(0, 2).map((name) => path.join(archive, name));
    for (const file of moved) fs.renameSync(inDirectory(path.basename(file)), file);
    const [first = '', second = ''] = moved;
    const text = '2 lines; 2 lines of access.log not checked (--access-log); 4 lines of access-2027.log not';
    expect(await verify()).toMatchObject({
      ...{ intact: true, findings: [], text: expect.stringContaining(text) as string },
      access_log: {
        ...{ lines: 2, unsigned_lines: 0 },
        unchecked_files: [
          { file: 'access.log', lines: 2 },
          { file: 'access-2027.log', lines: 4 },
        ],
      },
    });
    expect(await verify([second])).toMatchObject({
      ...{ intact: true, access_log: { lines: 6, unchecked_files: [{ file: 'access.log', lines: 2 }] } },
    });
    expect(await verify([second, first])).toMatchObject({
      ...{ intact: true, access_log: { lines: 8, unsigned_lines: 0, unchecked_files: [] } },
    });
    fs.appendFileSync(second, 'by hand\n');
    expect(await verify(moved)).toMatchObject({
      ...{ intact: false, findings: [{ kind: 'access_log_altered', file: 'access-2027.log' }] },
    });
    const cli = (...files: readonly string[]) =>
      run(['verify', '--data-dir', dataDir, ...files.flatMap((file) => ['--access-log', file])]);
    expect((await cli(first)).stdout).toContain('4 lines of access-2027.log not checked');
    expect((await cli(path.join(archive, 'access-2031.log'))).code).toBe(6);
    for (const refused of [[first, first], [inDirectory('checkpoints/latest')]])
      expect((await cli(...refused)).code).toBe(2);
  });

  test('takes no file from elsewhere in place of one that is in the directory', async () => {
    const kept = path.join(scratch(), 'access.log');
    fs.copyFileSync(inDirectory('access.log'), kept);
    change('access.log', '"events":1', '"events":7');
    const verifyWith = () => run(['verify', '--data-dir', dataDir, '--access-log', kept]);
    const twice = '--access-log: access.log is given twice, or is in the data directory';
    expect(await verifyWith()).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining(twice) as string,
    });
    fs.rmSync(inDirectory('access.log'));
    writeMirrorNote(dataDir, { store: 'a database', ledger_id: 'x', id: 'x', forwarded: 0, followed: 0 });
    const undivided = expect.stringContaining('a database has no closed files') as string;
    expect(await verifyWith()).toMatchObject({ code: 2, stdout: '', stderr: undivided });
  });

  test.each(YEARS)('finds altered and lost lines in %s', async (name) => {
    const kept = fs.readFileSync(inDirectory(name));
    change(name, '"events":1', '"events":7');
    expect(await verify()).toMatchObject({
      ...{ intact: false, findings: [{ kind: 'access_log_altered', file: name }] },
    });
    fs.writeFileSync(inDirectory(name), kept.subarray(0, kept.indexOf('\n') + 1));
    expect(await verify()).toMatchObject({
      ...{ intact: false, findings: [{ kind: 'access_log_altered', file: name }] },
    });
  });

  test('finds that the newest file was removed', async () => {
    fs.rmSync(inDirectory('access-2029.log'));
    expect(await verify()).toMatchObject({
      ...{ intact: false, findings: [{ kind: 'access_log_altered', file: 'access-2029.log' }] },
    });
  });

  describe('where a file was moved away', () => {
    let moved: string;
    beforeEach(async () => {
      dataDir = scratch();
      moved = path.join(scratch(), 'access.log');
      access('2026-06-01T00:00:00.000Z');
      await fillSigned(dataDir, [[loggedEvent('one')]]);
    });

    test('before it was closed, finds its lines missing until it is given', async () => {
      fs.renameSync(inDirectory('access.log'), moved);
      fs.writeFileSync(inDirectory('access-2027.log'), '');
      const altered: string[] = [];
      await fillSigned(dataDir, [], { onAltered: (reason) => altered.push(reason) });
      expect(altered).toEqual(['access.log: it has 0 whole lines, and the log has a head of 2']);
      const message = expect.stringContaining('access.log has 0 whole lines, but entry 2 ') as string;
      expect(await verify()).toMatchObject({
        ...{ intact: false, findings: [{ kind: 'access_log_altered', file: 'access.log', message }] },
      });
      const open = { kind: 'note', message: expect.stringContaining('closes access.log:') as string };
      expect(await verify([moved])).toMatchObject({ intact: true, findings: [open] });
    });

    test.each([true, false])(
      'after a line was altered, finds it in the heads (another line: %s)',
      async (isMore) => {
        change('access.log', '"events":1', '"events":7');
        if (isMore) access('2026-07-01T00:00:00.000Z');
        await fillSigned(dataDir, [], { onAltered: () => undefined });
        access('2027-07-01T00:00:00.000Z');
        await signAccesses(dataDir);
        fs.renameSync(inDirectory('access.log'), moved);
        const message = expect.stringMatching(
          /^entry 3 of the log contradicts entry 2 .* of access.log/,
        ) as string;
        expect(await verify()).toMatchObject({
          ...{ intact: false, findings: [{ kind: 'access_log_altered', file: 'access.log', message }] },
          access_log: { unchecked_files: [{ file: 'access.log', lines: isMore ? 4 : 2 }] },
        });
      },
    );
  });

  test('counts lines that were added to a closed file', async () => {
    const [line = ''] = linesOf('access.log');
    fs.appendFileSync(inDirectory('access.log'), `${line}\n`);
    const last_reading = '2029-01-01T00:00:00.000Z';
    expect(await verify()).toMatchObject({
      ...{ intact: true, access_log: { lines: 9, unsigned_lines: 1, last_reading } },
    });
  });

  test('says that no access was logged only if no line is unchecked', async () => {
    for (const name of YEARS.slice(0, 2)) fs.rmSync(inDirectory(name));
    fs.writeFileSync(inDirectory('access-2029.log'), '');
    expect((await verify()).text).toBe(
      '2 lines of access.log not checked (--access-log); 4 lines of access-2027.log not checked (--access-log)',
    );
  });

  test('a back-up names each file that it does not continue, and the file that it cannot read', async () => {
    vi.useRealTimers();
    const backups = path.join(scratch(), 'backups');
    const backup = () => run(['backup', backups, '--keys-elsewhere', '--data-dir', dataDir]);
    expect((await backup()).code).toBe(0);
    for (const name of YEARS.slice(0, 2)) {
      const [first = ''] = linesOf(name);
      fs.writeFileSync(inDirectory(name), `${first}\n`);
    }
    const text = (await backup()).stdout.replace(/\s/g, '');
    for (const name of YEARS.slice(0, 2)) expect(text).toContain(`${name}.until-`);
    fs.rmSync(inDirectory('access-2027.log'));
    fs.mkdirSync(inDirectory('access-2027.log'));
    const { code, stderr } = await backup();
    expect([code, stderr]).toEqual([3, expect.stringContaining('access-2027.log is not a regular file')]);
  });

  test('a back-up has all files, keeps those that were moved away since, and is restored with them', async () => {
    vi.useRealTimers();
    const backups = path.join(scratch(), 'backups');
    const backup = () => run(['backup', backups, '--keys-elsewhere', '--data-dir', dataDir]);
    const first = await backup();
    expect(first.code, first.stderr).toBe(0);
    fs.rmSync(inDirectory('access.log'));
    expect((await backup()).code).toBe(0);
    const target = path.join(scratch(), 'restored');
    const restored = await run(['restore', backups, '--data-dir', target]);
    expect(restored.code, restored.stderr).toBe(0);
    dataDir = target;
    expect(logFiles()).toEqual(YEARS);
    expect(await verify()).toMatchObject({ intact: true, access_log: { unchecked_files: [] } });
  });
});
