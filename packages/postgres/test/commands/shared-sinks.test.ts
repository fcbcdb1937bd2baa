/** Several collectors on one log in a database, with one checkpoint sink. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  keyFrom,
  outcomeEvent,
  postEvent,
  type Running,
  start,
} from '../../../collector/test/running/collector-process.js';
import { scratch } from '../../../collector/test/running/scratch.js';
import { PostgresServer, signed as signedIn } from '../running/postgres-server.js';
import { succeeds } from './shared-log.js';

const CHECKPOINTS = 40;

/** On return the newest checkpoint covers this many events. */
const signed = (server: PostgresServer, entries: number) => signedIn(server, 'collector', entries);

/** What a collector has logged about its sinks. */
function sinkLines({ output }: Running): string[] {
  return output.stderr.split('\n').filter((line) => line.includes('checkpoint sink'));
}

test.each(['dir', 'file'])(
  '[R-906] three collectors on one %s: sink ring no alarm, and one on an older copy of the log does',
  async (form) => {
    const server = await PostgresServer.start();
    onTestFinished(() => server.remove());
    await succeeds('store', 'migrate', '--store', server.url(), '--durability', 'local');
    const worm = scratch();
    const sink = form === 'dir' ? worm : path.join(worm, 'checkpoints');
    const signing = ['--signing-keys', scratch()];
    const serve = (store: string) =>
      start(scratch(), [
        ...['--store', store, ...signing, '--checkpoint-sink', `${form}:${sink}`],
        ...['--checkpoint-interval-ms', '100'],
      ]);
    const first = await serve(server.url());
    const key = await keyFrom(first);
    const collectors = [first, await serve(server.url()), await serve(server.url())];
    for (let i = 1; i <= CHECKPOINTS; i++) {
      const to = collectors[i % 3] as Running;
      expect((await postEvent(to, key, outcomeEvent())).status).toBe(201);
      await signed(server, i);
      // Each start compares what the sink holds, which is often more than the collector has read by then.
      if (i % 10 !== 0) continue;
      expect(sinkLines(to)).toEqual([]);
      await to.stop();
      collectors[i % 3] = await serve(server.url());
    }
    for (const each of collectors) {
      expect(await each.stop()).toBe(0);
      expect(sinkLines(each)).toEqual([]);
    }
    const kept = fs.readdirSync(worm).map((name) => fs.readFileSync(path.join(worm, name), 'utf8'));
    const sizes = [...kept.join('').matchAll(/^\d+$/gm)].map(([size]) => Number(size));
    expect(Math.max(...sizes)).toBeGreaterThanOrEqual(CHECKPOINTS);

    await server.query('CREATE DATABASE older TEMPLATE postgres');
    const ahead = await serve(server.url());
    expect((await postEvent(ahead, key, outcomeEvent())).status).toBe(201);
    await signed(server, CHECKPOINTS + 1);
    expect(await ahead.stop()).toBe(0);
    await succeeds('store', 'check', '--store', server.url('older'), '--adopt');
    const behind = await serve(server.url('older'));
    await expect.poll(() => sinkLines(behind)).toEqual([expect.stringContaining('contradicts this ledger')]);
    expect(await behind.stop()).toBe(0);
  },
);
