import { expect, test, vi } from 'vitest';
import { Capture } from '../src/capture.js';
import { EventMaker } from '../src/event.js';
import type { RefusedCapture } from '../src/listeners.js';
import { Run } from '../src/run.js';
import { DiskSpool, openSpool } from '../src/spool/disk-spool.js';
import { type Spool, SpoolFull } from '../src/spool/spool.js';
import { fakeCollector } from './running/fake-collector.js';
import { hurriedClient, temporaryDirectory } from './running/hurried-client.js';

test('[R-861] events refused together each reject, and are reported and counted', async () => {
  const spool = await openSpool({ directory: undefined, durability: 'memory' });
  let refuse: (error: Error) => void = () => undefined;
  const together = new Promise<'durable'>((_resolve, reject) => (refuse = reject));
  spool.append = () => together;
  const told: RefusedCapture[] = [];
  const capture = new Capture({
    ...{ maker: new EventMaker({}, 'minimum'), sampler: undefined, store: undefined },
    ...{ spool: Promise.resolve(spool), onRefused: (refused) => void told.push(refused) },
    ...{ writeAtEnd: () => ({ kept: 0, error: undefined }), onTrouble: () => undefined },
  });
  await Promise.resolve();
  const run = new Run(capture, {}, {});
  const invalid = run.output({ output_uri: 7 as unknown as string });
  const others = [run.output({ summary: '1' }), run.output({ summary: '2' })];
  await expect(invalid).rejects.toThrow('not valid');
  const error = new SpoolFull('full');
  refuse(error);
  for (const event of [run.started, ...others]) await expect(event).rejects.toBe(error);
  await capture.settled();
  expect(told.map(({ eventId }) => eventId).sort()).toEqual(
    [run.startEventId, invalid.eventId, ...others.map(({ eventId }) => eventId)].sort(),
  );
  expect(capture.refused).toBe(4);
  await spool.close();
});

/* Events that wait before the spool: for content storage that does not answer, or for the spool to open. */

const AWAY = 'http://127.0.0.1:9';

test('[R-852] events that wait for their content are bounded and counted, and more are refused', async () => {
  const never = { put: () => new Promise<void>(() => undefined) };
  const { log, refusals } = hurriedClient({ url: AWAY, content: never }, { settleMs: 20 });
  await log.ready();
  for (let i = 0; i < 40; i++) log.startRun({}, { content: Buffer.alloc(1 << 20, i) });
  await log.startRun({}).started;
  expect(log.state).toMatchObject({ waiting: 32, refused: 9 });
  expect(log.state.waitingBytes).toBeGreaterThan(31 << 20);
  expect(log.state.waitingBytes).toBeLessThan(33 << 20);
  expect(log.state.oldest).toBeDefined();
  expect(refusals[0]).toMatchObject({ error: { name: 'SpoolFull' } });
});

test('[R-852] events that wait for a spool to open are bounded, and close refuses them in time', async () => {
  let open: (spool: Spool) => void = () => undefined;
  const opening = vi
    .spyOn(DiskSpool, 'open')
    .mockReturnValue(new Promise((resolve) => (open = resolve as typeof open)));
  const { log, refusals } = hurriedClient({ url: AWAY, spool: temporaryDirectory() }, { settleMs: 20 });
  opening.mockRestore();
  const summary = 'x'.repeat(1_000_000);
  const run = log.startRun({});
  for (let i = 0; i < 40; i++) run.output({ summary });
  expect(await Promise.race([log.ready(), new Promise((resolve) => setTimeout(resolve, 10, 'late'))])).toBe(
    'late',
  );
  expect(log.state.waiting).toBe(34);
  expect(await log.close({ timeoutMs: 10 })).toEqual({ waiting: 0 });
  expect(new Set(refusals.map(({ error }) => (error as Error).name))).toEqual(
    new Set(['SpoolFull', 'SpoolUnwritable']),
  );
  expect(refusals).toHaveLength(41);
  const spool = await openSpool({ directory: undefined, durability: 'memory' });
  open(spool);
  await log.ready();
  await expect(spool.append('outcome', Buffer.from('{}'))).rejects.toMatchObject({ name: 'SpoolClosed' });
});

test.each([
  ['no key', { apiKey: '' }],
  ['an unusable URL', { url: 'ftp://x' }],
  ['a key that the collector rejects', {}],
])('[R-862] with %s, close does not wait: events are durable and cannot be sent', async (_what, wrong) => {
  const collector = await fakeCollector((_event, response) => {
    response.writeHead(401).end();
    return true;
  });
  const options = { url: collector.url, spool: temporaryDirectory(), ...wrong };
  const { log } = hurriedClient(options);
  log.startRun({});
  // Far beyond the time limit of the test.
  expect(await log.close({ timeoutMs: 600_000 })).toEqual({ waiting: 1 });
});

test('[R-862] close waits while the collector is away, and ends when all events are sent', async () => {
  let answers = 0;
  const collector = await fakeCollector((_event, response) => {
    if (++answers > 3) return false;
    response.destroy();
    return true;
  });
  const { log } = hurriedClient({ url: collector.url });
  log.startRun({});
  expect(await log.close({ timeoutMs: 600_000 })).toEqual({ waiting: 0 });
});
