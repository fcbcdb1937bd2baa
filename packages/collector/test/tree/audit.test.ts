import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Audit, type StoredTree, type Verdict, type SignedRoot } from '../../src/tree/audit.js';
import { mth, sha256 } from '../../../protocol/test/verify/rfc-tree.js';
import { leaves, levelsOf } from './rfc-tree.js';
import { runs } from '../../../../test/property-runs.js';

const SIZE = 1_000;
const SIGNED = leaves(SIZE);
const TREE = levelsOf(SIGNED);

/** The tree as it is stored, or with some of its hashes replaced by others, or its level 0 cut short. */
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
  let [place, piece] = [0, 0];
  const flush = async () => {
    const places = waiting.map((_, i) => place - waiting.length + i);
    await auditing.leaves(Buffer.concat(waiting), places, waiting.length);
    waiting = [];
    piece++;
  };
  for (const item of log) {
    if (typeof item === 'number') {
      await flush();
      await auditing.gap(item);
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

/** Where log and stored leaves differ. */
function told({ differing }: Pick<Verdict<SignedRoot>, 'differing'>): string[] {
  return differing.map(({ index, count }) => `${index}+${count}`);
}

function agreed(verdict: Verdict<SignedRoot>): boolean[] {
  return verdict.roots.map(({ log }) => log === 'agrees');
}

const INTACT = { differing: [], hashes: [], shortages: [], unlisted: 0 };
const ALL = ROOTS.map(() => true);

describe('an audit', () => {
  test('[R-907] finds a log with the signed entries intact, in whatever pieces it is read', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1 }),
        fc.uniqueArray(fc.integer({ min: 0, max: SIZE }), { minLength: 1 }),
        fc.integer({ min: 0, max: 20 }),
        async (pieces, sizes, unsigned) => {
          const roots = sizes.map((size) => rootOf(size));
          const covered = Math.max(...sizes);
          const log = [...SIGNED.slice(0, covered), ...Array.from({ length: unsigned }, stranger)];
          const verdict = await audit(log, roots, stored(), pieces);
          expect(verdict).toMatchObject({ ...INTACT, leaves: log.length, provenTo: covered });
          expect(agreed(verdict)).toEqual(sizes.map(() => true));
        },
      ),
      { numRuns: runs(40) },
    );
  });

  test('[R-907] reports each place with another leaf, neighbours together, and proves all others', async () => {
    const places = fc.uniqueArray(fc.integer({ min: 0, max: SIZE - 1 }), { minLength: 1, maxLength: 9 });
    await fc.assert(
      fc.asyncProperty(places, async (changed) => {
        const log = SIGNED.map((leaf, i) => (changed.includes(i) ? stranger() : leaf));
        const verdict = await audit(log, ROOTS);
        const seen = verdict.differing.flatMap(({ index, count, place }) => {
          expect(place).toBe(index);
          return Array.from({ length: count }, (_, k) => index + k);
        });
        expect(seen).toEqual(changed.toSorted((a, b) => a - b));
        expect(verdict).toMatchObject({ provenTo: SIZE, hashes: [] });
        expect(verdict.roots.every(({ log: of, tree }) => of === 'agrees' || tree)).toBe(true);
      }),
      { numRuns: runs(40) },
    );
    expect(told(await audit(SIGNED.map(stranger), [rootOf(SIZE)]))).toEqual([`0+${SIZE}`]);
  });

  test('[R-907] reports where a log begins to differ when entries were removed or inserted', async () => {
    for (const [at, removed, put] of [
      [0, 1, 0],
      [400, 300, 0],
      [10, 0, 1],
      [997, 1, 0],
    ] as const) {
      const log = SIGNED.toSpliced(at, removed, ...Array.from({ length: put }, stranger));
      const { differing, leaves: held, provenTo } = await audit(log, [rootOf(SIZE)]);
      expect([differing[0]?.index, held, provenTo]).toEqual([at, log.length, SIZE]);
      expect(told({ differing })).toEqual([`${at}+${Math.min(SIZE, log.length) - at}`]);
    }
    const short = await audit(SIGNED.slice(0, 900), ROOTS);
    expect(short).toMatchObject({ ...INTACT, leaves: 900, provenTo: SIZE });
    expect(short.roots.at(-1)).toMatchObject({ log: 'short', tree: true });
  });

  test('[R-907] never finds another log intact', async () => {
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
        expect(agreed(verdict)).toEqual([same]);
        expect(verdict.differing.length === 0 && log.length >= 20).toBe(same);
      }),
      { numRuns: runs(500) },
    );
  });
});

