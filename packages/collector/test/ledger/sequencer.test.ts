import { generateKeyPairSync, hash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { parseCheckpoint, parseNote } from '@clinical-events/protocol/verify';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { leafHash, rootAt } from '../../src/tree/merkle.js';
import { noteKey, verifierKeyOf, type CheckpointSigner } from '../../src/tree/note-signing.js';
import { signNote } from '../tree/sign-note.js';
import { Sequencer, type SequencerOptions } from '../../src/ledger/sequencer.js';
import { CheckpointContradicted } from '../../src/ledger/signed-tree.js';
import { TreeFiles } from '../../src/store/embedded/tree-files.js';
import type { Committed } from '../../src/store/contract/events.js';
import { candidate, envelopeOf, type Made } from '../store/candidate.js';
import { MemoryDisk, TREE_OPERATIONS, type Manner } from '../store/embedded/memory-disk.js';

const DATA = '/data';
const ORIGIN = 'hospital.example/log';
const LATEST = '/data/checkpoints/latest';
/** Long enough that no test sees a checkpoint that it did not ask for. */
const NEVER = 3_600_000;

function signerOf(origin = ORIGIN): CheckpointSigner {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = noteKey(verifierKeyOf(origin, publicKey));
  return {
    origin,
    keys: [key],
    sign: (text) => Promise.resolve(signNote(text, [{ name: origin, privateKey }])),
  };
}

/** RFC 6962 section 2.1, word for word, over the leaves that leaf.ts describes. */
function rootOf(leaves: readonly Made[]): Buffer {
  const sha256 = (...parts: Uint8Array[]) => hash('sha256', Buffer.concat(parts), 'buffer');
  const only = leaves[0];
  if (only === undefined) return sha256();
  if (leaves.length === 1) {
    const envelope = envelopeOf(only);
    const leaf = [Buffer.of(1), envelope.subarray(6, 14), sha256(envelope), Buffer.from(only.commitment)];
    return sha256(Buffer.of(0), ...leaf);
  }
  let split = 1;
  while (2 * split < leaves.length) split *= 2;
  return sha256(Buffer.of(1), rootOf(leaves.slice(0, split)), rootOf(leaves.slice(split)));
}

function events(count: number): Made[] {
  return Array.from({ length: count }, (_, i) => candidate({ body: { i } }));
}

/** The entries that are durable, as the sequencer reads them, in batches of a few hundred. */
function committedIn(stored: () => readonly Made[]): Committed {
  return {
    get entries() {
      return stored().length;
    },
    // eslint-disable-next-line @typescript-eslint/require-await
    async *pass({ sequence }) {
      const durable = stored().map((event, i) => ({
        sequence: i + 1,
        hashLeaf: (target: Buffer, at: number) => leafHash(envelopeOf(event), event.commitment, target, at),
      }));
      for (let from = sequence - 1; from < durable.length; from += 300) yield durable.slice(from, from + 300);
      return { sequence: durable.length + 1, at: durable.length };
    },
  };
}

/** Runs the timers, and what they start to its end: the sequencer yields to other work at each batch. */
async function elapse(milliseconds: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(milliseconds);
  for (let turns = 0; turns < 30; turns++) await turn();
}

/** A tree over a log in memory, on a disk in memory. */
class World {
  disk = new MemoryDisk();
  stored: Made[] = [];
  signer = signerOf();
  published: string[] = [];
  troubles: string[] = [];
  tree: Sequencer | undefined;

  async open(more: Partial<SequencerOptions> = {}): Promise<Sequencer> {
    this.tree = await Sequencer.open({
      store: TreeFiles.open(DATA, this.disk.files),
      signer: this.signer,
      committed: committedIn(() => this.stored),
      intervalMs: NEVER,
      onCheckpoint: (note) => this.published.push(note),
      onTrouble: (what) => this.troubles.push(what),
      ...more,
    });
    return this.tree;
  }

  /** A batch was stored. */
  add(batch: readonly Made[]): void {
    this.stored.push(...batch);
  }

  /** The newest checkpoint on the disk, its root compared with the events. */
  latest(): { size: number } {
    const checkpoint = parseCheckpoint(parseNote(this.disk.bytesOf(LATEST).toString()).text);
    expect(checkpoint.origin).toBe(ORIGIN);
    expect(Buffer.from(checkpoint.root).equals(rootOf(this.stored.slice(0, checkpoint.size)))).toBe(true);
    return checkpoint;
  }
}

async function refusalOf(opening: Promise<unknown>): Promise<Error> {
  const error: unknown = await opening.then(
    () => new Error('it opened'),
    (reason: unknown) => reason,
  );
  if (error instanceof CheckpointContradicted) return error;
  throw error;
}

describe('the tree over the ledger', () => {
  test('[R-901] is the same over more than a tile, built at once, in parts, and after restarts', async () => {
    const all = events(1500);
    const roots = new Set<string>();
    for (const cuts of [[], [1], [255, 256, 257], [100, 512, 1024, 1499]]) {
      const world = new World();
      await world.open();
      let from = 0;
      for (const cut of [...cuts, all.length]) {
        world.add(all.slice(from, cut));
        await world.tree?.close();
        await world.open();
        from = cut;
      }
      expect(world.troubles).toEqual([]);
      expect(world.latest().size).toBe(all.length);
      roots.add(world.published.at(-1)?.split('\n')[2] ?? '');
    }
    expect([...roots]).toEqual([rootOf(all).toString('base64')]);
  });

  test('[R-903] begins with a signed checkpoint of the empty tree, and signs one per interval while events come', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const world = new World();
    await world.open({ intervalMs: 1000 });
    expect(world.latest().size).toBe(0);
    await elapse(5000);
    expect(world.published).toHaveLength(1);
    for (const count of [3, 1]) {
      world.add(events(count));
      await elapse(1000);
    }
    expect(world.published.map((note) => note.split('\n')[1])).toEqual(['0', '3', '4']);
    await elapse(5000);
    world.add(events(2));
    await world.tree?.close();
    expect(world.latest().size).toBe(6);
    expect(world.published).toHaveLength(4);
    expect(world.published.at(-1)).toBe(world.disk.bytesOf(LATEST).toString());
    expect(world.disk.openDescriptors).toBe(0);
  });

  test('[R-903] stages, signs, swaps the head and publishes, in this order', async () => {
    const steps: string[] = [];
    const world = new World();
    const { signer } = world;
    const signing: CheckpointSigner = {
      ...signer,
      sign: (text) => {
        steps.push('sign');
        return signer.sign(text);
      },
    };
    const tree = await world.open({ signer: signing, onCheckpoint: () => steps.push('publish') });
    world.add(events(300));
    steps.length = 0;
    world.disk.onCall = (operation) => {
      if (operation === 'datasyncLater' || operation === 'replace') steps.push(operation);
    };
    await tree.close();
    // Two levels are flushed; the kept checkpoint is written before the head, so that the head is the last.
    expect(steps).toEqual(['datasyncLater', 'datasyncLater', 'sign', 'replace', 'replace', 'publish']);
  });

  test('[R-903] keeps the first checkpoint of a start, one an hour and the last of an orderly end', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const world = new World();
    await world.open({ intervalMs: 60_000 });
    for (let minute = 0; minute < 150; minute++) {
      world.add(events(1));
      await elapse(60_000);
    }
    world.add(events(5));
    await world.tree?.close();
    const kept = world.disk.fileNames('/data/checkpoints').filter((name) => name !== 'latest');
    expect(kept).toEqual(['0', '60', '120', '155'].map((size) => `${size.padStart(16, '0')}.checkpoint`));
    for (const name of kept) {
      expect(world.published).toContain(world.disk.bytesOf(`/data/checkpoints/${name}`).toString());
    }
  });

  test('[R-903] keeps the last checkpoint of an orderly end also when no event came after it', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const world = new World();
    await world.open({ intervalMs: 1000 });
    world.add(events(7));
    await elapse(1000);
    const kept = '/data/checkpoints/0000000000000007.checkpoint';
    expect(world.disk.fileNames('/data/checkpoints')).not.toContain('0000000000000007.checkpoint');
    await world.tree?.close();
    expect(world.disk.bytesOf(kept).equals(world.disk.bytesOf(LATEST))).toBe(true);
    expect(world.published).toHaveLength(2);
  });

  test('[R-903] does not ask a signer again at the end if it has just failed', async () => {
    const world = new World();
    let asked = 0;
    let fail: (() => void) | undefined;
    const slow: CheckpointSigner = {
      ...world.signer,
      sign: (text) => {
        asked++;
        if (world.published.length === 0) return world.signer.sign(text);
        return new Promise((_, reject) => (fail = () => reject(new Error('KMS'))));
      },
    };
    const tree = await world.open({ signer: slow, intervalMs: 1 });
    world.add(events(1));
    while (fail === undefined) await new Promise((resolve) => setTimeout(resolve, 1));
    const closing = tree.close();
    fail();
    await closing;
    expect(asked).toBe(2);
  });

  test('[R-903] grows while the signer cannot sign, and catches up when it can', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const world = new World();
    const { signer } = world;
    let down = false;
    let asked = 0;
    const moody = {
      ...signer,
      sign: (text: string) => {
        asked++;
        return down ? Promise.reject(new Error('KMS')) : signer.sign(text);
      },
    };
    const tried: string[] = [];
    const onTried: SequencerOptions['onTried'] = (failure) =>
      tried.push(failure === undefined ? 'made' : String(failure.error));
    await world.open({ signer: moody, intervalMs: 1000, onTried });
    down = true;
    for (let i = 0; i < 10; i++) {
      world.add(events(100));
      await elapse(1000);
    }
    expect(world.latest().size).toBe(0);
    expect(new Set(world.troubles)).toEqual(new Set(['no checkpoint could be made; it is tried again']));
    // Its hashes are on the disk meanwhile, and not in memory.
    expect(await TreeFiles.read(DATA, world.disk.files).hashCount(0)).toBe(1000);
    // It is not called at every interval while it fails.
    expect(asked).toBeLessThan(7);
    down = false;
    await elapse(60_000);
    expect(world.latest().size).toBe(1000);
    expect(tried).toEqual([...Array<string>(asked - 2).fill('Error: KMS'), 'made']);
    down = true;
    world.add(events(1));
    await world.tree?.close();
    await world.open({ signer: moody });
    expect(world.latest().size).toBe(1000);
    // But a log that never had a checkpoint cannot begin without one.
    const fresh = new World();
    await expect(fresh.open({ signer: moody })).rejects.toThrow('KMS');
  });
});

