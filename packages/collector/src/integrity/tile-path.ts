/**
 * What a log of a given size is made of when it is served as tiles, and the name of each (C2SP tlog-tiles). Pure.
 */
import { TILE_HASHES } from './merkle.js';

/** `width` hashes of a level, or entries, from number `index` * 256 on. A full tile is 256 wide. */
export interface Tile {
  readonly level: number;
  readonly index: number;
  readonly width: number;
}

const HIGHEST_LEVEL = 63;

/**
 * The path of a tile, or of the bundle of entries below a tile of level 0, relative to the log's prefix:
 * `tile/<level>/<index>[.p/<width>]`, without the suffix when the tile is full.
 * @throws RangeError for what cannot be a tile: a level above 63, a width that is not from 1 to 256.
 */
export function tilePath(level: number | 'entries', index: number, width: number): string {
  const whole = (value: number, least: number, most: number): boolean =>
    Number.isInteger(value) && value >= least && value <= most;
  if (
    !(level === 'entries' || whole(level, 0, HIGHEST_LEVEL)) ||
    !whole(index, 0, Number.MAX_SAFE_INTEGER) ||
    !whole(width, 1, TILE_HASHES)
  ) {
    throw new RangeError(`there is no tile ${index} of width ${width} in level ${level}`);
  }
  // Groups of three digits, all but the last marked: no name is both a file and a directory.
  let path = String(index % 1000).padStart(3, '0');
  for (let rest = Math.floor(index / 1000); rest > 0; rest = Math.floor(rest / 1000)) {
    path = `x${String(rest % 1000).padStart(3, '0')}/${path}`;
  }
  return `tile/${level}/${path}${width < TILE_HASHES ? `.p/${width}` : ''}`;
}

/**
 * Every tile of a tree of so many leaves, level by level from the leaves up: the full ones, and the partial one at
 * the end when there is one. The bundles of entries are those of level 0.
 */
export function* tilesOf(size: number): Generator<Tile, void, undefined> {
  for (let level = 0, hashes = size; hashes > 0; level++, hashes = Math.floor(hashes / TILE_HASHES)) {
    const full = Math.floor(hashes / TILE_HASHES);
    for (let index = 0; index < full; index++) yield { level, index, width: TILE_HASHES };
    const width = hashes % TILE_HASHES;
    if (width > 0) yield { level, index: full, width };
  }
}
