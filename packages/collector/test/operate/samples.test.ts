import { expect, test } from 'vitest';
import { IngestCounters } from '../../src/ingest/ingest-counters.js';
import { Samples } from '../../src/operate/status.js';

test('a sample holds what came since the one before, and its quantiles are of that second alone', () => {
  const counters = new IngestCounters();
  const samples = new Samples(counters, 500);
  for (let i = 0; i < 100; i++) counters.accepted('outcome', i < 98 ? 1.05 : 95);
  counters.refused('outcome', 'overloaded');
  samples.take(10_000, 1500);
  counters.accepted('outcome', 9);
  samples.take(11_000, 2600);
  samples.take(12_000, 3600);
  const [first, second, third] = samples.list();
  expect(first).toMatchObject({ at: 10_000, ms: 1000, accepted: 100, refused: 1 });
  expect(first?.p50).toBeGreaterThan(1);
  expect(first?.p50).toBeLessThanOrEqual(1.12);
  expect(first?.p99).toBeGreaterThan(90);
  expect(first?.p99).toBeLessThanOrEqual(100);
  expect(second).toMatchObject({ at: 11_000, ms: 1100, accepted: 1, refused: 0 });
  expect(second?.p99).toBeGreaterThan(8);
  expect(third).toEqual({ at: 12_000, ms: 1000, accepted: 0, refused: 0, p50: null, p99: null });
});

test('the newest 300 are kept, oldest first', () => {
  const counters = new IngestCounters();
  const samples = new Samples(counters, 0);
  for (let i = 1; i <= 301; i++) samples.take(i, i * 1000);
  expect(samples.list().length).toBe(300);
  expect(samples.list().map(({ at }) => at)).toEqual(Array.from({ length: 300 }, (_, i) => i + 2));
});
