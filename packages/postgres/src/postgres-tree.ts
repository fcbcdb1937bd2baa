/**
 * The tree of a PostgreSQL log (TreeStore of the collector's store/contract). A row is a tile: up to 256
 * hashes of a level. Several sequencers may write the same hashes, which are equal: a write overlays another
 * and never shortens it.
 */
import { HASH_BYTES, TILE_HASHES } from '@clinical-events/collector/tree/merkle';
import { HeadMoved, type TreeStore } from '@clinical-events/collector/store/contract/tree';
import { byteaArray, bytesOf, int2Array, int4Array, int8Array } from './binary.js';
import type { ReadingConnection } from './connection.js';
import { sql } from './sql.js';

interface Tile {
  readonly tile: number;
  /** Offset in the tile, in bytes. */
  readonly at: number;
  readonly hashes: Buffer;
}

export class PostgresTree implements TreeStore {
  readonly #connection: ReadingConnection;

  /** @param connection `close` closes it. */
  constructor(connection: ReadingConnection) {
    this.#connection = connection;
  }

  async hashes(level: number, first: number, count: number): Promise<Buffer> {
    const from = Math.floor(first / TILE_HASHES);
    const last = Math.floor((first + Math.max(1, count) - 1) / TILE_HASHES);
    const { rows } = await this.#connection.query(sql('tiles'), [level, from, last]);
    const found: Buffer[] = [];
    for (const [i, [tile, hashes]] of rows.entries()) {
      // Tiles after one that is missing or incomplete do not count.
      if (Number(tile) !== from + i) break;
      found.push(bytesOf(hashes ?? ''));
      if (found[i]?.length !== TILE_HASHES * HASH_BYTES) break;
    }
    const at = (first - from * TILE_HASHES) * HASH_BYTES;
    return Buffer.concat(found).subarray(at, at + count * HASH_BYTES);
  }

  async hashCount(level: number): Promise<number> {
    const [[tile, bytes] = []] = (await this.#connection.query(sql('last_tile'), [level])).rows;
    return tile === undefined ? 0 : Number(tile) * TILE_HASHES + Number(bytes) / HASH_BYTES;
  }

  /** Writes hashes. They are durable on return. */
  async put(level: number, first: number, hashes: Buffer): Promise<void> {
    const [begun, filled] = [new Array<Tile>(), new Array<Tile>()];
    for (const tile of tilesOf(first, hashes)) (tile.at === 0 ? begun : filled).push(tile);
    if (filled.length > 0) {
      const { count } = await this.#connection.query(sql('fill_tiles'), parametersOf(level, filled));
      if (count < filled.length) throw new Error(`earlier hashes of level ${level} are missing`);
    }
    if (begun.length > 0) await this.#connection.query(sql('begin_tiles'), parametersOf(level, begun));
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  async head(): Promise<string | undefined> {
    return (await this.#connection.query(sql('published'))).rows[0]?.[0] ?? undefined;
  }

  async swapHead(expected: string | undefined, note: string, keptSize?: number): Promise<void> {
    // The checkpoint is kept before the swap: one that is never published does no harm.
    if (expected !== undefined && (await this.head()) !== expected) throw moved();
    if (keptSize !== undefined) await this.#connection.query(sql('keep_checkpoint'), [keptSize, note]);
    const { count } =
      expected === undefined
        ? await this.#connection.query(sql('publish_first'), [note])
        : await this.#connection.query(sql('publish_next'), [expected, note]);
    if (count !== 1) throw moved();
  }

  /** The kept checkpoints, by size. */
  async checkpoints(): Promise<{ readonly size: number; readonly note: string }[]> {
    const { rows } = await this.#connection.query(sql('checkpoints'));
    return rows.map(([size, note]) => ({ size: Number(size), note: note ?? '' }));
  }

  close(): Promise<void> {
    return this.#connection.close();
  }
}

function moved(): HeadMoved {
  return new HeadMoved('another collector published a checkpoint since this one read the newest');
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