test('while another process sequences and signs nothing, checkpoints are not reported as made again', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const world = new World();
  let sequence = () => Promise.resolve(true);
  const shared = { epoch: 1, sequence: () => sequence(), look: () => Promise.resolve() };
  const tried: string[] = [];
  await world.open({
    committed: Object.assign(
      committedIn(() => world.stored),
      { shared },
    ),
    intervalMs: 1000,
    onTried: (failure) => tried.push(failure === undefined ? 'made' : String(failure.error)),
  });
  sequence = () => Promise.reject(new Error('no standby'));
  world.add(events(3));
  await elapse(1000);
  sequence = () => Promise.resolve(false);
  await elapse(1000);
  expect(tried).toEqual(['Error: no standby']);
  sequence = () => Promise.resolve(true);
  await elapse(1000);
  expect(tried).toEqual(['Error: no standby', 'made']);
  await world.tree?.close();
});

test('[R-903] a newest checkpoint that was changed or removed is not replaced, and it is reported', async () => {
  for (const change of [
    (disk: MemoryDisk) => disk.remove(LATEST),
    (disk: MemoryDisk) => disk.put(LATEST, Buffer.from('another\n')),
  ]) {
    const world = new World();
    const failures: string[] = [];
    await world.open({ onTrouble: (_what, error) => failures.push(String(error)) });
    const [first = ''] = world.published;
    change(world.disk);
    const left = world.disk.fileNames('/data/checkpoints');
    world.add(events(3));
    await world.tree?.close();
    expect(failures).toEqual([expect.stringMatching(/checkpoints\/latest is .*another process changed it/)]);
    expect(world.disk.fileNames('/data/checkpoints')).toEqual(left);
    expect(world.published).toEqual([first]);
    // Put back, all of it is signed.
    world.disk.put(LATEST, Buffer.from(first));
    await world.open();
    expect(world.latest().size).toBe(3);
    await world.tree?.close();
  }
});

