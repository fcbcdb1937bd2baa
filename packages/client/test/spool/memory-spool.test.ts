import { expect, test } from 'vitest';
import { openSpool } from '../../src/spool/disk-spool.js';
import { SpoolClosed, type SpooledEvent, SpoolFull } from '../../src/spool/spool.js';
import { TakeQueue } from '../../src/spool/take-queue.js';
import { textOf } from './spooled-segments.js';

const body = (text: string) => Buffer.from(text);

test('a spool in memory returns events in order, and again after giveBack', async () => {
  const spool = await openSpool({ directory: undefined, durability: 'memory' });
  const waiting = spool.take(1, 1000);
  for (let index = 0; index < 3000; index++) await spool.append('outcome', body(`${index}`));
  const [first] = await waiting;
  if (!first) throw new Error('nothing was given out');
  spool.giveBack(first);
  const events = await spool.take(5000, 1e6);
  expect(events.map(textOf)).toEqual([...Array(3000).keys()].map(String));
  for (const event of events) spool.done(event);
  expect(spool.state).toEqual({ waiting: 0, waitingBytes: 0, quarantined: 0, cut: 0, watched: 0 });
  await spool.close();
});

test('[R-852] a spool in memory is bounded, and refuses what it has no room for', async () => {
  const spool = await openSpool({ directory: undefined, durability: 'memory', maxBytes: 1000 });
  for (let index = 0; index < 3; index++) await spool.append('outcome', body('x'));
  await expect(spool.append('outcome', body('x'))).rejects.toThrow(SpoolFull);
  const [one] = await spool.take(1, 1);
  if (one) spool.done(one);
  await spool.append('outcome', body('x'));
  await spool.close();
});

test('a spool in memory reports the events that it loses', async () => {
  const troubles: string[] = [];
  const onTrouble = (what: string) => troubles.push(what);
  const spool = await openSpool({ directory: undefined, durability: 'memory', onTrouble });
  for (const text of ['one', 'two']) await spool.append('outcome', body(text));
  const [one] = await spool.take(1, 1);
  if (one) await spool.quarantine(one, { status: 400, at: '2026-01-01T00:00:00Z' });
  await spool.close();
  expect(troubles).toEqual([
    'an event was refused (400) and dropped: a spool in memory has no quarantine',
    '1 events are lost: the spool was in memory only',
  ]);
  await expect(spool.append('outcome', body('three'))).rejects.toThrow(SpoolClosed);
});

const event = (offset: number): SpooledEvent => ({
  ...{ position: { segment: 'a', offset }, kind: 'outcome', body: Buffer.alloc(1), capturedAt: 0 },
});

test('take returns an event that arrives while an empty result is pending', async () => {
  const events: SpooledEvent[] = [];
  let looked = false;
  const queue = new TakeQueue({
    collect: () => {
      const found = events.splice(0);
      if (!looked) {
        looked = true;
        // Between the look and the arrival of its result.
        queueMicrotask(() => {
          events.push(event(1));
          queue.serve();
        });
      }
      return Promise.resolve(found);
    },
    giveBack: () => undefined,
  });
  expect(await queue.take(1, 1)).toHaveLength(1);
});

test.each(['aborted', 'closed'] as const)(
  'giveBack gets the events that were collected for a call that is %s',
  async (how) => {
    const back: SpooledEvent[] = [];
    let answer!: (events: SpooledEvent[]) => void;
    const queue = new TakeQueue({
      collect: () => new Promise((resolve) => (answer = resolve)),
      giveBack: (given) => back.push(given),
    });
    const stop = new AbortController();
    const taken = queue.take(1, 1, stop.signal);
    const closed = how === 'closed' ? queue.close() : undefined;
    stop.abort();
    answer([event(1), event(2)]);
    expect(await taken).toEqual([]);
    await closed;
    await new Promise((resolve) => setImmediate(resolve));
    expect(back).toEqual([event(1), event(2)]);
  },
);