describe('an audit of the stored tree', () => {
  test('[R-907] reports a changed hash at every level, and that the log is intact', async () => {
    const levels: [number, number][] = [
      ...Array.from({ length: SIZE }, (_, i): [number, number] => [0, i]).filter(([, i]) => i % 61 === 0),
      [0, SIZE - 1],
      [1, 0],
      [1, 1],
      [1, 2],
    ];
    for (const [level, index] of levels) {
      const verdict = await audit(SIGNED, ROOTS, stored(new Map([[`${level}/${index}`, stranger()]])));
      expect(verdict).toMatchObject({ ...INTACT, hashes: [{ level, index, count: 1 }] });
      expect(agreed(verdict)).toEqual(ALL);
    }
  });

  test('[R-907] reports levels that are cut short, and that the log is intact', async () => {
    for (const [there, above] of [
      [600, 2],
      [0, 0],
    ] as const) {
      const verdict = await audit(SIGNED, ROOTS, stored(new Map(), TREE, there));
      const shortages = [
        { level: 0, there },
        { level: 1, there: above },
      ];
      expect(verdict).toMatchObject({ ...INTACT, shortages });
      expect(agreed(verdict)).toEqual(ALL);
    }
  });

  test('[R-907] does not check beyond the signed size, where a collector may be writing', async () => {
    const changed = new Map([
      ['0/700', stranger()],
      ['1/2', stranger()],
    ]);
    for (const tree of [stored(changed), stored(new Map(), TREE, 700)]) {
      expect(await audit(SIGNED, [rootOf(700)], tree)).toMatchObject({ ...INTACT, leaves: SIZE });
    }
  });

  test('[R-907] distinguishes a changed hash from a changed event when there are both', async () => {
    const changed = new Map([
      ['0/100', stranger()],
      ['1/0', stranger()],
      ['1/2', stranger()],
    ]);
    const verdict = await audit(SIGNED.with(800, stranger()), ROOTS, stored(changed));
    expect([told(verdict), verdict.provenTo]).toEqual([['800+1'], SIZE]);
    expect(verdict.hashes).toEqual([
      { level: 0, index: 100, count: 1 },
      { level: 1, index: 0, count: 1 },
      { level: 1, index: 2, count: 1 },
    ]);
    // Events on both sides of a root that the log matches are not reported together.
    const around = new Map([['0/699', stranger()]]);
    const parted = await audit(SIGNED.with(700, stranger()), ROOTS, stored(around));
    expect([told(parted), parted.hashes]).toEqual([['700+1'], [{ level: 0, index: 699, count: 1 }]]);
  });

  test('[R-907] does not use stored hashes as a proof when they lead to no signed root', async () => {
    const changed = new Map([['0/900', stranger()]]);
    const verdict = await audit(SIGNED.with(800, stranger()), ROOTS, stored(changed));
    expect([told(verdict), verdict.provenTo]).toEqual([['800+1', '900+1'], 700]);
    expect(verdict.roots.at(-1)).toMatchObject({ log: 'differs', tree: false });
  });
});

describe('an audit of a log that was rebuilt with its tree', () => {
  test('[R-907] reports the largest root that agrees and the smallest that differs', async () => {
    for (const at of [0, 255, 256, 600, 700, 999]) {
      const rebuilt = SIGNED.with(at, stranger());
      const verdict = await audit(rebuilt, ROOTS, stored(new Map(), levelsOf(rebuilt)));
      expect(verdict).toMatchObject(INTACT);
      expect(agreed(verdict)).toEqual(ROOTS.map(({ size }) => size <= at));
      expect(verdict.roots.some(({ log, tree }) => log !== 'agrees' && tree)).toBe(false);
    }
  });

  test('[R-907] reports that it is too short', async () => {
    const rebuilt = SIGNED.toSpliced(300, 1);
    const tree = stored(new Map(), levelsOf(rebuilt), SIZE - 1);
    const verdict = await audit(rebuilt, [rootOf(256), rootOf(SIZE)], tree);
    expect(verdict).toMatchObject({ ...INTACT, leaves: SIZE - 1, provenTo: 256 });
    expect(verdict.roots.map(({ log, tree: of }) => [log, of])).toEqual([
      ['agrees', true],
      ['short', false],
    ]);
  });
});

describe('an entry that cannot be read', () => {
  test('[R-907] is replaced by the hash in the tree: the root proves the rest', async () => {
    for (const at of [300, 0, 900]) {
      const verdict = await audit([...SIGNED.slice(0, at), 100, ...SIGNED.slice(at + 100)], ROOTS);
      expect(verdict).toMatchObject({ ...INTACT, provenTo: SIZE });
      expect(agreed(verdict)).toEqual(ALL);
    }
  });

  test('[R-907] leaves the rest unproven when the tree has lost its hashes too', async () => {
    const log = [...SIGNED.slice(0, 300), 1, ...SIGNED.slice(301)];
    const verdict = await audit(log, ROOTS, stored(new Map(), TREE, 200));
    expect(verdict.roots.map(({ log: of }) => of)).toEqual([
      ...['agrees', 'agrees', 'agrees', 'unknown', 'unknown'],
    ]);
    expect(verdict.provenTo).toBe(256);
  });
});
