import { expect, test } from 'vitest';
import { Spool, SpoolClosed, SpoolFull } from '../../src/spool/spool.js';
import { textOf } from './spooled-segments.js';

const body = (text: string) => Buffer.from(text);

test('a spool in memory gives out what went in, in order, and what is given back again', async () => {
  const spool = await Spool.open({ directory: undefined, durability: 'memory' });
  const waiting = spool.take(1, 1000);
  for (let index = 0; index < 3000; index++) await spool.append('outcome', body(`${index}`));
  const [first] = await waiting;
  if (!first) throw new Error('nothing was given out');
  spool.giveBack(first);
  const events = await spool.take(5000, 1e6);
  expect(events.map(textOf)).toEqual([...Array(3000).keys()].map(String));
  for (const event of events) spool.done(event);
  expect(spool.state).toEqual({ waiting: 0, waitingBytes: 0, quarantined: 0 });
  await spool.close();
});

test('[R-852] a spool in memory is bounded, and refuses what it has no room for', async () => {
  const spool = await Spool.open({ directory: undefined, durability: 'memory', maxBytes: 1000 });
  for (let index = 0; index < 3; index++) await spool.append('outcome', body('x'));
  await expect(spool.append('outcome', body('x'))).rejects.toThrow(SpoolFull);
  const [one] = await spool.take(1, 1);
  if (one) spool.done(one);
  await spool.append('outcome', body('x'));
  await spool.close();
});

test('a spool in memory tells what it loses', async () => {
  const troubles: string[] = [];
  const onTrouble = (what: string) => troubles.push(what);
  const spool = await Spool.open({ directory: undefined, durability: 'memory', onTrouble });
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
