/** The requirements of every driver of the tree and of its source (src/store/contract.ts), as one suite. */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BEGINNING, type Committed, type Cursor, type Store } from '../../src/store/contract/events.js';
import { HeadMoved, type TreeReader, type TreeStore } from '../../src/store/contract/tree.js';
import { HASH_BYTES, leafHash } from '../../src/tree/merkle.js';
import { candidate, envelopeOf, type Made } from './candidate.js';

/** One place where a tree can be kept, empty at first. */
interface TreePlace {
  open(): Promise<TreeStore>;
  /** Beside the one that is open. */
  read(): TreeReader;
  remove(): Promise<void>;
}

export interface TreeDriver {
  readonly name: string;
  makePlace(): TreePlace | Promise<TreePlace>;
}

export function treeConformance(driver: TreeDriver): void {
  describe(driver.name, () => {
    let place: TreePlace;
    let tree: TreeStore;

    beforeEach(async () => {
      place = await driver.makePlace();
      tree = await place.open();
    });
    afterEach(async () => {
      await tree.close();
      await place.remove();
    });

    test('returns the hashes of each level, also after it was closed, and no more than are there', async () => {
      const [leaves, nodes] = [randomBytes(300 * 32), randomBytes(32)];
      await tree.put(0, 0, leaves.subarray(0, 200 * 32));
      await tree.put(0, 200, leaves.subarray(200 * 32));
      await tree.put(1, 0, nodes);
      await tree.flush();
      const check = async (reader: TreeReader) => {
        expect((await reader.hashes(0, 0, 300)).equals(leaves)).toBe(true);
        expect(await reader.hashes(0, 299, 5)).toEqual(leaves.subarray(299 * 32));
        expect(await reader.hashes(1, 0, 9)).toEqual(nodes);
        expect(await reader.hashes(2, 0, 1)).toHaveLength(0);
        expect([await reader.hashCount(0), await reader.hashCount(1), await reader.hashCount(2)]).toEqual([
          300, 1, 0,
        ]);
      };
      await check(tree);
      await tree.close();
      tree = await place.open();
      await check(tree);
      const beside = place.read();
      await check(beside);
      await beside.close();
    });

    test('overwrites hashes', async () => {
      await tree.put(0, 0, randomBytes(10 * 32));
      const over = randomBytes(4 * 32);
      await tree.put(0, 3, over);
      await tree.flush();
      expect((await tree.hashes(0, 3, 4)).equals(over)).toBe(true);
      expect(await tree.hashCount(0)).toBe(10);
    });

    test('returns hashes in memory of the caller’s own', async () => {
      const hashes = randomBytes(64);
      await tree.put(0, 0, hashes);
      (await tree.hashes(0, 0, 2)).fill(0);
      expect((await tree.hashes(0, 0, 2)).equals(hashes)).toBe(true);
    });

    test('[R-903] swaps the head only for the expected one, and otherwise changes nothing', async () => {
      expect(await tree.head()).toBeUndefined();
      await expect(tree.swapHead('never there\n', 'one\n')).rejects.toThrow(HeadMoved);
      expect(await tree.head()).toBeUndefined();
      await tree.swapHead(undefined, 'one\n');
      await expect(tree.swapHead(undefined, 'other\n', 7)).rejects.toThrow(HeadMoved);
      await tree.swapHead('one\n', 'two\n', 2);
      await tree.swapHead('two\n', 'two\n', 2);
      await expect(tree.swapHead('one\n', 'three\n')).rejects.toThrow(HeadMoved);
      expect(await tree.head()).toBe('two\n');
      await tree.close();
      tree = await place.open();
      expect([await tree.head(), await place.read().head()]).toEqual(['two\n', 'two\n']);
    });
  });
}

export interface CommittedDriver {
  readonly name: string;
  open(): Promise<{ store: Store; committed: Committed; close(): Promise<void> }>;
}

async function passed(committed: Committed, from: Cursor): Promise<{ leaves: string[]; end: Cursor }> {
  const leaves: string[] = [];
  const batches = committed.pass(from);
  for (;;) {
    const next = await batches.next();
    if (next.done === true) return { leaves, end: next.value };
    for (const entry of next.value) {
      const hash = Buffer.alloc(HASH_BYTES);
      entry.hashLeaf(hash, 0);
      leaves.push(`${entry.sequence} ${hash.toString('hex')}`);
    }
  }
}

export function committedConformance(driver: CommittedDriver): void {
  describe(driver.name, () => {
    let opened: Awaited<ReturnType<CommittedDriver['open']>>;
    beforeEach(async () => {
      opened = await driver.open();
    });
    afterEach(() => opened.close());

    const expected = (events: readonly Made[], from = 1) =>
      events
        .map((event, i) => {
          const hash = Buffer.alloc(HASH_BYTES);
          leafHash(envelopeOf(event), event.commitment, hash, 0);
          return `${i + 1} ${hash.toString('hex')}`;
        })
        .slice(from - 1);

    test('[R-901] passes every accepted entry once, in order, from any cursor', async () => {
      const { store, committed } = opened;
      expect(committed.entries).toBe(0);
      expect(await passed(committed, BEGINNING)).toMatchObject({ leaves: [], end: { sequence: 1 } });
      const events = Array.from({ length: 2500 }, (_, i) =>
        candidate({ body: { i, filler: 'x'.repeat(i % 700 === 0 ? 300_000 : i % 90) } }),
      );
      let cursor: Cursor = BEGINNING;
      for (let from = 0; from < events.length; from += 400) {
        const batch = events.slice(from, from + 400);
        // Repeats are no entries.
        await store.append([...batch, ...batch.slice(0, 3)]);
        const { leaves, end } = await passed(committed, cursor);
        expect(leaves).toEqual(expected(events.slice(0, from + 400), from + 1));
        cursor = end;
      }
      expect(committed.entries).toBe(events.length);
      // Without the hint of a pass, as after a start.
      for (const sequence of [1, 2, 1025, 2500, 2501]) {
        const { leaves, end } = await passed(committed, { sequence, at: 0 });
        expect(leaves).toEqual(expected(events, sequence));
        expect(end.sequence).toBe(2501);
      }
    });

    test('passes entries that were durable when it began, and not later ones', async () => {
      const { store, committed } = opened;
      const events = Array.from({ length: 3000 }, () => candidate());
      for (let from = 0; from < 2000; from += 1000) await store.append(events.slice(from, from + 1000));
      const batches = committed.pass(BEGINNING);
      const sequences: number[] = [];
      let isFirst = true;
      for await (const batch of batches) {
        for (const { sequence } of batch) sequences.push(sequence);
        if (isFirst) await store.append(events.slice(2000));
        isFirst = false;
      }
      expect(sequences).toEqual(Array.from({ length: 2000 }, (_, i) => i + 1));
      expect(committed.entries).toBe(3000);
    });
  });
}
