/** A full disk with blocks below 4 KiB, on which a write into what SQLite maps into memory may end a process. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import {
  ENVIRONMENT,
  keyFrom,
  MAIN,
  limits,
  outcomeEvent,
  postEvent,
  type Running,
  start,
  temporaryDirectory,
} from '../../running/collector-process.js';
import { canMakeSmallBlocks, SmallBlocks } from '../../running/small-blocks.js';

const probe = temporaryDirectory();
const here = canMakeSmallBlocks(probe);
fs.rmSync(probe, { recursive: true });
/** Too little for the index of one file, for that of two, and enough for both. */
const FREE_KIBIBYTES = [8, 20, 30, 60];

async function smallDisk(): Promise<SmallBlocks> {
  const scratch = temporaryDirectory();
  const disk = await SmallBlocks.make(scratch);
  onTestFinished(() => {
    disk.remove();
    fs.rmSync(scratch, { recursive: true, force: true });
  });
  return disk;
}

function collectorOn(disk: SmallBlocks): Promise<Running> {
  // Without payload keys, whose files would take some of what is left.
  const args = [...limits({ 'segment-bytes': '2MiB' }), '--encryption', 'off'];
  return start(`${disk.directory}/data`, args, [], {}, disk.prefix);
}

/** Runs a command to its end. The name of the signal, in place of the exit code, when one ended it. */
async function run(disk: SmallBlocks, args: readonly string[]) {
  const data = ['--data-dir', `${disk.directory}/data`];
  const [command = '', ...rest] = [...disk.prefix, process.execPath, MAIN, ...args, ...data];
  const child = spawn(command, rest, { env: ENVIRONMENT });
  let printed = '';
  child.stdout.on('data', (text) => (printed += String(text)));
  child.stderr.on('data', (text) => (printed += String(text)));
  const ended = await new Promise((resolve) => child.on('close', (code, signal) => resolve(signal ?? code)));
  return { ended, printed };
}

const filler = 'x'.repeat(200_000);
const NO_ROOM = /no space left on device/;

test.skipIf(!here)(
  '[R-604] a command that opens keys.db after a crash needs room for its index, or says so',
  async () => {
    const disk = await smallDisk();
    const collector = await collectorOn(disk);
    await keyFrom(collector);
    await collector.kill();
    for (const free of FREE_KIBIBYTES) {
      // As a copy of the directory has it.
      disk.run('rm -f "$1"/data/keys.db-shm "$1"/data/catalogue/*-shm');
      disk.leave(free);
      const listed = await run(disk, ['keys', 'list']);
      expect([free, listed.ended], listed.printed).toEqual([free, 0]);
      const examined = await run(disk, ['doctor']);
      expect([free, examined.ended], examined.printed).toEqual([free, 0]);
      const made = await run(disk, ['keys', 'create', '--permissions', 'all']);
      expect([free, made.ended], made.printed).toEqual([free, 1]);
      expect(made.printed).toMatch(NO_ROOM);
      const served = await run(disk, ['serve', '--port', '0']);
      expect([free, served.ended], served.printed).toEqual([free, 1]);
      expect(served.printed).toMatch(NO_ROOM);
    }
  },
);

test.skipIf(!here)('[R-604] a collector continues while its disk fills, and stops in order', async () => {
  const disk = await smallDisk();
  const first = await collectorOn(disk);
  const key = await keyFrom(first);
  await first.stop();
  for (const free of FREE_KIBIBYTES) {
    disk.run('rm -f "$1/ballast"');
    const collector = await collectorOn(disk);
    onTestFinished(() => collector.kill());
    disk.leave(free);
    // Until its disk is full to the last byte, also for the catalogue, which follows.
    await expect
      .poll(async () => (await postEvent(collector, key, outcomeEvent({ filler }))).status)
      .toBe(503);
    const made = await run(disk, ['keys', 'create', '--permissions', 'all']);
    expect([0, 1], made.printed).toContain(made.ended);
    const examined = await run(disk, ['doctor']);
    expect([free, examined.ended], examined.printed).toEqual([free, 0]);
    expect(await collector.stop(), collector.output.stderr).toBe(0);
  }
});

test.skipIf(!here)('[R-604] SQLite keeps its locks on an index whose blocks were allocated', async () => {
  const disk = await smallDisk();
  const collector = await collectorOn(disk);
  const key = await keyFrom(collector);
  expect((await postEvent(collector, key, outcomeEvent())).status).toBe(201);
  for (const file of ['keys.db-shm', 'catalogue/catalogue.sqlite-shm']) {
    // Byte 128 says that the index is in use: without it the next process cuts the index under the collector's map.
    await expect
      .poll(() => {
        const inode = disk.run(`stat -c %i "$1/data/${file}" 2>/dev/null || true`).trim();
        const locks = fs.readFileSync('/proc/locks', 'utf8').split('\n');
        return locks.some((line) => inode !== '' && line.endsWith(`:${inode} 128 128`));
      })
      .toBe(true);
  }
  expect(await collector.stop()).toBe(0);
});
