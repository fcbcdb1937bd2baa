/**
 * The tree over the ledger (RFC 6962): what proves later that no event was altered, removed or slipped in.
 *
 * An entry's leaf has the index sequence - 1 and is made of nothing but what stands in its frame, so it is durable
 * with the entry, and a crash at any point leads to the same tree. What is kept here on top is derived, or signed:
 *
 *   stage     the hashes that came since the last time are written and flushed
 *   sign      the root over so many entries
 *   swap      the signed checkpoint takes the place of the one before
 *   publish   it is given out
 *
 * in this order, about once a second while events arrive. A checkpoint that was signed and not swapped was given to
 * nobody; the next start signs one over at least as many entries. None of it holds up a batch: adding a leaf costs
 * three hashes, and the rest waits for the disk in the thread pool.
 *
 * The tree on the disk may be ahead of the newest checkpoint or, after power was lost, damaged behind it: only what
 * the checkpoint covers is believed, and only if its root comes out. The rest is made again from the log.
 */
import { encodeEnvelope, ENVELOPE_FIXED_BYTES } from '@clinical-events/protocol';
import { formatCheckpoint, parseCheckpoint, type Checkpoint } from '@clinical-events/protocol/verify';
import { GrowingTree } from '../integrity/growing-tree.js';
import { HASH_BYTES, leafHash, TilesIncomplete, type HashSource } from '../integrity/merkle.js';
import { rotationMissing, unknownSigner, verifyNote } from '../integrity/note-signing.js';
import type { CheckpointSigner } from '../integrity/signer.js';
import { cursorAt, type EventLog } from '../store/event-log.js';
import type { Candidate, Outcome } from '../store/store.js';
import type { TreeStore } from '../store/tree-store.js';
import type { Leaves } from './ledger.js';

export interface LedgerTreeOptions {
  readonly store: TreeStore;
  readonly signer: CheckpointSigner;
  readonly events: LoggedEntries;
  /** How many entries the log holds. */
  readonly size: number;
  /** Milliseconds between two checkpoints while events arrive. */
  readonly intervalMs: number;
  /**
   * This is the newest checkpoint now: the one found at the start, in case the process before ended before it was
   * given out everywhere, and each new one. Nobody waits for what this does.
   */
  readonly onCheckpoint: (note: string) => void;
  /** No checkpoint could be made; it is tried again, and events are stored meanwhile. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Told after each try to make a checkpoint: how it failed, or nothing when none is owed any more. */
  readonly onTried?: (failure?: { readonly error: unknown }) => void;
  readonly now?: () => number;
}

/** The log does not agree with a checkpoint that was signed over it. */
export class CheckpointContradicted extends Error {
  override name = 'CheckpointContradicted';
}

const KEEP_EVERY_MS = 3_600_000;
/** How long to wait at most before a signer that failed is asked again. */
const MOST_REST_MS = 60_000;
/** Leaves that are hashed before they go to the tree. */
const CHUNK = 1024;
/** So many hashes are in memory at most while the tree is made anew. */
const STAGE_EVERY = 64 * CHUNK;

