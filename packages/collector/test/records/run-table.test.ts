import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EntryList } from '../../src/records/entry-list.js';
import { ENTRY_BYTES, entryAddress, FLAG, idBytes, writeEntry } from '../../src/records/run-entry.js';
import { RunTable } from '../../src/records/run-table.js';
import { id } from './run-events.js';

interface Noted {
  readonly n: number;
  readonly organisation: number;
  readonly flags: number;
  readonly address: number;
}

const noted = fc.record({
  n: fc.integer({ min: 0, max: 5 }),
  organisation: fc.integer({ min: 0, max: 1 }),
  flags: fc.constantFrom(0, FLAG.runless, FLAG.start, FLAG.runless | FLAG.after),
  address: fc.integer({ min: 0, max: 2 ** 45 }),
});

function listOf(entries: readonly Noted[]): Buffer {
  const list = new EntryList();
  for (const { n, ...place } of entries) {
    const at = list.next();
    writeEntry(list.target, at, idBytes(id(n)), 0, { ...place, size: 1 });
  }
  return list.entries;
}

const keyOf = ({ n, organisation, flags }: Noted) => `${n} ${organisation} ${flags & FLAG.runless}`;

test('entries are put together and found by id, organisation and kind as in a map', () => {
  fc.assert(
    fc.property(fc.array(noted, { maxLength: 60 }), fc.array(noted), (entries, asked) => {
      const inOrder = [...entries].sort((a, b) => a.address - b.address);
      // What was passed is in order, and what named no run stands behind it.
      const late = inOrder.filter(({ flags }) => (flags & FLAG.runless) !== 0);
      const stored = [...inOrder.filter((entry) => !late.includes(entry)), ...late.reverse()];
      const groups = Map.groupBy(stored, keyOf);
      const list = listOf(stored);
      const table = new RunTable(list);
      expect(table.runs).toBe(groups.size);
      const others = listOf([...entries, ...asked]);
      for (const [i, entry] of [...entries, ...asked].entries()) {
        const run = table.find(others, i * ENTRY_BYTES);
        const group = groups.get(keyOf(entry));
        if (group === undefined) {
          expect(run).toBe(-1);
          continue;
        }
        const addresses: number[] = [];
        for (let at = table.first(run); at >= 0; at = table.after(at)) addresses.push(entryAddress(list, at));
        expect(addresses).toEqual(group.map(({ address }) => address).sort((a, b) => a - b));
        expect(table.flags(run)).toBe(group.reduce((all, { flags }) => all | flags, 0));
      }
    }),
    { numRuns: 300 },
  );
});

test('a list of entries grows, and keeps what was added', () => {
  const many = Array.from({ length: 5000 }, (_, address) => ({ n: 1, organisation: 0, flags: 0, address }));
  const list = new EntryList();
  const source = listOf(many);
  for (let at = 0; at < source.length; at += ENTRY_BYTES) list.append(source, at);
  expect(list.entries.equals(source)).toBe(true);
});