describe('a crash or a failing disk', () => {
  const MANNERS: readonly Manner[] = ['before', 'partly', 'after'];

  test.each(TREE_OPERATIONS)('[R-901] at any %s leads to the same tree', async (operation) => {
    for (const manner of MANNERS) {
      for (let nth = 1; nth < 60; nth++) {
        const world = new World();
        await world.open();
        world.add(events(200));
        await world.tree?.close();
        world.disk.fail(operation, nth, manner);
        const crashed = await world.open().then(
          async () => {
            world.add(events(150));
            await world.tree?.close();
            return false;
          },
          () => true,
        );
        if (!world.disk.heal()) break;
        for (const disk of [
          world.disk.afterKill(),
          world.disk.afterPowerLoss(),
          world.disk.afterPowerLoss((_, sector) => sector % 3 === nth % 3),
        ]) {
          const next = new World();
          Object.assign(next, { disk, signer: world.signer, stored: [...world.stored] });
          await next.open();
          next.add(events(10));
          await next.tree?.close();
          expect(next.latest().size).toBe(crashed ? 210 : 360);
          // Made again or not, the hashes are right: the next start believes them.
          next.troubles.length = 0;
          await next.open();
          expect(next.troubles).toEqual([]);
        }
      }
    }
  });

  test('whose flush fails writes the same hashes again before a checkpoint is signed', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const world = new World();
    await world.open({ intervalMs: 1000 });
    world.add(events(100));
    world.disk.fail('datasyncLater', 1, 'before');
    await elapse(1000);
    expect(world.latest().size).toBe(0);
    world.disk.heal();
    world.add(events(100));
    await elapse(1000);
    expect(world.latest().size).toBe(200);
    const next = new World();
    Object.assign(next, { disk: world.disk.afterPowerLoss(), signer: world.signer, stored: world.stored });
    await next.open();
    expect(next.troubles).toEqual([]);
  });

  test('[R-903] that was full for a minute delays a checkpoint by one interval only once there is room', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const world = new World();
    await world.open({ intervalMs: 1000 });
    for (let second = 0; second < 60; second++) {
      world.add(events(1));
      world.disk.fail('datasyncLater', 1, 'before');
      await elapse(1000);
      world.disk.heal();
    }
    expect(world.latest().size).toBe(0);
    await elapse(1000);
    expect(world.latest().size).toBe(60);
  });
});