export class LedgerTree implements Leaves {
  readonly #options: LedgerTreeOptions;
  readonly #tree: GrowingTree;
  readonly #now: () => number;
  readonly #envelope = Buffer.alloc(ENVELOPE_FIXED_BYTES + 2 * 255);
  readonly #hashes = Buffer.alloc(CHUNK * HASH_BYTES);
  #pending: { level: number; first: number; hashes: Buffer }[] = [];
  /** Events under the newest checkpoint; -1 when there is none. */
  #signed: number;
  #keptAt = -Infinity;
  /** Size of the checkpoint that was kept last; -1 when that is not known. */
  #keptSize = -1;
  /** Whether the attempt that is under way succeeds. */
  #working: Promise<boolean> | undefined;
  /** No signature is asked for before this, on the clock of `performance.now`: the signer failed the last time. */
  #restUntil = 0;
  #restMs = 0;
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: LedgerTreeOptions, tree: GrowingTree, signed: number) {
    this.#options = options;
    this.#tree = tree;
    this.#signed = signed;
    this.#now = options.now ?? Date.now;
  }

  /**
   * On return the tree holds every entry of the log, and a checkpoint over all of them is signed, unless the signer
   * cannot sign now. The very first checkpoint, of the empty tree, has to be signed: without it nobody could tell a
   * ledger whose checkpoints were taken away from a new one.
   * @throws {@link CheckpointContradicted} when the log holds less or something else than the newest checkpoint says.
   */
  static async open(options: LedgerTreeOptions): Promise<LedgerTree> {
    const { store, size, onTrouble } = options;
    const note = store.checkpoint();
    const signed = note === undefined ? undefined : checkpointIn(note, options.signer);
    if (signed === undefined && size > 0) {
      throw new CheckpointContradicted(
        `the ledger holds ${size} entries, but its newest checkpoint is missing: checkpoints/latest`,
      );
    }
    let tree = signed === undefined ? GrowingTree.at(NOTHING, 0) : believed(store, signed);
    if (tree === undefined) {
      onTrouble('the hashes of the tree were damaged or lost; they are made anew from the events', undefined);
      // Before a hash is written over: if the events were changed, the old hashes tell which ones.
      await assertSigned(options.events, signed);
      tree = GrowingTree.at(NOTHING, 0);
    }
    const opened = new LedgerTree(options, tree, signed?.size ?? -1);
    await opened.#catchUp();
    if (signed === undefined) await opened.#advance(true);
    else {
      if (note !== undefined) options.onCheckpoint(note);
      await opened.#tryAdvance(true);
    }
    opened.#timer = setInterval(() => {
      if (opened.#signed !== opened.#tree.size) {
        opened.#working ??= opened.#tryAdvance(false, performance.now() >= opened.#restUntil);
      }
    }, options.intervalMs);
    return opened;
  }

  add(batch: readonly Candidate[], outcomes: readonly Outcome[]): void {
    let count = 0;
    for (let i = 0; i < batch.length; i++) {
      const candidate = batch[i];
      if (candidate === undefined || outcomes[i] !== 'accepted') continue;
      const bytes = encodeEnvelope(this.#envelope, 0, candidate);
      leafHash(this.#envelope.subarray(0, bytes), candidate.commitment, this.#hashes, count * HASH_BYTES);
      if (++count < CHUNK) continue;
      this.#tree.append(this.#hashes, count);
      count = 0;
    }
    this.#tree.append(this.#hashes, count);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    // A signer that has just failed may have taken all its time for it, and is not asked once more.
    if ((await this.#working) !== false) await this.#tryAdvance(true);
    this.#options.store.close();
  }

  /** Takes in the entries that the log holds behind the tree. */
  async #catchUp(): Promise<void> {
    const { events, size } = this.#options;
    const tree = this.#tree;
    let staged = tree.size;
    // A log that is being read to its end is looked at whole; there may be nothing behind the tree.
    if (tree.size < size) {
      for await (const { hashes, count } of leafHashes(events, tree.size + 1)) {
        tree.append(hashes, count);
        if (tree.size - staged < STAGE_EVERY) continue;
        await this.#stage();
        staged = tree.size;
      }
    }
    if (tree.size === size) return;
    throw new CheckpointContradicted(`the log was opened with ${size} entries, and ${tree.size} can be read`);
  }

  /** Writes the hashes that came, and flushes. What cannot be written is tried again the next time. */
  async #stage(): Promise<void> {
    const { store } = this.#options;
    this.#pending.push(...this.#tree.drain());
    for (const { level, first, hashes } of this.#pending) store.put(level, first, hashes);
    await store.flush();
    this.#pending = [];
  }

  /** @returns whether it succeeded. */
  async #tryAdvance(keep: boolean, sign = true): Promise<boolean> {
    try {
      await this.#advance(keep, sign);
      if (!sign) return true;
      this.#options.onTried?.();
      return true;
    } catch (error) {
      this.#options.onTrouble('no checkpoint could be made; it is tried again', error);
      this.#options.onTried?.({ error });
      return false;
    } finally {
      this.#working = undefined;
    }
  }

  /**
   * Stage, sign, swap, publish; or only the first, while the signer rests: what is staged is not in memory.
   * @param keep whether the checkpoint stays when a newer one comes, also when it was signed before.
   */
  async #advance(keep: boolean, sign = true): Promise<void> {
    const { store, onCheckpoint } = this.#options;
    const size = this.#tree.size;
    const root = this.#tree.root();
    await this.#stage();
    if (size === this.#signed) {
      const newest = keep && this.#keptSize !== size ? store.checkpoint() : undefined;
      if (newest !== undefined) await store.setCheckpoint(newest, size, true);
      if (keep) this.#keptSize = size;
      return;
    }
    if (!sign) return;
    const note = await this.#sign(size, root);
    const now = this.#now();
    const kept = keep || now - this.#keptAt >= KEEP_EVERY_MS;
    await store.setCheckpoint(note, size, kept);
    if (kept) {
      this.#keptAt = now;
      this.#keptSize = size;
    }
    this.#signed = size;
    onCheckpoint(note);
  }

  /** Only the signer is given rest when it fails. A disk that was full is tried again at every interval. */
  async #sign(size: number, root: Buffer): Promise<string> {
    const { signer, intervalMs } = this.#options;
    try {
      const note = await signer.sign(formatCheckpoint({ origin: signer.origin, size, root }));
      this.#restMs = 0;
      return note;
    } catch (error) {
      this.#restMs = Math.min(MOST_REST_MS, Math.max(intervalMs, 2 * this.#restMs));
      this.#restUntil = performance.now() + this.#restMs;
      throw error;
    }
  }
}

