import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratchDirectory } from '../access/scratch-keys.js';
import { createKey, keyFrom, outcomeEvent, postEvent, start } from '../running/collector-process.js';
import { fillSigned, loggedEvent, ORIGIN } from './signed-directory.js';

test('[R-906] a sink that contradicts the ledger is an error in the log, and one that holds another log a warning', async () => {
  const [dataDir, worm] = [scratchDirectory('data'), scratchDirectory('worm')];
  fs.mkdirSync(worm);
  const logged = async (of: string): Promise<Record<string, unknown>[]> => {
    const serving = await start(of, ['--checkpoint-sink', `dir:${worm}`]);
    await expect.poll(() => fs.existsSync(path.join(of, 'checkpoints', 'sinks.json'))).toBe(true);
    await expect
      .poll(() => fs.readFileSync(path.join(of, 'checkpoints', 'sinks.json'), 'utf8'))
      .toContain(worm);
    expect(await serving.stop()).toBe(0);
    const lines = serving.output.stderr.trimEnd().split('\n');
    return lines
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ level }) => level !== 'info');
  };
  await createKey(dataDir);
  // Two directories that begin as copies, and then differ.
  await fillSigned(dataDir, []);
  const restored = scratchDirectory('restored');
  fs.cpSync(dataDir, restored, { recursive: true });
  fs.chmodSync(restored, 0o700);
  await fillSigned(dataDir, [[loggedEvent('lost')]]);
  expect(await logged(dataDir)).toEqual([]);
  expect(await logged(restored)).toEqual([
    expect.objectContaining({
      ...{
        level: 'error',
        sink: `dir:${worm}`,
        msg: expect.stringMatching(
          /^a checkpoint sink contradicts this ledger;.*CollectorSinkForked/,
        ) as string,
      },
      reason: expect.stringContaining('restored from an older back-up') as string,
    }),
  ]);
  expect(await logged(scratchDirectory('other'))).toEqual([
    expect.objectContaining({
      ...{ level: 'warn', sink: `dir:${worm}`, msg: 'a checkpoint sink is not accepting checkpoints' },
      reason: `holds checkpoints of the log ${ORIGIN}: give each log a place of its own`,
    }),
  ]);
});

test('[R-906] a sink that hangs delays no event, and ends with a collector that is killed', async () => {
  const directory = scratchDirectory('hanging');
  fs.mkdirSync(directory);
  const program = path.join(directory, 'sink.sh');
  const pidFile = path.join(directory, 'pid');
  // Its own child hangs too.
  fs.writeFileSync(program, `#!/bin/sh\necho $$ > ${pidFile}\necho held 0\nsleep 1000 & wait\n`, {
    mode: 0o700,
  });
  const dataDir = scratchDirectory('data');
  const serving = await start(dataDir, ['--checkpoint-sink', `command:${program}`]);
  await expect.poll(() => fs.existsSync(pidFile) && fs.readFileSync(pidFile, 'utf8')).toMatch(/\n/);
  const group = -Number(fs.readFileSync(pidFile, 'utf8'));
  const key = await keyFrom(serving);
  for (let i = 0; i < 20; i++) expect((await postEvent(serving, key, outcomeEvent())).status).toBe(201);
  await serving.kill();
  await expect.poll(() => isThere(group)).toBe(false);
});

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
