/**
 * Appends committed entries to the Merkle tree (RFC 6962), which later proves that no event was altered,
 * removed or inserted, and has the tree signed.
 *
 * The leaf of an entry has the index sequence - 1 and depends only on its stored bytes, so it is durable with
 * the entry, and a crash at any point leads to the same tree. About once a second while entries arrive, in
 * this order:
 *
 *   read      the durable entries after the last leaf become leaves
 *   stage     their hashes are written and flushed
 *   sign      the signer signs the root over these entries
 *   swap      the signed checkpoint replaces the previous one, if that one is still there
 *   publish   the checkpoint is sent to the sinks
 *
 * With several writing processes (Committed.shared), each first tries to assign sequences to committed
 * entries. The one that succeeds continues as above. The others read the checkpoint that it swapped in, check
 * that it extends the one that they knew, and publish it to their own sinks. If a store has lost entries that
 * a process knows to be signed, the process never signs the store again.
 *
 * A checkpoint that was signed but not swapped in was not published; the next start signs one over at least
 * as many entries. This delays a batch of events by at most a few milliseconds of reading.
 */
import { formatCheckpoint } from '@clinical-events/protocol/verify';
import type { GrowingTree } from '../tree/growing-tree.js';
import type { CheckpointSigner } from '../tree/note-signing.js';
import { type Committed, type Cursor, cursorAt, type SharedCommits } from '../store/contract/events.js';
import { HeadMoved, type TreeStore } from '../store/contract/tree.js';
import {
  assertGoesOn,
  assertReaches,
  CheckpointContradicted,
  LeafReader,
  type SignedTree,
  signedTree,
} from './signed-tree.js';

export interface SequencerOptions {
  readonly store: TreeStore;
  readonly signer: CheckpointSigner;
  readonly committed: Committed;
  /** A checkpoint that an earlier process has seen; the store may have lost entries since. */
  readonly known?: string | undefined;
  /** Milliseconds between two checkpoints while entries arrive. */
  readonly intervalMs: number;
  /**
   * Receives the newest checkpoint: the one found at the start, in case it was not published everywhere, and
   * each new one. Its work is not awaited.
   */
  readonly onCheckpoint: (note: string) => void;
  /** A checkpoint could not be made; it is tried again, and events are stored meanwhile. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Called after each attempt at a checkpoint: with the error, or without one when no checkpoint is owed. */
  readonly onTried?: (failure?: { readonly error: unknown }) => void;
  /** The log differs from the signed one. Nothing is signed from now on; events are still stored. */
  readonly onForked?: (error: CheckpointContradicted) => void;
  readonly now?: () => number;
}

const KEEP_EVERY_MS = 3_600_000;
/** The longest pause before a signer that failed is asked again. */
const MOST_REST_MS = 60_000;
/** After this number of leaves their hashes are flushed instead of kept in memory. */
const STAGE_EVERY = 65_536;

