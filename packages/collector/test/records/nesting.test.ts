import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NestedRuns, Nesting } from '../../src/records/nesting.js';
import { ENTRY_BYTES, FLAG, idBytes, writeEntry } from '../../src/records/run-entry.js';
import { PlainNesting, type RecordKey } from './plain-links.js';
import { id } from './run-events.js';

interface Links {
  readonly children: readonly string[];
  readonly cycle: readonly string[];
}

function entryOf(key: RecordKey, organisation = 0): Buffer {
  const entry = Buffer.alloc(ENTRY_BYTES);
  const [kind, own = ''] = key.split(':');
  const flags = kind === 'run' ? 0 : FLAG.runless;
  writeEntry(entry, 0, idBytes(own), 0, { address: 0, size: 0, organisation, flags });
  return entry;
}

const run = (n: number): RecordKey => `run:${id(n)}`;

/** @param pairs of a run and what it is nested in. */
function nest(...pairs: readonly (readonly [RecordKey, RecordKey])[]): (key: RecordKey) => Links {
  const nested = new NestedRuns();
  for (const [child, parent] of pairs) nested.add(entryOf(child), 0, entryOf(parent));
  const nesting = new Nesting(nested);
  return (key) => ({
    children: nesting.childrenOf(entryOf(key), 0),
    cycle: nesting.cycleOf(entryOf(key), 0),
  });
}

const UNLINKED = { children: [], cycle: [] };

describe('a run', () => {
  test('is nested in the run that holds the event its start expands on [R-207]', () => {
    const linksOf = nest([run(3), run(1)], [run(2), run(1)], [run(4), run(3)]);
    expect(linksOf(run(1))).toEqual({ children: [id(2), id(3)], cycle: [] });
    expect(linksOf(run(3))).toEqual({ children: [id(4)], cycle: [] });
    expect(linksOf(run(4))).toEqual(UNLINKED);
  });

  test('can be nested in a record without a run, which a run of the same id is not [R-207]', () => {
    const linksOf = nest([run(1), `event:${id(98)}`]);
    expect(linksOf(`event:${id(98)}`).children).toEqual([id(1)]);
    expect(linksOf(run(98))).toEqual(UNLINKED);
  });

  test('is nested in runs of its own organisation alone [R-207]', () => {
    const nested = new NestedRuns();
    nested.add(entryOf(run(2), 1), 0, entryOf(run(1), 1));
    const nesting = new Nesting(nested);
    expect(nesting.childrenOf(entryOf(run(1), 1), 0)).toEqual([id(2)]);
    expect(nesting.childrenOf(entryOf(run(1), 0), 0)).toEqual([]);
  });

  test('of a large circle is told of a hundred of its runs [R-207]', () => {
    const runs = Array.from({ length: 150 }, (_, n) => n + 1);
    const linksOf = nest(...runs.map((n) => [run(n), run((n % 150) + 1)] as const));
    expect(linksOf(run(150)).cycle).toEqual(runs.slice(0, 100).map((n) => id(n)));
  });
});

test('the links of many are what maps make of them, in any order: children and circles [R-205] [R-207]', () => {
  const parents = fc
    .array(fc.option(fc.integer({ min: 0, max: 12 })), { minLength: 1, maxLength: 12 })
    .map((all) => all.flatMap((parent, n) => (parent === null || parent === n ? [] : [[n, parent] as const])))
    .chain((pairs) => fc.shuffledSubarray(pairs, { minLength: pairs.length }));
  fc.assert(
    fc.property(parents, (pairs) => {
      const plain = new PlainNesting(
        pairs.map(([n, parent]) => ({ runId: id(n), parentEventId: id(parent) })),
        (eventId) => `run:${eventId}`,
      );
      const linksOf = nest(...pairs.map(([n, parent]) => [run(n), run(parent)] as const));
      for (let n = 0; n <= 12; n++) {
        const { children, cycle } = plain.linksOf(run(n));
        expect(linksOf(run(n))).toEqual({ children, cycle });
      }
    }),
    { numRuns: 500 },
  );
});
