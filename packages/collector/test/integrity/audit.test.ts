import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Audit, type EventFault, type StoredTree, type Verdict } from '../../src/integrity/audit.js';
import type { SignedRoot } from '../../src/integrity/rooted-tree.js';
import { leaves, levelsOf, mth, sha256 } from './rfc-tree.js';

const SIZE = 1_000;
const SIGNED = leaves(SIZE);
const TREE = levelsOf(SIGNED);

/** The tree as it is stored, or with some of its hashes put in the place of others, or its level 0 cut short. */
function stored(changed: ReadonlyMap<string, Buffer> = new Map(), source = TREE, size = SIZE): StoredTree {
  return {
    hashCount: (level) => Promise.resolve(Math.floor(size / 256 ** level)),
    async hashes(level, first, count) {
      const there = Math.max(0, Math.min(count, Math.floor(size / 256 ** level) - first));
      const hashes = Buffer.from(await source.hashes(level, first, there));
      for (let i = 0; i < there; i++) changed.get(`${level}/${first + i}`)?.copy(hashes, i * 32);
      return hashes;
    },
  };
}

function rootOf(size: number, of: readonly Buffer[] = SIGNED): SignedRoot {
  return { size, root: mth(of.slice(0, size)) };
}

const ROOTS = [0, 1, 256, 700, SIZE].map((size) => rootOf(size));

/** A leaf, or a number of leaves that cannot be read. */
type Item = Buffer | number;

/** Reads a log whose leaves have their place in it as their place. */
async function audit<Root extends SignedRoot>(
  log: readonly Item[],
  roots: readonly Root[],
  tree = stored(),
  pieces: readonly number[] = [4096],
): Promise<Verdict<Root>> {
  const auditing = new Audit(tree, roots);
  let waiting: Buffer[] = [];
  let place = 0;
  let piece = 0;
  const flush = async () => {
    const places = waiting.map((_, i) => place - waiting.length + i);
    await auditing.leaves(Buffer.concat(waiting), places, waiting.length);
    waiting = [];
    piece++;
  };
  for (const item of log) {
    if (typeof item === 'number') {
      await flush();
      await auditing.gap(item, place);
      place += item;
      continue;
    }
    waiting.push(item);
    place++;
    if (waiting.length === (pieces[piece % pieces.length] ?? 1)) await flush();
  }
  await flush();
  return auditing.finish();
}

/** A leaf that was never signed. */
let strangers = 0;
function stranger(): Buffer {
  return sha256(`stranger ${strangers++}`);
}

/** The faults, each as its kind and what it is about: places are those in the log. */
function told({ events }: { events: readonly EventFault[] }): string[] {
  return events.map((fault) => {
    const unproven = fault.proven ? '' : '?';
    if (fault.kind === 'missing') return `missing ${fault.index}+${fault.count}${unproven}`;
    if (fault.kind === 'reordered') return `reordered ${fault.index}->${fault.place}${unproven}`;
    return `${fault.kind} ${fault.place}${unproven}`;
  });
}

const INTACT = {
  events: [],
  gaps: [],
  hashes: [],
  shortages: [],
  unlisted: { altered: 0, missing: 0, inserted: 0, hashes: 0 },
};

/** Numbers with room between them, so that what is done at one is not taken for something done at another. */
const places = fc
  .uniqueArray(fc.integer({ min: 0, max: 24 }), { minLength: 1, maxLength: 8 })
  .map((numbers) => numbers.sort((a, b) => a - b).map((number) => number * 40 + 5));

