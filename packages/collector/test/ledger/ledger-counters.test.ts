import { expect, test } from 'vitest';
import { DELAY_BOUNDS_MS, SIZE_BOUNDS, TIME_BOUNDS_MS } from '../../src/numbers.js';
import { createCounterMemory, LedgerCounters } from '../../src/ledger/ledger-counters.js';

test('one side reads what the other counts, and large numbers are exact', () => {
  const memory = createCounterMemory();
  const written = new LedgerCounters(memory);
  const read = new LedgerCounters(memory);
  written.holds({ events: 2 ** 40, entries: 2 ** 40 + 3, bytes: 2 ** 50 + 1 });
  written.taken(1, 0);
  written.taken(1024, 24);
  written.decided(['accepted', 'duplicate', 'accepted', 'conflict']);
  written.decided(['unreadable']);
  written.failed('notCommitted', 5);
  written.failed('unknown', 6);
  written.flushed(0.2);
  written.flushed(1.5);
  written.flushed(60_000);
  const { events, entries, bytes, outcomes, batches, flushes } = read.read();
  expect({ events, entries, bytes }).toEqual({ events: 2 ** 40, entries: 2 ** 40 + 3, bytes: 2 ** 50 + 1 });
  expect(outcomes).toEqual({
    ...{
      accepted: 2,
      duplicate: 1,
      conflict: 1,
      erased: 0,
      unreadable: 1,
      faulty: 24,
      notCommitted: 5,
      unknown: 6,
    },
  });
  expect(batches.sum).toBe(1025);
  expect(batches.counts.length).toBe(SIZE_BOUNDS.length + 1);
  expect([batches.counts[0], batches.counts.at(-1)]).toEqual([1, 1]);
  expect(flushes.sum).toBeCloseTo(60_001.7, 6);
  expect(flushes.counts[TIME_BOUNDS_MS.indexOf(0.2)]).toBe(1);
  expect(flushes.counts[TIME_BOUNDS_MS.indexOf(1.6)]).toBe(1);
  expect(flushes.counts.at(-1)).toBe(1);
});

test('[R-1435] a log in a database has more counters, and a log in a directory has none of these', () => {
  const memory = createCounterMemory();
  const written = new LedgerCounters(memory);
  const shared = () => new LedgerCounters(memory).read().shared;
  written.flushed(1);
  expect(shared()).toBeUndefined();
  written.waits(3, 1500.4, 11);
  expect(shared()).toMatchObject({
    replicated: undefined,
    waiting: { batches: 3, oldestMs: 1500 },
    months: 11,
  });
  expect(shared()?.stalledMs).toBe(0);
  written.stalled(7000.2);
  expect(shared()?.stalledMs).toBe(7000);
  written.replicated(true);
  expect(shared()?.replicated).toBe(true);
  written.replicated(false);
  expect(shared()?.replicated).toBe(false);
  written.merged(900);
  written.merged(250_000);
  expect(shared()?.merges.sum).toBeCloseTo(250_900, 6);
  expect(shared()?.merges.counts[DELAY_BOUNDS_MS.indexOf(900)]).toBe(1);
  expect(shared()?.merges.counts[DELAY_BOUNDS_MS.indexOf(250_000)]).toBe(1);
});
