import { describe, expect, test } from 'vitest';
import type { RecordKey } from '../../src/records/membership.js';
import { Nesting, type RunStart } from '../../src/records/nesting.js';
import { id } from './run-events.js';

/** Run n holds the events n and 100 + n; the event 99 is of a record without a run. */
function recordOf(eventId: string): RecordKey | undefined {
  const n = Number(eventId.slice(-12));
  if (n === 99) return `event:${id(98)}`;
  return n % 100 < 50 ? `run:${id(n % 100)}` : undefined;
}
const start = (n: number, parent: number | null): RunStart => ({
  runId: id(n),
  parentEventId: parent === null ? null : id(parent),
});
const nest = (...starts: RunStart[]) => {
  const nesting = new Nesting(starts, recordOf);
  return (n: number) => nesting.linksOf(`run:${id(n)}`);
};

describe('a run', () => {
  test('is nested in the run that holds the event its start expands on [R-207]', () => {
    const linksOf = nest(start(1, null), start(3, 101), start(2, 1), start(4, 103));
    expect(linksOf(1).children).toEqual([id(2), id(3)]);
    expect(linksOf(3).children).toEqual([id(4)]);
    expect(linksOf(4).children).toEqual([]);
    expect(linksOf(3).parentRunOf(id(101))).toBe(id(1));
    for (const n of [1, 2, 3, 4]) expect(linksOf(n).cycle).toEqual([]);
  });

  test('whose start expands on an event of the same run is nested in none [R-207]', () => {
    const linksOf = nest(start(1, 101));
    expect(linksOf(1)).toMatchObject({ children: [], cycle: [] });
  });

  test('can be nested in a record without a run, and in one that the log does not have [R-207]', () => {
    const nesting = new Nesting([start(1, 99), start(2, 60)], recordOf);
    expect(nesting.linksOf(`event:${id(98)}`).children).toEqual([id(1)]);
    expect(nesting.linksOf(`run:${id(1)}`).parentRunOf(id(99))).toBe(null);
    expect(nesting.linksOf(`run:${id(2)}`).parentRunOf(id(60))).toBe(undefined);
  });

  test('that is nested in itself by way of others is told so, and those that hang on the circle are not [R-207]', () => {
    const linksOf = nest(start(5, 3), start(1, 3), start(3, 102), start(2, 1), start(4, 105));
    for (const n of [1, 2, 3]) expect(linksOf(n).cycle).toEqual([id(1), id(2), id(3)]);
    for (const n of [4, 5]) expect(linksOf(n).cycle).toEqual([]);
    expect(linksOf(3).children).toEqual([id(1), id(5)]);
  });

  test('of a large circle is told of a hundred of its runs [R-207]', () => {
    const starts = Array.from({ length: 150 }, (_, n) => ({
      runId: id(n + 1),
      parentEventId: id(((n + 1) % 150) + 1),
    }));
    const nesting = new Nesting(starts, (eventId) => `run:${eventId}`);
    expect(nesting.linksOf(`run:${id(150)}`).cycle).toEqual(starts.slice(0, 100).map(({ runId }) => runId));
  });

  test('has the same links in whatever order the starts come [R-205]', () => {
    const starts = [start(1, 3), start(3, 2), start(2, 1), start(4, 3), start(5, 4)];
    const [forwards, backwards] = [nest(...starts), nest(...starts.reverse())];
    for (const n of [1, 2, 3, 4, 5]) {
      expect(forwards(n)).toMatchObject({ children: backwards(n).children, cycle: backwards(n).cycle });
    }
  });
});
