import { hash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { checkBackup } from '../../src/backup/backup-check.js';
import { BackupDamaged, LogDiffers, NotThisBackup } from '../../src/backup/backup-fault.js';
import { BackupFiles } from '../../src/backup/backup-files.js';
import { backUp, type RunResult } from '../../src/backup/backup-run.js';
import { BackupWriter } from '../../src/backup/backup-writer.js';
import { formatManifest } from '../../src/backup/manifest.js';
import { layOut, NotEmpty } from '../../src/backup/restoration.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { filesBelow, GrowingLog, Killed } from './growing-log.js';

let scratch: string;
let root: string;
let clock = Date.UTC(2026, 10, 21);

beforeEach(() => {
  scratch = temporaryDirectory();
  root = path.join(scratch, 'backups');
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

/** Nothing is tidied up when it throws, as after a kill. */
async function run(log: GrowingLog, life?: number): Promise<RunResult & Pick<BackupWriter, 'written'>> {
  const backedUp = log.backedUp(life);
  const writer = new BackupWriter(root, backedUp);
  const result = await backUp(backedUp, writer, { now: clock++, tool: '1', onProgress: () => undefined });
  writer.close();
  // Of runs that were ended nothing stays behind what was noted.
  const { catalogue, segment } = result.manifest;
  for (const { file, bytes } of [catalogue, segment])
    expect(fs.statSync(path.join(root, file)).size).toBe(bytes);
  return { ...result, written: writer.written };
}

function faults(): readonly string[] {
  return checkBackup(new BackupFiles(root), () => undefined).faults;
}

let targets = 0;

function restored(name: string): Map<string, string> {
  const files = new BackupFiles(root);
  const found = files.manifestNames().find((each) => each.name === name);
  if (found === undefined) throw new Error(`${name} is not there`);
  const target = path.join(scratch, `restored-${targets++}`);
  layOut(files, files.manifest(found), target, () => undefined);
  return filesBelow(target);
}

type Step =
  | { readonly do: 'append'; readonly bytes: number }
  | { readonly do: 'roll' }
  | { readonly do: 'back up' }
  | { readonly do: 'be killed'; readonly life: number; readonly torn: number };

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant('append' as const), bytes: fc.integer({ min: 1, max: 450 }) }),
    fc.record({ do: fc.constant('roll' as const) }),
    fc.record({ do: fc.constant('back up' as const) }),
    fc.record({ do: fc.constant('be killed' as const), life: fc.nat(20), torn: fc.nat(30) }),
  ),
  { minLength: 3, maxLength: 14 },
);

test('[R-811] whatever runs are killed, every back-up that was made is restored as the log was then', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (sequence) => {
      root = path.join(scratch, `backups-${targets++}`);
      const log = new GrowingLog();
      const made = new Map<string, Map<string, string>>();
      for (const step of [...sequence, { do: 'back up' } as const]) {
        if (step.do === 'append') log.append(step.bytes);
        else if (step.do === 'roll') log.roll();
        else if (step.do === 'back up') made.set((await run(log)).name, log.restored());
        else await beKilled(log, step.life, step.torn, made);
        if (made.size > 0) expect(faults()).toEqual([]);
      }
      for (const [name, expected] of made) expect(restored(name)).toEqual(expected);
      expect(fs.readdirSync(root)).not.toContain('drafts');
    }),
    { numRuns: 40 },
  );
});

/** What a power loss leaves at the end of files that were being written can be anything. */
async function beKilled(
  log: GrowingLog,
  life: number,
  torn: number,
  made: Map<string, Map<string, string>>,
): Promise<void> {
  try {
    made.set((await run(log, life)).name, log.restored());
    return;
  } catch (error) {
    if (!(error instanceof Killed)) throw error;
  }
  fs.mkdirSync(path.join(root, 'drafts'), { recursive: true });
  fs.writeFileSync(path.join(root, 'drafts', 'left'), 'half');
  const ledger = path.join(root, 'ledger');
  const segments = fs.existsSync(ledger) ? fs.readdirSync(ledger).sort() : [];
  const catalogue = path.join(root, 'files.sha256');
  const listed = fs.existsSync(catalogue) ? fs.readFileSync(catalogue, 'latin1') : '';
  const last = segments.filter((name) => !listed.includes(name)).at(-1);
  if (last !== undefined) fs.appendFileSync(path.join(ledger, last), randomBytes(torn));
  if (listed !== '') fs.appendFileSync(catalogue, `0a1b${'x'.repeat(torn)}`);
}

