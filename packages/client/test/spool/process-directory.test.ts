import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { holdLock, lockState, nodeFiles, type SpoolFiles } from '../../src/spool/files.js';
import { Neighbours, ProcessDirectory } from '../../src/spool/process-directory.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { SpoolUnwritable } from '../../src/spool/spool.js';
import { MemoryDisk } from './memory-disk.js';
import { scratchDirectory } from './spool-processes.js';
import { textOf } from './spooled-segments.js';

const ROOT = '/spool';
const event = Buffer.from('{"an":"event"}');

describe('the lock', () => {
  const lockIn = (...deep: string[]) => {
    const directory = path.join(scratchDirectory(), ...deep);
    fs.mkdirSync(directory, { recursive: true });
    return path.join(directory, 'lock');
  };

  test('is held until it is released', async () => {
    const file = lockIn();
    expect(await lockState(file)).toBe('missing');
    const lock = await holdLock(file);
    expect(await lockState(file)).toBe('held');
    await lock.release();
    expect(await lockState(file)).not.toBe('held');
  });

  test('stays held when its directory is renamed', async () => {
    const file = lockIn('a');
    const lock = await holdLock(file);
    fs.renameSync(path.dirname(file), path.join(file, '../../b'));
    expect(await lockState(path.join(file, '../../b/lock'))).toBe('held');
    await lock.release();
  });

  test.runIf(process.platform === 'linux')('works below a path of any length', async () => {
    const file = lockIn(...Array.from({ length: 10 }, () => 'd'.repeat(50)));
    const open = fs.readdirSync('/proc/self/fd').length;
    const lock = await holdLock(file);
    expect(await lockState(file)).toBe('held');
    await lock.release();
    expect(await lockState(file)).not.toBe('held');
    expect(fs.readdirSync('/proc/self/fd')).toHaveLength(open);
  });
});

describe('a neighbour', () => {
  const neighboursOf = (files: SpoolFiles, patienceMs?: number) =>
    new Neighbours(files, ROOT, () => undefined, patienceMs);

  async function onDisk(change: Partial<SpoolFiles> = {}) {
    const disk = new MemoryDisk();
    disk.directories.add(ROOT);
    const process = disk.process();
    const home = await ProcessDirectory.create(Object.assign(process.files, change), ROOT);
    return { disk, process, home, others: disk.process().files };
  }

  test('[R-854] is abandoned once it has ended or released its directory, and not before', async () => {
    const { home, process, others } = await onDisk();
    expect(await neighboursOf(others, 0).abandoned()).toEqual([]);
    process.end();
    expect(await neighboursOf(others).abandoned()).toEqual([home.path]);
    const closed = await onDisk();
    await closed.others.makeDirectory(closed.home.path);
    closed.disk.put(path.join(closed.home.path, 'something'), Buffer.from('left'));
    await closed.home.release();
    expect(await neighboursOf(closed.others).abandoned()).toEqual([closed.home.path]);
  });

  test.each([
    ['of another host', { host: 'another-host' }, false],
    ['whose lock was deleted', {}, true],
  ])('[R-854] %s is abandoned after three minutes without a sign of life', async (_who, change, swept) => {
    const { disk, home, process, others } = await onDisk(change);
    if (swept) await others.remove(path.join(home.path, 'lock'));
    else process.end();
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const neighbours = neighboursOf(others);
    const look = async (seconds: number) => {
      vi.advanceTimersByTime(seconds * 1000);
      return (await neighbours.abandoned()).length;
    };
    expect(await look(0)).toBe(0);
    expect(await look(170)).toBe(0);
    // A sign of life.
    process.ended = false;
    await home.touch();
    expect(await look(11)).toBe(0);
    expect(await look(179)).toBe(0);
    expect(await look(2)).toBe(1);
    expect(disk.files(home.path)).not.toEqual([]);
  });

  test('[R-854] that ended while it made its directory leaves no draft forever', async () => {
    const { disk, home, others } = await onDisk();
    const draft = path.join(ROOT, 'new-0123');
    disk.directories.add(draft);
    disk.put(path.join(draft, 'lock'), Buffer.alloc(0));
    await neighboursOf(others).abandoned();
    expect(disk.directories.has(draft)).toBe(true);
    await neighboursOf(others, 0).abandoned();
    expect(disk.directories.has(draft)).toBe(false);
    expect(disk.directories.has(home.path)).toBe(true);
  });
});

describe('a spool that starts', () => {
  test('[R-854] is not blocked by a directory that cannot be read', async () => {
    const disk = new MemoryDisk();
    const dead = disk.process();
    const left = await openSpool({ directory: ROOT, durability: 'os', files: dead.files });
    await left.append('outcome', event);
    dead.end();
    const process = disk.process();
    process.fate = (operation) => (operation === 'lockState' ? 'before' : undefined);
    const troubles: string[] = [];
    const onTrouble = (what: string) => troubles.push(what);
    const spool = await openSpool({ directory: ROOT, durability: 'os', files: process.files, onTrouble });
    expect(spool.state.waiting).toBe(0);
    expect(troubles).toEqual([expect.stringMatching(/cannot be read/)]);
    await spool.append('outcome', event);
    await spool.close();
  });
});

