import fs from 'node:fs';
import { expect, test } from 'vitest';
import { random, runs } from '../../../../test/property-runs.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { drain, nameOf, scratchDirectory, startProcess } from './spool-processes.js';

const KILLS = runs(250, 10);

test.each(['os', 'fsync'] as const)(
  '[R-851] after random kills, every event acknowledged with %s is done or still there',
  async (durability) => {
    const directory = scratchDirectory();
    const [acknowledged, done] = [new Set<string>(), new Set<string>()];
    for (let round = 0; round < KILLS; round++) {
      const process = startProcess({
        directory,
        durability,
        prefix: `r${round}`,
        segmentBytes: 200_000,
        do: 'all',
      });
      await process.said('+');
      await new Promise((resolve) => setTimeout(resolve, random.below(60)));
      process.child.kill('SIGKILL');
      await process.ended;
      for (const line of process.lines) {
        if (line.startsWith('+')) acknowledged.add(line.slice(1));
        if (line.startsWith('-')) done.add(line.slice(1));
        expect(line).not.toMatch(/^[!?](?!.*not a frame)/);
      }
    }
    const { names } = await drain(directory);
    const left = new Set(names);
    expect(acknowledged.size).toBeGreaterThanOrEqual(KILLS);
    expect(done.size).toBeGreaterThan(0);
    expect([...acknowledged].filter((name) => !left.has(name) && !done.has(name))).toEqual([]);
    expect(left.size, 'nothing is given out twice').toBe(names.length);
    expect(fs.readdirSync(directory).filter((name) => name !== 'damaged')).toEqual([]);
  },
);

test.each([
  ['in the same turn of the event loop', { do: 'exit' }, 0],
  ['while they are being written', { do: 'exit', later: true }, 0],
  ['by an uncaught exception', { do: 'throw' }, 1],
] as const)('[R-851] a process that ends %s writes its events first', async (_when, wish, code) => {
  for (const durability of ['os', 'fsync'] as const) {
    const directory = scratchDirectory();
    // Enough for several groups and segments.
    const process = startProcess({
      directory,
      durability,
      prefix: 'e',
      count: 3000,
      segmentBytes: 500_000,
      ...wish,
    });
    expect(await process.ended).toBe(code);
    expect((await drain(directory)).names).toHaveLength(3000);
  }
});

test('[R-854] a third process gets the events that two processes left in one directory', async () => {
  const directory = scratchDirectory();
  const start = (prefix: string) =>
    startProcess({ directory, durability: 'os', prefix, count: 300, do: 'append and wait' });
  const both = [start('a'), start('b')];
  await Promise.all(both.map((process) => process.said('done')));
  const spool = await openSpool({ directory, durability: 'os' });
  expect(spool.state.waiting, 'what the living hold is theirs').toBe(0);
  await spool.close();
  for (const { child } of both) child.kill('SIGKILL');
  await Promise.all(both.map(({ ended }) => ended));
  const { names } = await drain(directory);
  const sent = (prefix: string) => Array.from({ length: 300 }, (_, index) => `${prefix}-${index + 1}`);
  expect(names.filter((name) => name.startsWith('a'))).toEqual(sent('a'));
  expect(names.filter((name) => name.startsWith('b'))).toEqual(sent('b'));
  expect(names).toHaveLength(600);
});

test('[R-854] spools that open at once share the events of a dead process', async () => {
  const directory = scratchDirectory();
  const dead = startProcess({
    ...{ directory, durability: 'os', prefix: 'd', count: 400, segmentBytes: 20_000 },
    do: 'append and wait',
  });
  await dead.said('done');
  dead.child.kill('SIGKILL');
  await dead.ended;
  const spools = await Promise.all([1, 2, 3].map(() => openSpool({ directory, durability: 'os' })));
  expect(spools.reduce((sum, spool) => sum + spool.state.waiting, 0)).toBe(400);
  const names: string[] = [];
  for (const spool of spools) {
    while (spool.state.waiting > 0) {
      for (const event of await spool.take(50, 1 << 20)) {
        names.push(nameOf(event));
        spool.done(event);
      }
    }
  }
  for (const spool of spools) {
    // A segment of another spool is removed once it has been read to its end, which a further take does.
    await spool.take(1, 1, AbortSignal.timeout(20));
    await spool.close();
  }
  expect(new Set(names).size).toBe(400);
  expect(names).toHaveLength(400);
  expect(fs.readdirSync(directory)).toEqual([]);
});

test('[R-854] events of an ended worker of node:cluster are adopted while its primary runs', async () => {
  const directory = scratchDirectory();
  const wish = { directory, durability: 'os', prefix: 'c', count: 10, do: 'append and wait', cluster: true };
  const primary = startProcess(wish);
  await primary.said('worker ended');
  expect((await drain(directory)).names).toHaveLength(10);
  primary.child.kill('SIGKILL');
  await primary.ended;
});
