import { ERRORS, EVENT_KINDS } from '@clinical-events/protocol';
import { expect, test } from 'vitest';
import { IngestCounters } from '../../src/ingest/ingest-counters.js';
import { TIME_BOUNDS_MS } from '../../src/numbers.js';

test('every answer is counted under its kind and code, and each pair is there once', () => {
  const counters = new IngestCounters();
  counters.accepted('outcome', 0.3);
  counters.accepted('outcome', 20_000);
  counters.refused('user-feedback', 'rate_limited');
  counters.refused(undefined, 'not_found');
  const { answers, latencies } = counters.read();
  const pairs = answers.map(({ kind, code }) => `${kind} ${code}`);
  expect(new Set(pairs).size).toBe((EVENT_KINDS.length + 2) * (Object.keys(ERRORS).length + 1));
  expect(pairs.length).toBe(new Set(pairs).size);
  expect(answers.filter(({ count }) => count > 0)).toEqual([
    { kind: 'outcome', code: 'accepted', status: 201, count: 2 },
    { kind: 'user-feedback', code: 'rate_limited', status: 429, count: 1 },
    { kind: 'none', code: 'not_found', status: 404, count: 1 },
  ]);
  const { counts, sum } = latencies;
  expect(sum).toBeCloseTo(20_000.3, 6);
  expect(counts[TIME_BOUNDS_MS.indexOf(0.315)]).toBe(1);
  expect(counts.at(-1)).toBe(1);
});

test('counters that were read do not change with later counts', () => {
  const counters = new IngestCounters();
  const before = counters.read();
  const copy = structuredClone(before);
  counters.accepted('outcome', 1);
  counters.refused('outcome', 'overloaded');
  counters.lostPlace('displaced');
  counters.ofRequests.outcome++;
  expect(before).toEqual(copy);
});
