/**
 * The tree of a PostgreSQL log (src/store/contract/, TreeStore). A row is a tile: 256 hashes of a level, or as many as
 * there are. Several sequencers may put the same hashes. They are the same wherever they come from, so that what one
 * puts is laid over what another has put, and never shortens it.
 */
import { HASH_BYTES, TILE_HASHES } from '@clinical-events/collector/tree/merkle';
import { HeadMoved, type TreeStore } from '@clinical-events/collector/store/contract/tree';
import { byteaArray, bytesOf, int2Array, int4Array, int8Array } from './binary.js';
import type { ReadingConnection } from './connection.js';

const HASHES = 'SELECT tile, hashes FROM tiles WHERE level = $1 AND tile BETWEEN $2 AND $3 ORDER BY tile';
const COUNT = 'SELECT tile, length(hashes) FROM tiles WHERE level = $1 ORDER BY tile DESC LIMIT 1';
const TILES = 'unnest($1::smallint[], $2::bigint[], $3::int[], $4::bytea[]) AS p (level, tile, at, hashes)';
const BEGIN_TILES = `
INSERT INTO tiles AS t (level, tile, hashes) SELECT level, tile, hashes FROM ${TILES}
ON CONFLICT (level, tile) DO UPDATE SET hashes = overlay(t.hashes PLACING excluded.hashes FROM 1)`;
const FILL_TILES = `
UPDATE tiles t SET hashes = overlay(t.hashes PLACING p.hashes FROM p.at + 1) FROM ${TILES}
WHERE t.level = p.level AND t.tile = p.tile AND length(t.hashes) >= p.at`;
const HEAD = 'SELECT note FROM published';
const FIRST_HEAD = 'INSERT INTO published (note) VALUES ($1) ON CONFLICT DO NOTHING';
const SWAP = 'UPDATE published SET note = $2, signed_at = clock_timestamp() WHERE note = $1';
const KEEP = 'INSERT INTO checkpoints (size, note) VALUES ($1, $2) ON CONFLICT (size) DO NOTHING';

interface Tile {
  readonly tile: number;
  /** In bytes of the tile. */
  readonly at: number;
  readonly hashes: Buffer;
}

export class PostgresTree implements TreeStore {
  readonly #connection: ReadingConnection;

  /** @param connection is closed with it. */
  constructor(connection: ReadingConnection) {
    this.#connection = connection;
  }

  async hashes(level: number, first: number, count: number): Promise<Buffer> {
    const from = Math.floor(first / TILE_HASHES);
    const { rows } = await this.#connection.query(HASHES, [
      ...[level, from, Math.floor((first + Math.max(1, count) - 1) / TILE_HASHES)],
    ]);
    const found: Buffer[] = [];
    for (const [i, [tile, hashes]] of rows.entries()) {
      // Behind a tile that is missing or not full, nothing counts.
      if (Number(tile) !== from + i) break;
      found.push(bytesOf(hashes ?? ''));
      if (found[i]?.length !== TILE_HASHES * HASH_BYTES) break;
    }
    const at = (first - from * TILE_HASHES) * HASH_BYTES;
    return Buffer.concat(found).subarray(at, at + count * HASH_BYTES);
  }

  async hashCount(level: number): Promise<number> {
    const [[tile, bytes] = []] = (await this.#connection.query(COUNT, [level])).rows;
    return tile === undefined ? 0 : Number(tile) * TILE_HASHES + Number(bytes) / HASH_BYTES;
  }

  /** On stable storage at once. */
  async put(level: number, first: number, hashes: Buffer): Promise<void> {
    const [begun, filled] = [new Array<Tile>(), new Array<Tile>()];
    for (const tile of tilesOf(first, hashes)) (tile.at === 0 ? begun : filled).push(tile);
    if (filled.length > 0) {
      const { count } = await this.#connection.query(FILL_TILES, parametersOf(level, filled));
      if (count < filled.length) throw new Error(`hashes in front of those of level ${level} are missing`);
    }
    if (begun.length > 0) await this.#connection.query(BEGIN_TILES, parametersOf(level, begun));
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  async head(): Promise<string | undefined> {
    return (await this.#connection.query(HEAD)).rows[0]?.[0] ?? undefined;
  }

  async swapHead(expected: string | undefined, note: string, keptSize?: number): Promise<void> {
    // Kept first: a checkpoint that was given to no one does no harm. Only one that was signed has a size.
    if (expected !== undefined && (await this.head()) !== expected) throw moved();
    if (keptSize !== undefined) await this.#connection.query(KEEP, [keptSize, note]);
    const { count } =
      expected === undefined
        ? await this.#connection.query(FIRST_HEAD, [note])
        : await this.#connection.query(SWAP, [expected, note]);
    if (count !== 1) throw moved();
  }

  /** Those that are kept, by their size. */
  async checkpoints(): Promise<{ readonly size: number; readonly note: string }[]> {
    const { rows } = await this.#connection.query('SELECT size, note FROM checkpoints ORDER BY size');
    return rows.map(([size, note]) => ({ size: Number(size), note: note ?? '' }));
  }

  close(): Promise<void> {
    return this.#connection.close();
  }
}

function moved(): HeadMoved {
  return new HeadMoved('the newest checkpoint is not the one that this collector has seen last');
}

function* tilesOf(first: number, hashes: Buffer): Generator<Tile> {
  for (let done = 0; done < hashes.length;) {
    const place = first + done / HASH_BYTES;
    const tile = Math.floor(place / TILE_HASHES);
    const at = (place - tile * TILE_HASHES) * HASH_BYTES;
    const bytes = Math.min(TILE_HASHES * HASH_BYTES - at, hashes.length - done);
    yield { tile, at, hashes: hashes.subarray(done, done + bytes) };
    done += bytes;
  }
}

function parametersOf(level: number, tiles: readonly Tile[]): Buffer[] {
  return [
    int2Array(tiles.map(() => level)),
    int8Array(tiles.map(({ tile }) => tile)),
    int4Array(tiles.map(({ at }) => at)),
    byteaArray(tiles.map(({ hashes }) => hashes)),
  ];
}