export class Sequencer {
  readonly #options: SequencerOptions;
  #tree: GrowingTree;
  readonly #leaves: LeafReader;
  readonly #now: () => number;
  /** Where the tree's next leaf is read. */
  #cursor: Cursor;
  #pending: { level: number; first: number; hashes: Buffer }[] = [];
  /** The newest checkpoint, and the number of entries that it covers; -1 without one. */
  #head: string | undefined;
  #signed: number;
  /** When the tree was read, and the last known root; used for a shared store. */
  #epoch: number | undefined;
  #known: { readonly size: number; readonly root: Buffer } | undefined;
  #forked: CheckpointContradicted | undefined;
  #keptAt = -Infinity;
  /** The size of the last kept checkpoint; -1 when unknown. */
  #keptSize = -1;
  /** Whether the current attempt succeeds. */
  #working: Promise<boolean> | undefined;
  /** The signer failed and is not asked again before this time, on the clock of `performance.now`. */
  #restUntil = 0;
  #restMs = 0;
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: SequencerOptions, { tree, head, signed }: SignedTree) {
    this.#options = options;
    this.#tree = tree;
    this.#leaves = new LeafReader(options.committed);
    this.#cursor = { sequence: tree.size + 1, at: 0 };
    this.#head = head;
    this.#signed = signed;
    this.#now = options.now ?? Date.now;
  }

  /**
   * On return the tree holds every entry of the log, and a checkpoint over all of them is signed unless the
   * signer cannot sign now. The first checkpoint, of the empty tree, must be signed: without it a ledger
   * whose checkpoints were removed would look like a new one.
   * @throws CheckpointContradicted when the log lacks or contradicts entries of the newest checkpoint.
   */
  static async open(options: SequencerOptions): Promise<Sequencer> {
    const { intervalMs, onCheckpoint } = options;
    const { committed, store } = options;
    await committed.shared?.sequence();
    const head = await store.head();
    await committed.shared?.look();
    const found = await signedTree(options, head);
    if (options.known !== undefined) await assertReaches(options, options.known, found.signed);
    const opened = new Sequencer(options, found);
    await opened.#read();
    if (found.head === undefined) await opened.#begin();
    else {
      onCheckpoint(found.head);
      await opened.#tryAdvance(true);
    }
    opened.#timer = setInterval(() => opened.#lookForMore(), intervalMs);
    return opened;
  }

  async #begin(): Promise<void> {
    try {
      await this.#advance(true);
    } catch (error) {
      // Another process is starting the same log.
      if (!(error instanceof HeadMoved) || this.#options.committed.shared === undefined) throw error;
    }
  }

  /** Sequences the durable entries and keeps the checkpoint. On return the tree is closed. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    // A signer that has just failed may have used all its time, and is not asked again.
    if ((await this.#working) !== false) await this.#tryAdvance(true);
    await this.#options.store.close();
  }

  #lookForMore(): void {
    const { entries, shared } = this.#options.committed;
    if (shared === undefined && entries === this.#signed) return;
    this.#working ??= this.#tryAdvance(false, performance.now() >= this.#restUntil);
  }

  /** Appends the entries that are durable now. */
  async #read(): Promise<void> {
    const tree = this.#tree;
    let staged = tree.size;
    if (this.#options.committed.entries === staged) return;
    const leaves = this.#leaves.from(this.#cursor);
    for (;;) {
      const next = await leaves.next();
      if (next.done === true) {
        this.#cursor = next.value;
        return;
      }
      tree.append(next.value.hashes, next.value.count);
      // If the tree ends within a batch, the store finds the position by its number.
      this.#cursor = { sequence: tree.size + 1, at: 0 };
      if (tree.size - staged < STAGE_EVERY) continue;
      await this.#stage();
      staged = tree.size;
    }
  }

  /** Writes and flushes the new hashes. A failed write is tried again the next time. */
  async #stage(): Promise<void> {
    const { store } = this.#options;
    this.#pending.push(...this.#tree.drain());
    for (const { level, first, hashes } of this.#pending) await store.put(level, first, hashes);
    await store.flush();
    this.#pending = [];
  }

  /** @returns whether it succeeded. */
  async #tryAdvance(keep: boolean, sign = true): Promise<boolean> {
    try {
      if (await this.#advance(keep, sign)) this.#options.onTried?.();
      return true;
    } catch (error) {
      if (error instanceof CheckpointContradicted) this.#fork(error);
      // Another process was faster and signed at least as many entries.
      else if (error instanceof HeadMoved && this.#options.committed.shared !== undefined) return true;
      else this.#options.onTrouble('no checkpoint could be made; it is tried again', error);
      this.#options.onTried?.({ error });
      return false;
    } finally {
      this.#working = undefined;
    }
  }

  /**
   * Reads, stages, signs, swaps and publishes. While the signer pauses, it does only the first two, so that
   * hashes leave memory.
   * @param keep whether the checkpoint stays when a newer one follows, even if it was signed before.
   * @returns false when a checkpoint may still be owed: the signer pauses, or another process is signing.
   */
  async #advance(keep: boolean, sign = true): Promise<boolean> {
    const { shared } = this.#options.committed;
    const head = this.#head;
    if (this.#forked !== undefined) throw this.#forked;
    if (shared !== undefined) {
      const isFirst = await shared.sequence();
      await this.#options.signer.refresh?.();
      await this.#follow(shared);
      if (!isFirst) return this.#head !== head;
    }
    await this.#read();
    const size = this.#tree.size;
    const root = this.#tree.root();
    await this.#stage();
    if (size === this.#signed) {
      if (keep && this.#keptSize !== size) await this.#swap(this.#head, size, true);
      return sign;
    }
    if (!sign) return false;
    if (shared?.epoch !== this.#epoch) throw new Error('the connection was lost while the entries were read');
    const note = await this.#sign(size, root);
    await this.#swap(note, size, keep || this.#now() - this.#keptAt >= KEEP_EVERY_MS);
    this.#signed = size;
    this.#known = { size, root };
    this.#options.onCheckpoint(note);
    return true;
  }

  /**
   * Takes over another process's newest checkpoint, with the tree up to it. Also needed when this process may
   * have read from a server that is gone.
   */
  async #follow(shared: SharedCommits): Promise<void> {
    const { committed, store, onCheckpoint } = this.#options;
    const head = await store.head();
    if (head === this.#head && shared.epoch === this.#epoch) return;
    await shared.look();
    const { epoch } = shared;
    if (committed.entries < this.#signed || (head === undefined && this.#head !== undefined)) {
      throw new CheckpointContradicted(
        `the log has ${committed.entries} entries, but a signed checkpoint covers ${this.#signed}: the ` +
          'store has gone back to an earlier state',
      );
    }
    const found = await signedTree(this.#options, head);
    if (found.signed < this.#signed) {
      throw new CheckpointContradicted(
        `its newest checkpoint covers ${found.signed} entries, and one over ${this.#signed} was published`,
      );
    }
    if (this.#known !== undefined) await assertGoesOn(store, this.#known);
    this.#tree = found.tree;
    this.#pending = [];
    this.#cursor = cursorAt(found.tree.size + 1);
    this.#epoch = epoch;
    if (found.tree.size === found.signed) this.#known = { size: found.signed, root: found.tree.root() };
    if (head === this.#head) return;
    this.#head = head;
    this.#signed = found.signed;
    if (head !== undefined) onCheckpoint(head);
  }

  /** Stops signing until an operator has investigated and restarted the process. */
  #fork(error: CheckpointContradicted): void {
    this.#forked = error;
    clearInterval(this.#timer);
    this.#options.onForked?.(error);
  }

  async #swap(note: string | undefined, size: number, keep: boolean): Promise<void> {
    if (note === undefined) return;
    await this.#options.store.swapHead(this.#head, note, keep ? size : undefined);
    this.#head = note;
    if (!keep) return;
    this.#keptAt = this.#now();
    this.#keptSize = size;
  }

  /** Only a signer pauses after a failure. A disk that was full is tried again at every interval. */
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
