/** `collector verify` finds no fault where there is none: beside a collector, and after a crash. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { random, runs } from '../../../../test/property-runs.js';
import { verifyLog, type Verification } from '../../src/commands/verify/verification.js';
import { nodeFiles } from '../../src/files.js';
import { createKey, limits, run, start } from '../running/collector-process.js';
import { Load } from '../running/load.js';
import { scratch } from '../running/scratch.js';

/** Small segments and many checkpoints, so that each kind of step is often under way. */
const BUSY = [
  '--max-body-bytes',
  '512KiB',
  ...limits({ 'segment-bytes': '1MiB' }),
  '--checkpoint-interval-ms',
  '100',
];

function verify(dataDir: string, against: readonly string[]): Promise<Verification> {
  return verifyLog({ dataDir, files: nodeFiles, against, keys: [], onProgress: () => undefined });
}

function holds(file: string): boolean {
  return (fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

test('[R-907] after each kill under load the log is found intact, also against what its sinks hold', async () => {
  const [dataDir, sinks] = [scratch(), scratch()];
  const against = [path.join(sinks, 'worm'), path.join(sinks, 'appended')];
  const [worm = '', appended = ''] = against;
  fs.mkdirSync(worm);
  const key = await createKey(dataDir);
  const load = new Load(key, { connections: 16, repeats: 0.1, largest: 300_000 });
  let checked = 0;
  // A busy machine needs more rounds for as many events.
  for (let round = 1; round <= runs(300, 12) || load.acknowledged.size <= 300 || checked <= 30; round++) {
    const collector = await start(dataDir, [...BUSY, '--checkpoint-sink', `dir:${worm},file:${appended}`]);
    const senders = load.run(collector.port, () => false);
    await sleep(random.below(250));
    await collector.kill();
    await senders;
    // A collector that was killed early has sent no checkpoint yet, or has only made the file.
    const given = [
      fs.readdirSync(worm).some((name) => name.endsWith('.checkpoint') && holds(path.join(worm, name))),
      holds(appended),
    ];
    const there = against.filter((_, i) => given[i]);
    const { findings, events, checkpoints } = await verify(dataDir, there);
    expect(
      findings.listed.filter(({ kind }) => kind !== 'note'),
      `round ${round}`,
    ).toEqual([]);
    expect(events).toBeGreaterThanOrEqual(load.acknowledged.size);
    checked = checkpoints.checked;
    if (round % 6 > 0) continue;
    const args = there.flatMap((each) => ['--against', each]);
    const { code, stdout } = await run(['verify', '--data-dir', dataDir, ...args]);
    expect([code, stdout.slice(0, 6)], stdout).toEqual([0, 'INTACT']);
  }
});

test('[R-907] beside a collector under load the log is found intact each time', async () => {
  const [dataDir, sinks] = [scratch(), scratch()];
  const appended = path.join(sinks, 'appended');
  const key = await createKey(dataDir);
  const collector = await start(dataDir, [...BUSY, '--checkpoint-sink', `file:${appended}`]);
  onTestFinished(() => collector.kill());
  const load = new Load(key, { connections: 16, largest: 300_000 });
  let done = false;
  const senders = load.run(collector.port, () => done);
  while (!holds(appended) || load.acknowledged.size < 100) await sleep(50);
  for (let round = 1; round <= runs(50, 5); round++) {
    const { code, stdout, stderr } = await run([
      ...['verify', '--json', '--data-dir', dataDir, '--against', appended],
    ]);
    expect([code, stderr], stdout).toEqual([0, '']);
    expect(JSON.parse(stdout)).toMatchObject({
      intact: true,
      origin: expect.stringMatching(/^collector\//) as string,
    });
  }
  done = true;
  await senders;
  expect(await collector.stop()).toBe(0);
  const { findings, events, unsigned } = await verify(dataDir, [appended]);
  expect(findings.listed).toEqual([]);
  expect([events, unsigned]).toEqual([load.acknowledged.size, 0]);
});
