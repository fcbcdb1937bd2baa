import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Membership, RunlessEvents } from '../../src/records/membership.js';
import { ENTRY_BYTES, entryFlags, entryId, FLAG, idBytes, writeEntry } from '../../src/records/run-entry.js';
import { placeRunless, type RunlessEvent } from './plain-links.js';
import { id } from './run-events.js';

const OF_A_RUN = new Map([[id(1), id(1)]]);
const NO_ID = Buffer.alloc(16);

/** The record of each event of an organisation, which is of number 3. */
function placed(events: readonly RunlessEvent[]): Map<string, string> {
  const runless = new RunlessEvents();
  for (const [address, { eventId, parentEventId }] of events.entries()) {
    const parent = parentEventId === null ? NO_ID : idBytes(parentEventId);
    runless.add(Buffer.concat([idBytes(eventId), parent]), 0, 16, {
      address,
      size: 1,
      organisation: 3,
      flags: FLAG.after,
    });
  }
  const membership = new Membership(runless, (organisation, ids, at) => {
    const run = organisation === 3 ? OF_A_RUN.get(entryId(ids, at)) : undefined;
    return run === undefined ? undefined : idBytes(run);
  });
  return new Map(events.map(({ eventId }) => [eventId, recordIn(membership, eventId, 3) ?? 'nowhere']));
}

function recordIn(membership: Membership, eventId: string, organisation: number): string | undefined {
  const asked = Buffer.alloc(ENTRY_BYTES);
  writeEntry(asked, 0, idBytes(eventId), 0, { address: 0, size: 0, organisation, flags: 0 });
  const at = membership.recordOf(asked, 0);
  if (at < 0) return undefined;
  const { records } = membership;
  const kind = (entryFlags(records, at) & FLAG.runless) === 0 ? 'run' : 'event';
  return `${kind}:${entryId(records, at)}`;
}

const place = (...events: readonly (readonly [number, number | null])[]) =>
  Object.fromEntries(
    placed(
      events.map(([n, parent]) => ({ eventId: id(n), parentEventId: parent === null ? null : id(parent) })),
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

const graphs = fc
  .array(fc.option(fc.integer({ min: 0, max: 14 })), { minLength: 1, maxLength: 12 })
  .map((parents) =>
    parents.map((parent, i) => ({
      eventId: id(i + 2),
      parentEventId: parent === null ? null : id(parent),
    })),
  )
  .chain((events) => fc.shuffledSubarray(events, { minLength: events.length }));

test('placing many is following each with maps, in any order [R-204] [R-205]', () => {
  fc.assert(
    fc.property(graphs, (events) => {
      expect(placed(events)).toEqual(placeRunless(events, (eventId) => OF_A_RUN.get(eventId)));
    }),
    { numRuns: 1000 },
  );
});

test('an event is looked for among those of its own organisation [R-204]', () => {
  const runless = new RunlessEvents();
  const place = { address: 0, size: 1, flags: 0 };
  runless.add(Buffer.concat([idBytes(id(2)), idBytes(id(3))]), 0, 16, { ...place, organisation: 0 });
  runless.add(Buffer.concat([idBytes(id(3)), NO_ID]), 0, 16, { ...place, organisation: 1 });
  const membership = new Membership(runless, () => NO_ID);
  expect(recordIn(membership, id(2), 0)).toBe(`event:${id(2)}`);
  expect(recordIn(membership, id(3), 1)).toBe(`event:${id(3)}`);
  expect(recordIn(membership, id(3), 0)).toBe(undefined);
});

test('a chain of a hundred thousand events is followed in a moment', () => {
  const chain = Array.from({ length: 100_000 }, (_, i) => ({ eventId: id(i + 2), parentEventId: id(i + 1) }));
  expect(new Set(placed(chain.reverse()).values())).toEqual(new Set([`run:${id(1)}`]));
});
