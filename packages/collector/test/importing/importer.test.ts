import { hash, randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { isKeyId, newKeyId } from '../../src/access/key-ring.js';
import { BatchBuilder, BlockPool, type PreparedBatch } from '../../src/importing/batch.js';
import { Importer, IMPORT_KEY_ID } from '../../src/importing/importer.js';
import type { Refusal } from '../../src/importing/line-fault.js';
import { EmbeddedStore } from '../../src/store/embedded/embedded-store.js';
import { CommitUnknown, NotCommitted, type Candidate, type Store } from '../../src/store/contract.js';
import { outcomeText } from '../running/sample-events.js';
import { uuidBytes } from '../store/candidate.js';
import { published } from '../store/embedded/fake-id-index.js';
import { MemoryDisk } from '../store/embedded/memory-disk.js';

vi.mock('../../src/store/embedded/id-index/id-index.js', () => import('../store/embedded/fake-id-index.js'));
vi.mock(
  '../../src/store/embedded/id-index/run-directory.js',
  () => import('../store/embedded/fake-id-index.js'),
);

interface Offer {
  readonly id: string;
  readonly body?: string;
  readonly organisation?: string;
}

const NO_ID = new Uint8Array(16);

/** A batch of events, one a line, from a line on. */
function batch(
  firstLine: number,
  offers: readonly Offer[],
  refusals: readonly Refusal[] = [],
): PreparedBatch {
  const builder = new BatchBuilder(firstLine, new BlockPool());
  for (const [i, { id, body = outcomeText('1', id), organisation = 'default' }] of offers.entries()) {
    builder.add({
      ...{ kind: 'outcome', profile: 'minimum', organisation, line: firstLine + i, lineText: undefined },
      ...{ eventId: uuidBytes(id), runId: NO_ID, parentId: NO_ID, body: Buffer.from(body) },
    });
  }
  for (const refusal of refusals) builder.refuse(refusal);
  const lines = firstLine + offers.length - 1;
  return builder.cut(0, { lines, empty: 0, fixed: 0, bytesRead: 0, whole: undefined });
}

class Kept {
  told: Refusal[] = [];
  write(_input: string, refusals: readonly Refusal[]): void {
    this.told.push(...refusals);
  }
}

let rejects: Kept;
/** What the store accepted. */
let accepted: Candidate[];

beforeEach(() => {
  rejects = new Kept();
  accepted = [];
  published.clear();
});

/** Notes what is accepted. */
function noting(store: Store): Store {
  return {
    append: async (batch) => {
      const outcomes = await store.append(batch);
      accepted.push(...batch.filter((_, i) => outcomes[i] === 'accepted'));
      return outcomes;
    },
    look: () => store.look(),
    prove: () => store.prove(),
    close: () => store.close(),
  };
}

function importerInto(store: Store): Importer {
  return new Importer({ inputs: ['events.ndjson'], store: noting(store), rejects });
}

async function storeOn(disk: MemoryDisk): Promise<EmbeddedStore> {
  const onTrouble = () => undefined;
  return EmbeddedStore.open({ directory: '/data', segmentBytes: 64 << 10, files: disk.files, onTrouble });
}

describe('an importer [R-714]', () => {
  test('stores under a key id that no key can have', async () => {
    expect(isKeyId(IMPORT_KEY_ID)).toBe(false);
    expect(IMPORT_KEY_ID).toHaveLength(newKeyId().length);
    await importerInto(await storeOn(new MemoryDisk())).take(batch(1, [{ id: randomUUID() }]));
    expect(accepted).toMatchObject([{ keyId: IMPORT_KEY_ID }]);
    expect(Date.now() - (accepted[0]?.receivedAt ?? 0)).toBeLessThan(10_000);
  });

  test('salts each event anew and commits to salt and body', async () => {
    const [one, two] = [randomUUID(), randomUUID()];
    const importer = importerInto(await storeOn(new MemoryDisk()));
    await importer.take(
      batch(1, [
        { id: one, body: '{}' },
        { id: two, body: '{}' },
      ]),
    );
    const [first, second] = accepted;
    expect(first?.commitment).toEqual(hash('sha256', first?.salted ?? '', 'buffer'));
    expect(first?.commitment).not.toEqual(second?.commitment);
  });

  test('counts what is stored and what was, and tells of what contradicts', async () => {
    const [one, two, three] = [randomUUID(), randomUUID(), randomUUID()];
    const importer = importerInto(await storeOn(new MemoryDisk()));
    await importer.take(batch(1, [{ id: one }, { id: two }, { id: one }, { id: one, organisation: 'ward' }]));
    const refusal: Refusal = { line: 6, code: 'invalid_json', outcome: 'rejected', bytes: Buffer.from('{') };
    const other = outcomeText('2', one);
    const reordered = JSON.stringify(
      Object.fromEntries(Object.entries(JSON.parse(outcomeText('1', two)) as object).reverse()),
    );
    await importer.take(
      batch(5, [{ id: one, body: other }, { id: two, body: reordered }, { id: three }], [refusal]),
    );
    expect(importer.tallies).toMatchObject([{ lines: 7, stored: 4, repeats: 2, refused: 2 }]);
    expect([...importer.refused]).toEqual([
      ['event_id_conflict', 1],
      ['invalid_json', 1],
    ]);
    expect(rejects.told).toMatchObject([
      { line: 5, code: 'event_id_conflict', outcome: 'conflict', eventId: one, bytes: Buffer.from(other) },
      { line: 6, code: 'invalid_json', outcome: 'rejected' },
    ]);
    expect(accepted).toHaveLength(4);
  });

  test('tells of an event whose stored place cannot be read', async () => {
    const id = randomUUID();
    const store: Store = {
      append: (all) => all.map(() => 'unreadable'),
      look: () => undefined,
      prove: () => Promise.resolve(),
      close: () => Promise.resolve(),
    };
    const importer = importerInto(store);
    await importer.take(batch(1, [{ id }]));
    expect(rejects.told).toMatchObject([{ line: 1, code: 'internal', outcome: 'unreadable', eventId: id }]);
    expect(importer.unreadable).toBe(1);
  });

  test('counts and tells nothing of a batch that a full disk did not take, and goes on from there when run again', async () => {
    const disk = new MemoryDisk();
    const importer = importerInto(await storeOn(disk));
    const batches = Array.from({ length: 40 }, (_, i) =>
      batch(
        1 + 50 * i,
        Array.from({ length: 50 }, () => ({ id: randomUUID() })),
        [{ line: 50 * i + 50, code: 'invalid_json', outcome: 'rejected', bytes: undefined }],
      ),
    );
    disk.capacity = 400_000;
    let taken = 0;
    const failure = await (async () => {
      for (const each of batches) {
        await importer.take(each);
        taken++;
      }
    })().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(NotCommitted);
    expect(taken).toBeGreaterThan(0);
    expect(importer.tallies).toMatchObject([{ lines: 50 * taken, stored: 50 * taken, refused: taken }]);
    expect(rejects.told).toHaveLength(taken);
    expect(accepted).toHaveLength(50 * taken);

    disk.capacity = Infinity;
    const again = importerInto(await storeOn(disk.afterKill()));
    for (const each of batches) await again.take(each);
    expect(again.tallies).toMatchObject([{ stored: 2000 - 50 * taken, repeats: 50 * taken }]);
  });

  test('ends where nobody can know what was stored', async () => {
    const disk = new MemoryDisk();
    const importer = importerInto(await storeOn(disk));
    disk.fail('datasync', 1, 'before');
    await expect(importer.take(batch(1, [{ id: randomUUID() }]))).rejects.toThrow(CommitUnknown);
    expect(importer.tallies).toMatchObject([{ stored: 0 }]);
  });

  test('stores nothing in a dry run, and tells of refusals all the same', async () => {
    const importer = new Importer({ inputs: ['events.ndjson'], store: undefined, rejects });
    const refusal: Refusal = { line: 2, code: 'invalid_json', outcome: 'rejected', bytes: undefined };
    await importer.take(batch(1, [{ id: randomUUID() }], [refusal]));
    expect(importer.tallies).toMatchObject([{ stored: 1, refused: 1 }]);
    expect(rejects.told).toEqual([refusal]);
  });
});