describe('[R-811] a run', () => {
  test('writes only what came since the last one', async () => {
    const log = new GrowingLog();
    log.append(5000);
    log.roll();
    log.append(300);
    const first = await run(log);
    expect([first.copied, first.there]).toEqual([1, 0]);
    const before = modified();
    log.append(200);
    const second = await run(log);
    expect([second.copied, second.there]).toEqual([0, 1]);
    // 200 of the segment, a line of the access log, and a manifest.
    expect(second.written.bytes).toBeLessThan(200 + 2000);
    const touched = [...modified()].filter(([file, time]) => before.get(file) !== time).map(([file]) => file);
    expect(touched.sort()).toEqual([
      'access-log/0001',
      'ledger/0000000000005001.segment',
      `manifests/${second.name}`,
    ]);
  });

  test('refuses another log, a directory with something else in it, and a log that went on differently', async () => {
    const log = new GrowingLog();
    log.append(300);
    await run(log);
    const other = { ...log.backedUp(), origin: 'log.example/other' };
    expect(() => new BackupWriter(root, other)).toThrow(NotThisBackup);
    const shorter = new GrowingLog();
    await expect(run(shorter)).rejects.toThrow(LogDiffers);
    const forked = new GrowingLog();
    forked.append(400);
    await expect(run(forked)).rejects.toThrow('does not begin with the 364 bytes that were backed up before');
    forked.roll();
    forked.append(400);
    await expect(run(forked)).rejects.toThrow(LogDiffers);
    expect(faults()).toEqual([]);
    root = path.join(scratch, 'foreign');
    fs.mkdirSync(root);
    fs.writeFileSync(path.join(root, 'thesis.txt'), 'all of it');
    await expect(run(log)).rejects.toThrow(`${root} holds thesis.txt, and no back-up of a log`);
    expect(fs.readdirSync(root)).toEqual(['thesis.txt']);
  });

  test('refuses a marker without end, and a lock that is a link or would be waited for', async () => {
    const log = new GrowingLog();
    log.append(300);
    await run(log);
    const lock = path.join(root, 'lock');
    fs.symlinkSync(path.join(scratch, 'lock of the collector'), lock);
    await expect(run(log)).rejects.toThrow(`lock in ${root} is no file of ours`);
    expect(fs.existsSync(path.join(scratch, 'lock of the collector'))).toBe(false);
    fs.rmSync(lock);
    fs.appendFileSync(path.join(root, 'backup.json'), ' '.repeat(20 << 20));
    expect(() => new BackupFiles(root)).toThrow(NotThisBackup);
  });

  test('does not write over what differs from what it once wrote', async () => {
    const log = new GrowingLog();
    log.append(300);
    log.roll();
    log.append(300);
    await run(log);
    const [whole = '', part = ''] = fs.readdirSync(path.join(root, 'ledger')).sort();
    const damage = (name: string, change: (bytes: Buffer) => Buffer) => {
      const file = path.join(root, 'ledger', name);
      const bytes = fs.readFileSync(file);
      const changed = change(Buffer.from(bytes));
      fs.writeFileSync(file, changed);
      return async () => {
        await expect(run(log)).rejects.toThrow(BackupDamaged);
        expect(fs.readFileSync(file).equals(changed)).toBe(true);
        fs.writeFileSync(file, bytes);
      };
    };
    await damage(whole, (bytes) => bytes.subarray(1))();
    await damage(part, (bytes) => bytes.subarray(0, -1))();
    await damage(part, (bytes) => bytes.fill(bytes.readUInt8(100) ^ 1, 100, 101))();
    await run(log);
    expect(faults()).toEqual([]);
  });

  test('never follows a link out of the back-up, which would have the log itself written over', async () => {
    const log = new GrowingLog();
    log.append(300);
    await run(log);
    const [ledger, live] = [path.join(root, 'ledger'), path.join(scratch, 'live')];
    fs.renameSync(ledger, live);
    fs.symlinkSync(live, ledger);
    const [segment = ''] = fs.readdirSync(live);
    // The live log is ahead of what was read of it.
    fs.appendFileSync(path.join(live, segment), 'acknowledged meanwhile');
    const before = filesBelow(live);
    log.append(20);
    await expect(run(log)).rejects.toThrow(/^ledger in the back-up is a symbolic link/);
    expect(filesBelow(live)).toEqual(before);
  });

  test('a check vouches for no bytes behind a link, be it of a directory or of a file', async () => {
    const log = new GrowingLog();
    log.append(300);
    await run(log);
    const ledger = path.join(root, 'ledger');
    const [segment = ''] = fs.readdirSync(ledger);
    for (const what of [ledger, path.join(ledger, segment)]) {
      const away = path.join(scratch, 'away');
      fs.renameSync(what, away);
      fs.symlinkSync(away, what);
      expect(faults().join()).toContain(
        `${path.relative(root, what)} in the back-up is a symbolic link, which leads out of it`,
      );
      fs.rmSync(what);
      fs.renameSync(away, what);
    }
    expect(faults()).toEqual([]);
  });

  test('copies a whole segment anew that was moved away, and finds when the log has another one by now', async () => {
    const log = new GrowingLog();
    log.append(300);
    log.roll();
    await run(log);
    const file = path.join(root, 'ledger', '0000000000000001.segment');
    const bytes = fs.readFileSync(file);
    fs.rmSync(file);
    expect((await run(log)).copied).toBe(1);
    expect(fs.readFileSync(file).equals(bytes)).toBe(true);
    fs.rmSync(file);
    log.segments[0]?.fill(1, 100, 120);
    await expect(run(log)).rejects.toThrow('is not the one that was backed up before');
    expect(fs.existsSync(file)).toBe(false);
  });

  test('keeps an access log that was begun anew beside the one before', async () => {
    const log = new GrowingLog();
    log.append(10);
    const first = await run(log);
    const expected = log.restored();
    log.accessLog = 'another\n';
    const second = await run(log);
    expect(second.accessLogBegunAnew).toBe(true);
    expect(restored(first.name)).toEqual(expected);
    expect(restored(second.name)).toEqual(log.restored());
    expect((await run(log)).accessLogBegunAnew).toBe(false);
  });

  test('refuses to go on from a manifest that is damaged, until it is moved away', async () => {
    const log = new GrowingLog();
    log.append(10);
    await run(log);
    log.append(10);
    const { name } = await run(log);
    fs.truncateSync(path.join(root, 'manifests', name), 100);
    await expect(run(log)).rejects.toThrow(`manifests/${name} is not as it was written`);
    fs.rmSync(path.join(root, 'manifests', name));
    expect(restored((await run(log)).name)).toEqual(log.restored());
  });
});