describe('a spool that runs', () => {
  /** The spool of a process, and that of another one, which has an event. No time passes by itself. */
  async function besideAnother() {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const disk = new MemoryDisk();
    const dying = disk.process();
    const left = await openSpool({ directory: ROOT, durability: 'os', files: dying.files });
    await left.append('outcome', event);
    const spool = await openSpool({ directory: ROOT, durability: 'os', files: disk.process().files });
    return { dying, left, spool };
  }

  test('[R-854] returns adopted events while it waits for its own', async () => {
    const { dying, spool } = await besideAnother();
    await spool.append('outcome', Buffer.from('own'));
    expect((await spool.take(9, 1000)).map(textOf)).toEqual(['own']);
    const taken = spool.take(1, 1000);
    dying.end();
    await vi.advanceTimersByTimeAsync(10_001);
    expect((await taken).map(textOf)).toEqual([event.toString()]);
    await spool.append('outcome', Buffer.from('own too'));
    expect((await spool.take(9, 1000)).map(textOf)).toEqual(['own too']);
    await spool.close();
  });

  test('[R-854] looks every ten seconds for events that others have left', async () => {
    const { dying, left, spool } = await besideAnother();
    const taken = spool.take(1, 1000);
    dying.end();
    await left.close();
    await vi.advanceTimersByTimeAsync(10_001);
    expect((await taken).map(textOf)).toEqual([event.toString()]);
    await spool.close();
  });

  test.each(['at the next write', 'at the next sign of life'])(
    '[R-854] whose directory was removed begins another one with one warning, %s',
    async (when) => {
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
      onTestFinished(() => void vi.useRealTimers());
      const directory = scratchDirectory();
      const troubles: string[] = [];
      const onTrouble = (what: string) => troubles.push(what);
      const spool = await openSpool({ directory, durability: 'os', onTrouble });
      await spool.append('outcome', event);
      const [part = ''] = fs.readdirSync(directory);
      fs.rmSync(path.join(directory, part), { recursive: true });
      if (when !== 'at the next write') {
        vi.advanceTimersByTime(10_001);
        await expect.poll(() => troubles, { timeout: 120_000 }).toHaveLength(1);
      }
      await spool.append('outcome', Buffer.from('later'));
      await spool.append('outcome', Buffer.from('later still'));
      expect(troubles).toHaveLength(1);
      await spool.close();
      const next = await openSpool({ directory, durability: 'os' });
      expect((await next.take(9, 1e6)).map(textOf)).toEqual(['later', 'later still']);
      await next.close();
    },
  );
});

describe('the directory', () => {
  const open = (directory: string) => openSpool({ directory, durability: 'os' });

  test('is open to its owner alone, and so is all in it', async () => {
    const directory = scratchDirectory();
    const before = process.umask(0);
    const spool = await open(directory).finally(() => process.umask(before));
    await spool.append('outcome', event);
    const [taken] = await spool.take(1, 1000);
    if (taken) await spool.quarantine(taken, { status: 400, at: '2026-01-01T00:00:00Z' });
    await spool.append('outcome', event);
    const modes = fs
      .readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isSocket())
      .map((entry) => fs.statSync(path.join(entry.parentPath, entry.name)).mode & 0o777);
    expect(new Set(modes)).toEqual(new Set([0o700, 0o600]));
    expect(fs.statSync(directory).mode & 0o777).toBe(0o700);
    await spool.close();
  });

  test.each([0o777, 0o1777, 0o770])('is refused when others can write to it (mode %o)', async (mode) => {
    const directory = scratchDirectory();
    fs.mkdirSync(directory);
    fs.chmodSync(directory, mode);
    await expect(open(directory)).rejects.toThrow(SpoolUnwritable);
    expect(fs.readdirSync(directory)).toEqual([]);
  });

  test.runIf(process.geteuid?.() === 0)('is refused when it belongs to someone else', async () => {
    const directory = scratchDirectory();
    fs.mkdirSync(directory, { mode: 0o700 });
    fs.chownSync(directory, 12_345, 12_345);
    await expect(open(directory)).rejects.toThrow(SpoolUnwritable);
  });

  test('is refused when it cannot be made, or nothing can be made in it', async () => {
    const directory = scratchDirectory();
    fs.writeFileSync(directory, 'a file');
    await expect(open(directory)).rejects.toThrow(SpoolUnwritable);
    await expect(open(path.join(directory, 'below'))).rejects.toThrow(SpoolUnwritable);
    const readOnly: SpoolFiles = {
      ...nodeFiles,
      holdLock: () => Promise.reject(new Error('EROFS: read-only file system')),
    };
    const files = openSpool({ directory: `${directory}.2`, durability: 'os', files: readOnly });
    await expect(files).rejects.toThrow(SpoolUnwritable);
    expect(fs.readdirSync(`${directory}.2`)).toEqual([]);
  });
});
