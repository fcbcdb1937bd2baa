import { expect, test } from 'vitest';
import type { KeyUse } from '../../src/access/key-ring.js';
import { IngestCounters } from '../../src/ingest/ingest-counters.js';
import { MOST_KEYS, shownKeys } from '../../src/access/key-ring.js';

import { daysUntilFull, GrowthWatch, Samples } from '../../src/operate/watch.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const EVENT_BYTES = 1000;
/** With its entry in the index and its part of the tree. */
const DISK_BYTES = EVENT_BYTES + 64;

type EventsAt = (ms: number) => number;

/** The report of a collector that was started at `from`, after some time. */
function growthAfter(ms: number, eventsAt: EventsAt, from = 0) {
  const watch = new GrowthWatch();
  const look = (at: number) => ({ at: at - from, events: eventsAt(at), bytes: eventsAt(at) * EVENT_BYTES });
  for (let at = from; at < from + ms; at += MINUTE) watch.note(look(at));
  return watch.growth(look(from + ms));
}

const perDay =
  (events: number): EventsAt =>
  (ms) =>
    (events * ms) / DAY;

/** A million events of the past within an hour, and then nothing. */
const imported: EventsAt = (ms) => 1e6 * Math.min(1, Math.max(0, (ms - 2 * HOUR) / HOUR));

/** Eight hours of every day. */
const byDay: EventsAt = (ms) => 8000 * (Math.floor(ms / DAY) + Math.min(1, (ms % DAY) / (8 * HOUR)));

test('growth is not reported before ten minutes of watching', () => {
  const early = growthAfter(9 * MINUTE, perDay(1e6));
  expect(early).toMatchObject({ watchedMs: 9 * MINUTE, eventsPerHour: undefined, bytesPerHour: undefined });
  expect(daysUntilFull(early, 1e9)).toBeUndefined();
});

test('growth counts at most the last day', () => {
  expect(growthAfter(HOUR, perDay(2400)).eventsPerHour).toBeCloseTo(100, 6);
  const later = growthAfter(30 * HOUR, (ms) => Math.max(0, ms - 6 * HOUR) / HOUR);
  expect(later.watchedMs).toBe(DAY);
  expect(later.eventsPerHour).toBeCloseTo(1, 6);
  expect(later.bytesPerHour).toBeCloseTo(EVENT_BYTES, 6);
});

test('[R-835] an import followed by no more events fills no disk', () => {
  for (const hours of [3, 11, 12, 13, 15, 24, 48, 71]) {
    const growth = growthAfter(hours * HOUR, imported);
    expect([hours, daysUntilFull(growth, 1)]).toEqual([hours, undefined]);
  }
  for (const days of [3, 3.05, 4, 5, 6.5, 7, 9]) {
    const growth = growthAfter(days * DAY, imported);
    expect([days, daysUntilFull(growth, 1)]).toEqual([days, Infinity]);
    expect(growth.steadyKnownInMs).toBeUndefined();
  }
  // It is not hidden either.
  expect(growthAfter(5 * HOUR, imported).eventsPerHour).toBeCloseTo(200_000, 6);
});

test('[R-835] steady growth is forecast correctly after twelve hours', () => {
  const early = growthAfter(11 * HOUR, perDay(5000));
  expect([daysUntilFull(early, 1), early.steadyKnownInMs]).toEqual([undefined, HOUR]);
  for (const days of [0.5, 1, 2.7, 3, 7, 10]) {
    const growth = growthAfter(days * DAY, perDay(5000));
    expect(daysUntilFull(growth, 5000 * DISK_BYTES * 3)).toBeCloseTo(3, 6);
  }
});

test('[R-835] an import does not change the forecast of a steady growth', () => {
  const both: EventsAt = (ms) => perDay(5000)(ms) + imported(ms - 4 * DAY);
  for (const days of [4.1, 4.2, 5, 7, 10]) {
    expect(daysUntilFull(growthAfter(days * DAY, both), 5000 * DISK_BYTES)).toBeCloseTo(1, 6);
  }
});

test('[R-835] a night does not end growth: growth by whole days is known after three of them', () => {
  const early = growthAfter(2.5 * DAY, byDay);
  expect([daysUntilFull(early, 1), early.steadyKnownInMs]).toEqual([undefined, DAY / 2]);
  for (const days of [3, 3.9, 5.2, 8]) {
    expect(daysUntilFull(growthAfter(days * DAY, byDay), 8000 * DISK_BYTES * 7)).toBeCloseTo(7, 6);
  }
  // Nor does a weekend.
  const week: EventsAt = (ms) => 1000 * Math.min(5, ms / DAY) + 1000 * Math.max(0, ms / DAY - 7);
  expect(daysUntilFull(growthAfter(7 * DAY, week), 1000 * DISK_BYTES)).toBeCloseTo(1, 6);
});

test('[R-835] a collector that was restarted forgets what came before, and does not take the log for growth', () => {
  const restarted = growthAfter(6 * HOUR, perDay(5000), 30 * DAY);
  expect(daysUntilFull(restarted, 1)).toBeUndefined();
  expect(restarted.eventsPerHour).toBeCloseTo(5000 / 24, 6);
  const later = growthAfter(12 * HOUR, perDay(5000), 30 * DAY);
  expect(daysUntilFull(later, 5000 * DISK_BYTES)).toBeCloseTo(1, 6);
  const quiet = growthAfter(4 * DAY, imported, 2 * DAY);
  expect(daysUntilFull(quiet, 1)).toBe(Infinity);
});

test('[R-835] a sender that sends much more is in the forecast after half a day', () => {
  const greedy: EventsAt = (ms) => perDay(100)(ms) + Math.max(0, perDay(1e6)(ms - 6 * DAY));
  const growth = growthAfter(6.5 * DAY, greedy);
  expect(daysUntilFull(growth, 1_000_100 * DISK_BYTES)).toBeCloseTo(1, 3);
});

test('a sample has the counts since the one before, and its quantiles are of that second only', () => {
  const counters = new IngestCounters();
  const samples = new Samples(500);
  const take = (now: number, monotonic: number) => samples.take({ now, monotonic, ingest: counters.read() });
  for (let i = 0; i < 100; i++) counters.accepted('outcome', i < 98 ? 1.05 : 95);
  counters.refused('outcome', 'overloaded');
  take(10_000, 1500);
  counters.accepted('outcome', 9);
  take(11_000, 2600);
  take(12_000, 3600);
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
  const ingest = new IngestCounters().read();
  const samples = new Samples(0);
  for (let i = 1; i <= 301; i++) samples.take({ now: i, monotonic: i * 1000, ingest });
  expect(samples.list().length).toBe(300);
  expect(samples.list().map(({ at }) => at)).toEqual(Array.from({ length: 300 }, (_, i) => i + 2));
});

test('of too many keys the usable ones are shown, and the newest of the others if there is room', () => {
  const uses = (revoked: number) =>
    Array.from({ length: 1500 }, (_, i) => {
      const key = { keyId: String(i), revokedAt: i < revoked ? 1 : undefined, expiresAt: undefined };
      return { key: key as unknown as KeyUse['key'], lastUsedAt: undefined, uses: 0, overRate: 0 };
    });
  const shown = (revoked: number) => shownKeys(uses(revoked), 0).map(({ keyId }) => Number(keyId));
  const from = (first: number, length: number) => Array.from({ length }, (_, i) => first + i);
  expect(shown(700)).toEqual([...from(700, 800), ...from(500, 200)]);
  expect(shown(0)).toEqual(from(0, MOST_KEYS));
});