describe('an audit', () => {
  test('[R-907] finds the log intact that was signed, in whatever pieces it is read', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1 }),
        fc.uniqueArray(fc.integer({ min: 0, max: SIZE }), { minLength: 1 }),
        fc.integer({ min: 0, max: 20 }),
        async (pieces, sizes, unsigned) => {
          const roots = sizes.map((size) => rootOf(size));
          const covered = Math.max(...sizes);
          const log = [...SIGNED.slice(0, covered), ...Array.from({ length: unsigned }, stranger)];
          expect(await audit(log, roots, stored(), pieces)).toMatchObject({ ...INTACT, unsigned });
        },
      ),
      { numRuns: 40 },
    );
  });

  test('[R-907] tells each event that was altered, wherever it stands and however many there are', async () => {
    for (let i = 0; i < SIZE; i += 37) {
      const verdict = await audit(SIGNED.with(i, stranger()), ROOTS);
      expect(told(verdict)).toEqual([`altered ${i}`]);
      expect(verdict.roots.map(({ log, tree }) => log === 'agrees' || tree)).toEqual(ROOTS.map(() => true));
    }
    expect(told(await audit(SIGNED.with(SIZE - 1, stranger()), ROOTS))).toEqual([`altered ${SIZE - 1}`]);
    const all = await audit(SIGNED.map(stranger), ROOTS);
    expect(told(all)).toEqual(SIGNED.map((_, i) => `altered ${i}`));
    const everyOther = await audit(
      SIGNED.map((leaf, i) => (i % 2 === 0 ? stranger() : leaf)),
      ROOTS,
    );
    expect(told(everyOther)).toEqual(SIGNED.flatMap((_, i) => (i % 2 === 0 ? [`altered ${i}`] : [])));
  });

  test('[R-907] tells events that are missing, from the middle and from either end', async () => {
    for (const [from, count] of [
      [0, 1],
      [0, 9],
      [1, 1],
      [400, 1],
      [400, 300],
      [990, 9],
      [999, 1],
      [10, 990],
      [0, SIZE],
    ] as const) {
      const log = SIGNED.toSpliced(from, count);
      expect(told(await audit(log, ROOTS))).toEqual([`missing ${from}+${count}`]);
      // Events that came later are no part of what is missing.
      const later = await audit([...log, stranger(), stranger(), stranger()], ROOTS);
      if (from + count < SIZE) {
        expect(told(later)).toEqual([`missing ${from}+${count}`]);
        expect(later.unsigned).toBe(3);
      }
    }
    const ends = (await audit(SIGNED.slice(0, 900), ROOTS)).events;
    expect(ends).toMatchObject([{ kind: 'missing', place: undefined }]);
    expect((await audit(SIGNED.toSpliced(10, 1), ROOTS)).events).toMatchObject([{ place: 10 }]);
  });

  test('[R-907] tells a stretch that is missing although no window spans it', async () => {
    const signed = leaves(12_000);
    const tree = stored(new Map(), levelsOf(signed), signed.length);
    const roots = [rootOf(signed.length, signed)];
    expect(told(await audit(signed.toSpliced(1_000, 9_000), roots, tree))).toEqual(['missing 1000+9000']);
    const altered = signed.toSpliced(1_000, 9_000).with(1_000, stranger());
    expect(told(await audit(altered, roots, tree))).toEqual(['altered 1000', 'missing 1001+9000']);
  });

  test('[R-907] tells events that were slipped in', async () => {
    for (const at of [0, 1, 255, 256, 500, 998, 999]) {
      expect(told(await audit(SIGNED.toSpliced(at, 0, stranger()), ROOTS))).toEqual([`inserted ${at}`]);
      const two = await audit(SIGNED.toSpliced(at, 0, stranger(), stranger()), ROOTS);
      expect(told(two)).toEqual([`inserted ${at}`, `inserted ${at + 1}`]);
    }
    // A copy of one that is there is one too many as well.
    expect(told(await audit(SIGNED.toSpliced(500, 0, SIGNED[100] ?? stranger()), ROOTS))).toEqual([
      'inserted 500',
    ]);
  });

  test('[R-907] tells any two that changed places, near and far', async () => {
    const index = fc.integer({ min: 0, max: SIZE - 1 });
    const pairs = fc.oneof(
      fc.tuple(index, index),
      fc.integer({ min: 0, max: SIZE - 2 }).map((i) => [i, i + 1] as const),
    );
    await fc.assert(
      fc.asyncProperty(pairs, async ([one, other]) => {
        fc.pre(one !== other);
        const [a, b] = [Math.min(one, other), Math.max(one, other)];
        const log = SIGNED.with(a, SIGNED[b] ?? stranger()).with(b, SIGNED[a] ?? stranger());
        expect(told(await audit(log, ROOTS))).toEqual([`reordered ${b}->${a}`, `reordered ${a}->${b}`]);
      }),
    );
  });

  test('[R-907] tells one that was moved, and one that was put in the place of a moved one', async () => {
    const moved = SIGNED.toSpliced(300, 1).toSpliced(600, 0, SIGNED[300] ?? stranger());
    expect(told(await audit(moved, ROOTS))).toEqual(['reordered 300->600']);
    const replaced = SIGNED.with(300, stranger()).toSpliced(600, 0, SIGNED[300] ?? stranger());
    expect(told(await audit(replaced, ROOTS))).toEqual(['inserted 300', 'reordered 300->600']);
    const over = SIGNED.with(300, SIGNED[600] ?? stranger()).toSpliced(600, 1);
    expect(told(await audit(over, ROOTS))).toEqual(['reordered 600->300', 'missing 300+1']);
  });

  test('[R-907] tells apart whatever was done in several places of one log', async () => {
    const deed = fc.constantFrom('altered', 'missing', 'inserted', 'swapped', 'unreadable');
    await fc.assert(
      fc.asyncProperty(places, fc.array(deed, { minLength: 8, maxLength: 8 }), async (where, deeds) => {
        const log: Item[] = [...SIGNED];
        const expected: string[] = [];
        // From the end, so that earlier places stay what they are; what stands where is worked out behind.
        let shift = 0;
        const shiftAt = new Map<number, number>();
        where.forEach((at, i) => {
          shiftAt.set(at, shift);
          shift += { altered: 0, missing: -2, inserted: 1, swapped: 0, unreadable: 0 }[deeds[i] ?? 'altered'];
        });
        where.forEach((at, i) => {
          const place = at + (shiftAt.get(at) ?? 0);
          const done = deeds[i] ?? 'altered';
          if (done === 'altered') expected.push(`altered ${place}`);
          if (done === 'missing') expected.push(`missing ${at}+2`);
          if (done === 'inserted') expected.push(`inserted ${place}`);
          if (done === 'swapped')
            expected.push(`reordered ${at + 1}->${place}`, `reordered ${at}->${place + 1}`);
        });
        where.toReversed().forEach((at, i) => {
          const done = deeds[where.length - 1 - i] ?? 'altered';
          if (done === 'altered') log.splice(at, 1, stranger());
          if (done === 'missing') log.splice(at, 2);
          if (done === 'inserted') log.splice(at, 0, stranger());
          if (done === 'swapped') log.splice(at, 2, SIGNED[at + 1] ?? 0, SIGNED[at] ?? 0);
          if (done === 'unreadable') log.splice(at, 3, 3);
        });
        const verdict = await audit(log, ROOTS);
        expect(told(verdict)).toEqual(expected);
        const unreadable = where.filter((_, i) => deeds[i] === 'unreadable');
        expect(verdict.gaps.map(({ index, count, proven }) => [index, count, proven])).toEqual(
          unreadable.map((at) => [at, 3, true]),
        );
        expect(verdict.hashes).toEqual([]);
      }),
    );
  });

  test('[R-907] never finds a log intact that is another one', async () => {
    const leaf = fc.oneof(
      fc.integer({ min: 0, max: 19 }).map((i) => SIGNED[i] ?? stranger()),
      fc.constant(undefined).map(stranger),
    );
    const signed = SIGNED.slice(0, 20);
    const tree = stored(new Map(), TREE, 20);
    await fc.assert(
      fc.asyncProperty(fc.array(leaf, { maxLength: 25 }), async (log) => {
        const same = signed.every((each, i) => log[i]?.equals(each) === true);
        const verdict = await audit(log, [rootOf(20)], tree);
        expect(verdict.events.length === 0).toBe(same);
        expect(verdict.roots[0]?.log === 'agrees').toBe(same);
        // Each signed event is in its place, or in another one, or altered, or missing; and each of the log's likewise.
        const lost = verdict.events.flatMap((fault) => {
          if (fault.kind === 'altered') return [fault.index];
          if (fault.kind !== 'missing') return [];
          return Array.from({ length: fault.count }, (_, k) => fault.index + k);
        });
        for (const [i, each] of signed.entries()) {
          expect(lost.includes(i), `${i} is lost`).toBe(
            !log.slice(0, log.length - verdict.unsigned).some((found) => found.equals(each)),
          );
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe('an audit of the stored tree', () => {
  test('[R-907] tells a hash that was changed, at every level, and that the log is true', async () => {
    const levels: [number, number][] = [
      ...Array.from({ length: SIZE }, (_, i): [number, number] => [0, i]).filter(([, i]) => i % 61 === 0),
      [0, SIZE - 1],
      [1, 0],
      [1, 1],
      [1, 2],
    ];
    for (const [level, index] of levels) {
      const verdict = await audit(SIGNED, ROOTS, stored(new Map([[`${level}/${index}`, stranger()]])));
      expect(verdict).toMatchObject({ ...INTACT, hashes: [{ level, index }] });
      expect(verdict.roots.every(({ log }) => log === 'agrees')).toBe(true);
    }
  });

  test('[R-907] tells what is cut short, and that the log is true', async () => {
    const verdict = await audit(SIGNED, ROOTS, stored(new Map(), TREE, 600));
    expect(verdict).toMatchObject({
      ...INTACT,
      shortages: [
        { level: 0, there: 600 },
        { level: 1, there: 2 },
      ],
    });
    const none = await audit(SIGNED, ROOTS, stored(new Map(), TREE, 0));
    expect(none).toMatchObject({
      ...INTACT,
      shortages: [
        { level: 0, there: 0 },
        { level: 1, there: 0 },
      ],
    });
  });

  test('[R-907] does not look behind what is signed, where a collector may be writing', async () => {
    const changed = new Map([
      ['0/700', stranger()],
      ['1/2', stranger()],
    ]);
    const roots = [rootOf(700)];
    expect(await audit(SIGNED, roots, stored(changed))).toMatchObject({ ...INTACT, unsigned: 300 });
    expect(await audit(SIGNED, roots, stored(new Map(), TREE, 700))).toMatchObject({
      ...INTACT,
      unsigned: 300,
    });
  });

  test('[R-907] tells a changed hash from a changed event when both are there', async () => {
    const changed = new Map([
      ['0/100', stranger()],
      ['1/0', stranger()],
      ['1/2', stranger()],
    ]);
    const verdict = await audit(SIGNED.with(800, stranger()), ROOTS, stored(changed));
    expect(told(verdict)).toEqual(['altered 800']);
    expect(verdict.hashes).toEqual([
      { level: 0, index: 100 },
      { level: 1, index: 0 },
      { level: 1, index: 2 },
    ]);
  });

  test('[R-907] says that it is not sure when event and tree are changed below the same root', async () => {
    const changed = new Map([['0/900', stranger()]]);
    const verdict = await audit(SIGNED.with(800, stranger()), ROOTS, stored(changed));
    expect(told(verdict)).toEqual(['altered 800?', 'altered 900?']);
    expect(verdict.roots.at(-1)).toMatchObject({ log: 'differs', tree: false });
  });
});

describe('an audit of a log that was rebuilt with its tree', () => {
  test('[R-907] tells the largest root that agrees and the smallest that does not', async () => {
    for (const at of [0, 255, 256, 600, 700, 999]) {
      const rebuilt = SIGNED.with(at, stranger());
      const verdict = await audit(rebuilt, ROOTS, stored(new Map(), levelsOf(rebuilt)));
      expect(verdict).toMatchObject(INTACT);
      for (const { root, log, tree } of verdict.roots) {
        expect([root.size, log, tree]).toEqual([
          root.size,
          ...(root.size > at ? ['differs', false] : ['agrees', true]),
        ]);
      }
    }
  });

  test('[R-907] tells that it is too short, and cannot be sure which event is missing', async () => {
    const rebuilt = SIGNED.toSpliced(300, 1);
    const tree = stored(new Map(), levelsOf(rebuilt), SIZE - 1);
    const verdict = await audit(rebuilt, [rootOf(256), rootOf(SIZE)], tree);
    expect(told(verdict)).toEqual([`missing ${SIZE - 1}+1?`]);
    expect(verdict.roots.map(({ log }) => log)).toEqual(['agrees', 'short']);
    expect(verdict.shortages).toEqual([]);
  });
});

describe('what cannot be read', () => {
  test('[R-907] is made up for by the tree: the root shows that the rest is true', async () => {
    const verdict = await audit([...SIGNED.slice(0, 300), 100, ...SIGNED.slice(400)], ROOTS);
    expect(verdict).toMatchObject({
      ...INTACT,
      gaps: [{ reference: 300, index: 300, count: 100, proven: true }],
    });
    expect(verdict.roots.every(({ log }) => log === 'agrees')).toBe(true);
  });

  test('[R-907] is as long as the log shows it to be, whatever was made up of its length', async () => {
    const verdict = await audit([...SIGNED.slice(0, 300), 7, ...SIGNED.slice(400)], ROOTS);
    expect(verdict.gaps).toMatchObject([{ index: 300, count: 100 }]);
    expect(told(verdict)).toEqual([]);
    const bogus = await audit([...SIGNED.slice(0, 300), 7, ...SIGNED.slice(300)], ROOTS);
    expect(bogus.gaps).toMatchObject([{ index: 300, count: 0 }]);
    expect(told(bogus)).toEqual([]);
    const atEnd = await audit([...SIGNED.slice(0, 990), 10], ROOTS);
    expect(atEnd).toMatchObject({ ...INTACT, gaps: [{ index: 990, count: 10, proven: true }] });
  });

  test('[R-907] proves nothing once the tree has lost its hashes too', async () => {
    const verdict = await audit(
      [...SIGNED.slice(0, 300), 1, ...SIGNED.slice(301)],
      ROOTS,
      stored(new Map(), TREE, 200),
    );
    expect(verdict.roots.map(({ log }) => log)).toEqual(['agrees', 'agrees', 'agrees', 'unknown', 'unknown']);
    expect(verdict.gaps).toMatchObject([{ index: 300, count: 1, proven: false }]);
  });
});
