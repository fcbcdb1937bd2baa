import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { crashFlush } from '../../src/spool/crash-flush.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { temporaryDirectory } from '../running/hurried-client.js';

test('[R-851] crash-flushed events in several segments are returned once, in order', async () => {
  const options = { directory: temporaryDirectory(), durability: 'fsync' as const, key: randomBytes(32) };
  // More than a segment takes.
  const bodies = Array.from({ length: 20 }, (_, at) => Buffer.alloc(1 << 20, at));
  const events = bodies.map((body) => ({ kind: 'outcome' as const, body, capturedAt: Date.now() }));
  expect(crashFlush(options, events)).toEqual({ kept: 20, error: undefined });
  const [series = ''] = fs.readdirSync(options.directory);
  expect(fs.readdirSync(path.join(options.directory, series))).toHaveLength(2);
  const troubles: string[] = [];
  const spool = await openSpool({ ...options, onTrouble: (what) => troubles.push(what) });
  expect(spool.state.waiting).toBe(20);
  const taken: Uint8Array[] = [];
  while (taken.length < 20) taken.push(...(await spool.take(20, 1 << 30)).map(({ body }) => body));
  expect(taken.map((body) => body[0])).toEqual(bodies.map((body) => body[0]));
  await spool.close();
  expect(troubles).toEqual([]);
});

test('[R-852] a crash flush keeps the events that fit, and reports that the spool is full', () => {
  const options = { directory: temporaryDirectory(), durability: 'os' as const, maxBytes: 17 << 20 };
  const event = { kind: 'outcome' as const, body: Buffer.alloc(1 << 20), capturedAt: Date.now() };
  const { kept, error } = crashFlush(
    options,
    Array.from({ length: 20 }, () => event),
  );
  expect(kept).toBe(15);
  expect(error).toMatchObject({ name: 'SpoolFull' });
  expect(crashFlush(options, [event, event])).toMatchObject({ kept: 0 });
});