describe('[R-904] a start refuses', () => {
  async function closed(count: number): Promise<World> {
    const world = new World();
    await world.open();
    world.add(events(count));
    await world.tree?.close();
    return world;
  }

  test('a ledger with events whose checkpoint is gone', async () => {
    const world = await closed(3);
    world.disk.remove(LATEST);
    const { message } = await refusalOf(world.open());
    expect(message).toBe(
      'the ledger holds 3 entries, but its newest checkpoint is missing: checkpoints/latest',
    );
  });

  test('a checkpoint that was changed, cut short, or signed by another key or for another log', async () => {
    const world = await closed(3);
    const good = world.disk.bytesOf(LATEST).toString();
    const other = signerOf();
    const text = parseNote(good).text;
    for (const note of [
      good.replace('\n3\n', '\n2\n'),
      good.slice(0, -10),
      '',
      await other.sign(text),
      await world.signer.sign(text.replace(ORIGIN, 'other.example/log')),
    ]) {
      world.disk.put(LATEST, Buffer.from(note));
      const { message } = await refusalOf(world.open());
      expect(message).toBe('checkpoints/latest is not a checkpoint of this log');
    }
    world.disk.put(LATEST, Buffer.from(good));
    await world.open();
  });

  test('events that are not those that were signed, and leaves the hashes that show which', async () => {
    const world = await closed(1000);
    world.stored[500] = candidate();
    // An intact tree is believed; verify looks at every event. Damaged, it is compared with the events.
    const level = '/data/tree/level-0';
    const bytes = world.disk.bytesOf(level);
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    const before = Buffer.from(bytes);
    const { message } = await refusalOf(world.open());
    expect(message).toContain('the first 1000 entries of the log are not those that checkpoints/latest');
    expect(world.disk.bytesOf(level).equals(before)).toBe(true);
  });

  test('nothing when only the hashes were damaged or lost: they are rebuilt', async () => {
    for (const harm of [
      (disk: MemoryDisk) => disk.remove('/data/tree/level-0'),
      (disk: MemoryDisk) => disk.remove('/data/tree/level-1'),
      (disk: MemoryDisk) => disk.bytesOf('/data/tree/level-1').fill(0),
      (disk: MemoryDisk) => disk.bytesOf('/data/tree/level-0').fill(7),
    ]) {
      const world = await closed(2500);
      harm(world.disk);
      await world.open();
      expect(world.troubles).toEqual([expect.stringContaining('rebuilt from the events')]);
      // At once, and not with the next event.
      expect((await rootAt(TreeFiles.read(DATA, world.disk.files), 2500)).equals(rootOf(world.stored))).toBe(
        true,
      );
      world.add(events(24));
      await world.tree?.close();
      expect(world.latest().size).toBe(2524);
      world.troubles.length = 0;
      await world.open();
      expect(world.troubles).toEqual([]);
    }
  });
});
