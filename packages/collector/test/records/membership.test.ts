import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { placeRunless, runIdOf, type RunlessEvent } from '../../src/records/membership.js';
import { id } from './run-events.js';

const OF_A_RUN = new Map([[id(1), id(1)]]);
const place = (...events: readonly (readonly [number, number | null])[]) =>
  Object.fromEntries(
    placeRunless(
      events.map(([n, parent]) => ({ eventId: id(n), parentEventId: parent === null ? null : id(parent) })),
      (eventId) => OF_A_RUN.get(eventId),
    ),
  );

describe('an event that names no run', () => {
  test('belongs to the run of its parent [R-204]', () => {
    expect(place([2, 1])).toEqual({ [id(2)]: `run:${id(1)}` });
  });

  test('belongs to the run of its parent’s parent when that is how the parent belongs to it, and so on [R-204]', () => {
    const keys = place([5, 4], [3, 2], [4, 3], [2, 1]);
    expect(new Set(Object.values(keys))).toEqual(new Set([`run:${id(1)}`]));
  });

  test('stands alone without a parent, and when its parent is not in the log [R-204] [R-207]', () => {
    expect(place([7, null], [8, 99])).toEqual({ [id(7)]: `event:${id(7)}`, [id(8)]: `event:${id(8)}` });
  });

  test('stays with its parent when that stands alone [R-204]', () => {
    expect(place([9, 8], [8, 99], [10, 9])).toEqual({
      [id(8)]: `event:${id(8)}`,
      [id(9)]: `event:${id(8)}`,
      [id(10)]: `event:${id(8)}`,
    });
  });

  test('that is its own ancestor is known by the smallest id of the circle, and so is what hangs on it [R-207]', () => {
    expect(place([6, 5], [4, 6], [5, 4], [3, 6], [2, 2])).toEqual({
      [id(4)]: `event:${id(4)}`,
      [id(5)]: `event:${id(4)}`,
      [id(6)]: `event:${id(4)}`,
      [id(3)]: `event:${id(4)}`,
      [id(2)]: `event:${id(2)}`,
    });
  });
});

/** The record of one event, by walking up from it and from it alone. */
function walkedUp(events: readonly RunlessEvent[], from: string): string {
  const parents = new Map(events.map(({ eventId, parentEventId }) => [eventId, parentEventId]));
  const seen: string[] = [];
  for (let at = from; ;) {
    if (seen.includes(at)) return `event:${seen.slice(seen.indexOf(at)).sort()[0] ?? ''}`;
    seen.push(at);
    const parent = parents.get(at) ?? null;
    if (parent === null || !parents.has(parent)) {
      const run = parent === null ? undefined : OF_A_RUN.get(parent);
      return run === undefined ? `event:${at}` : `run:${run}`;
    }
    at = parent;
  }
}

test('placing many is placing each of them, in any order [R-204] [R-205]', () => {
  const links = fc.array(fc.option(fc.integer({ min: 0, max: 14 })), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(links, fc.infiniteStream(fc.nat()), (parents, stream) => {
      const events = parents.map((parent, i) => ({
        eventId: id(i + 2),
        parentEventId: parent === null ? null : id(parent),
      }));
      const shuffled = events
        .map((event) => ({ event, rank: stream.next().value as number }))
        .sort((a, b) => a.rank - b.rank)
        .map(({ event }) => event);
      const keys = placeRunless(shuffled, (eventId) => OF_A_RUN.get(eventId));
      expect(keys.size).toBe(events.length);
      for (const { eventId } of events) expect(keys.get(eventId)).toBe(walkedUp(events, eventId));
    }),
    { numRuns: 1000 },
  );
});

test('a chain of a hundred thousand events is followed in a moment', () => {
  const chain = Array.from({ length: 100_000 }, (_, i) => ({ eventId: id(i + 2), parentEventId: id(i + 1) }));
  const keys = placeRunless(chain.reverse(), (eventId) => OF_A_RUN.get(eventId));
  expect(new Set(keys.values())).toEqual(new Set([`run:${id(1)}`]));
});

test('a key tells the run of a record, or that there is none [R-203]', () => {
  expect(runIdOf(`run:${id(1)}`)).toBe(id(1));
  expect(runIdOf(`event:${id(1)}`)).toBe(null);
});