function modified(): Map<string, number> {
  return new Map(
    [...filesBelow(root).keys()].map((file) => [file, fs.statSync(path.join(root, file)).mtimeMs]),
  );
}

describe('[R-812] a back-up that has changed', () => {
  test('is found out by a check, whatever byte it is, and not laid out when it is needed', async () => {
    const log = new GrowingLog();
    log.append(350);
    log.roll();
    log.append(120);
    await run(log);
    log.append(10);
    log.accessLog = 'another\n';
    const { name, manifest } = await run(log);
    expect(faults()).toEqual([]);
    let found = 0;
    for (const file of filesBelow(root).keys()) {
      const full = path.join(root, file);
      const bytes = fs.readFileSync(full);
      for (let at = 0; at < bytes.length; at++) {
        const changed = Buffer.from(bytes);
        changed.writeUInt8(changed.readUInt8(at) ^ (1 << (at % 8)), at);
        fs.writeFileSync(full, changed);
        expect(isFoundOut(), `${file}, byte ${at}`).toBe(true);
        found++;
      }
      fs.writeFileSync(full, bytes);
    }
    expect(found).toBeGreaterThan(3000);
    expect(faults()).toEqual([]);
    fs.truncateSync(path.join(root, manifest.segment.file), manifest.segment.bytes - 1);
    expect(() => restored(name)).toThrow(BackupDamaged);
    expect(fs.existsSync(path.join(scratch, `restored-${targets - 1}`))).toBe(false);
  });

  test('is found out by a check when only an older one can no longer be restored', async () => {
    const log = new GrowingLog();
    log.append(350);
    await run(log);
    log.append(10);
    const { name, manifest } = await run(log);
    const file = path.join(root, manifest.segment.file);
    const bytes = fs.readFileSync(file).fill(0, 100, 110);
    fs.writeFileSync(file, bytes);
    const fitting = { ...manifest, segment: { ...manifest.segment, sha256: hash('sha256', bytes, 'hex') } };
    fs.writeFileSync(path.join(root, 'manifests', name), formatManifest(fitting));
    expect(faults()).toEqual([expect.stringMatching(/is not as it was written, before byte 414$/)]);
  });

  test('is found out by a check that takes its manifests one by one, and every file is looked at', async () => {
    const log = new GrowingLog();
    for (let i = 0; i < 5; i++) {
      log.append(100);
      if (i === 2) log.roll();
      await run(log);
    }
    const found = (page?: number) => checkBackup(new BackupFiles(root), () => undefined, page);
    for (const page of [1, 2, 5]) {
      const { backups, oldest, newest, faults: none } = found(page);
      expect([backups, none, newest?.events]).toEqual([5, [], found().newest?.events]);
      expect(oldest).toEqual(found().oldest);
    }
    for (const [file, bytes] of filesBelow(root)) {
      if (file === 'lock' || bytes === '') continue;
      const full = path.join(root, file);
      const whole = fs.readFileSync(full);
      fs.writeFileSync(full, Buffer.concat([Buffer.of((whole[0] ?? 0) ^ 1), whole.subarray(1)]));
      const told = [1, 2, undefined].map((page) => {
        try {
          return found(page).faults.length > 0;
        } catch (error) {
          return error instanceof NotThisBackup;
        }
      });
      expect([file, ...told]).toEqual([file, true, true, true]);
      fs.writeFileSync(full, whole);
    }
  });

  test('[R-811] has a list of which no more is read than a run can have added', async () => {
    const log = new GrowingLog();
    log.append(350);
    await run(log);
    const list = path.join(root, 'files.sha256');
    const { size } = fs.statSync(list);
    // Sparse: more than can be a string.
    fs.truncateSync(list, 3 * 2 ** 30);
    log.append(10);
    await run(log);
    expect(fs.statSync(list).size).toBe(size);
    expect(faults()).toEqual([]);
  });

  test('is found out by a check when a file or a line is missing, or is no file', async () => {
    const log = new GrowingLog();
    log.append(350);
    log.roll();
    await run(log);
    for (const file of filesBelow(root).keys()) {
      const full = path.join(root, file);
      const bytes = fs.readFileSync(full);
      fs.rmSync(full);
      if (!file.startsWith('manifests/')) expect(isFoundOut(), file).toBe(true);
      fs.mkdirSync(full);
      expect(isFoundOut(), file).toBe(true);
      fs.rmdirSync(full);
      fs.writeFileSync(full, bytes);
    }
  });
});