type LoggedEntries = Pick<EventLog, 'entries'>;

const NOTHING: HashSource = { hashes: () => Buffer.alloc(0) };

/** What the newest checkpoint says, once it is sure that this log's key signed it. */
function checkpointIn(note: string, signer: CheckpointSigner): Checkpoint {
  try {
    const checkpoint = parseCheckpoint(verifyNote(note, signer.keys).text);
    if (checkpoint.origin !== signer.origin) throw new Error(`its origin is ${checkpoint.origin}`);
    const unknown = unknownSigner(note, signer.keys);
    if (unknown !== undefined) throw new Error(rotationMissing(unknown));
    return checkpoint;
  } catch (error) {
    throw new CheckpointContradicted('checkpoints/latest is not a checkpoint of this log', { cause: error });
  }
}

/** The tree on the disk up to the checkpoint, or undefined when it does not come to the checkpoint's root. */
function believed(store: TreeStore, signed: Checkpoint): GrowingTree | undefined {
  try {
    const tree = GrowingTree.at(store, signed.size);
    return tree.root().equals(signed.root) ? tree : undefined;
  } catch (error) {
    if (error instanceof TilesIncomplete) return undefined;
    throw error;
  }
}

/** @throws CheckpointContradicted when the events that the checkpoint covers do not come to its root. */
async function assertSigned(events: LoggedEntries, signed: Checkpoint | undefined): Promise<void> {
  if (signed === undefined) return;
  const tree = GrowingTree.at(NOTHING, 0);
  for await (const { hashes, count } of leafHashes(events, 1)) {
    tree.append(hashes, Math.min(count, signed.size - tree.size));
    tree.drain();
    if (tree.size === signed.size) break;
  }
  if (tree.size === signed.size && tree.root().equals(signed.root)) return;
  throw new CheckpointContradicted(
    `the first ${signed.size} entries of the log are not those that checkpoints/latest was signed over; ` +
      'see collector verify',
  );
}

/** The leaf hashes of the entries from a sequence on, some at a time, in memory that is used again for the next. */
async function* leafHashes(
  events: LoggedEntries,
  from: number,
): AsyncGenerator<{ hashes: Buffer; count: number }> {
  const hashes = Buffer.alloc(CHUNK * HASH_BYTES);
  let count = 0;
  for await (const batch of events.entries(cursorAt(from))) {
    for (const { envelope, commitment } of batch) {
      leafHash(envelope, commitment, hashes, count * HASH_BYTES);
      if (++count < CHUNK) continue;
      yield { hashes, count };
      count = 0;
    }
  }
  if (count > 0) yield { hashes, count };
}
