import fc from 'fast-check';
import { expect, test } from 'vitest';
import { tilePath, tilesOf, type Tile } from '../../src/tree/merkle.js';

test('[R-910] the paths of the specification (C2SP tlog-tiles)', () => {
  expect(tilePath(0, 1_234_067, 256)).toBe('tile/0/x001/x234/067');
  expect(tilePath('entries', 1_234_067, 256)).toBe('tile/entries/x001/x234/067');
  expect(tilePath(0, 273, 112)).toBe('tile/0/273.p/112');
});

test('[R-910] the tiles that the specification names of a tree of 70,000 and of 256', () => {
  const of = (size: number, level: number): Tile[] =>
    [...tilesOf(size)].filter((tile) => tile.level === level);
  const widths = (tiles: readonly Tile[]): number[] => tiles.map(({ width }) => width);
  expect(widths(of(70_000, 0))).toEqual([...new Array<number>(273).fill(256), 112]);
  expect(widths(of(70_000, 1))).toEqual([256, 17]);
  expect(widths(of(70_000, 2))).toEqual([1]);
  expect(of(70_000, 3)).toEqual([]);
  expect([...tilesOf(256)]).toEqual([
    { level: 0, index: 0, width: 256 },
    { level: 1, index: 0, width: 1 },
  ]);
});

test('[R-908] a tree has only full tiles and at most one partial tile a level, in order', () => {
  expect([...tilesOf(0)]).toEqual([]);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 300_000 }), (size) => {
      const tiles = [...tilesOf(size)];
      for (let level = 0; 256 ** level <= size; level++) {
        const row = tiles.filter((tile) => tile.level === level);
        expect(row.map(({ index }) => index)).toEqual(row.map((_, index) => index));
        expect(row.slice(0, -1).every(({ width }) => width === 256)).toBe(true);
        expect(row.reduce((hashes, { width }) => hashes + width, 0)).toBe(Math.floor(size / 256 ** level));
      }
      expect(tiles.every(({ level, width }) => 256 ** level <= size && width >= 1 && width <= 256)).toBe(
        true,
      );
    }),
    { numRuns: 30 },
  );
});

test('a path of any length contains its index, and no path is a directory of another', () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), fc.integer({ min: 1, max: 256 }), (index, width) => {
      const path = tilePath(3, index, width);
      expect(path).toMatch(/^tile\/3\/(x\d{3}\/)*\d{3}(\.p\/[1-9]\d*)?$/);
      const [, digits = ''] = /^tile\/3\/([x\d/]+)/.exec(path) ?? [];
      expect(Number(digits.replace(/[x/]/g, ''))).toBe(index);
      expect(digits.startsWith('x000')).toBe(false);
    }),
  );
});

test('impossible tiles have no path', () => {
  for (const [level, index, width] of [
    [-1, 0, 256],
    [64, 0, 256],
    [0.5, 0, 256],
    [0, -1, 256],
    [0, 0.5, 256],
    [0, 2 ** 53, 256],
    [0, 0, 0],
    [0, 0, 257],
  ] as const) {
    expect(() => tilePath(level, index, width)).toThrow(RangeError);
  }
});