function isFoundOut(): boolean {
  try {
    return faults().length > 0;
  } catch (error) {
    return error instanceof NotThisBackup || error instanceof BackupDamaged;
  }
}

describe('[R-812] laying out', () => {
  test('takes a new or an empty directory and no other', async () => {
    const log = new GrowingLog();
    log.append(350);
    await run(log);
    const files = new BackupFiles(root);
    const [name] = files.manifestNames();
    if (name === undefined) throw new Error('no back-up');
    const target = path.join(scratch, 'target');
    fs.mkdirSync(path.join(target, 'lost+found'), { recursive: true });
    layOut(files, files.manifest(name), target, () => undefined);
    expect(filesBelow(target)).toEqual(log.restored());
    expect(() => layOut(files, files.manifest(name), target, () => undefined)).toThrow(NotEmpty);
    expect(filesBelow(target)).toEqual(log.restored());
  });

  test('leaves an empty directory empty when a file of the back-up has changed', async () => {
    const log = new GrowingLog();
    log.append(350);
    await run(log);
    const files = new BackupFiles(root);
    const [name] = files.manifestNames();
    if (name === undefined) throw new Error('no back-up');
    const target = path.join(scratch, 'target');
    fs.mkdirSync(target);
    fs.appendFileSync(path.join(root, 'checkpoints', 'origin.vkey'), 'x');
    expect(() => layOut(files, files.manifest(name), target, () => undefined)).toThrow(
      'checkpoints/origin.vkey in the back-up is not as it was written',
    );
    expect(fs.readdirSync(target)).toEqual([]);
  });
});
