/**
 * Turns what the store has committed into leaves of the tree (RFC 6962), which proves later that no event was
 * altered, removed or slipped in, and has the tree signed.
 *
 * An entry's leaf has the index sequence - 1 and is made of nothing but what is stored of it, so it is
 * durable with the entry, and a crash at any point leads to the same tree. About once a second while entries
 * come, in this order:
 *
 *   read      the entries behind the tree, none but durable ones, become its leaves
 *   stage     the hashes that came are written and flushed
 *   sign      the root over that number of entries
 *   swap      the signed checkpoint takes the place of the one before, if that one is still there
 *   publish   it is given out
 *
 * Where several processes write (Committed.shared), each first tries to give all that was committed its
 * sequence. The one that does it goes on as above. The others take the checkpoint that it swapped, see that
 * it goes on from the one they knew, and give it out to their own sinks. A store that has gone back behind
 * what was signed is never signed again by a process that knew it.
 *
 * A checkpoint that was signed and not swapped was given to no one; the next start signs one over at least as
 * many entries. No batch of events waits for any of it longer than for a few milliseconds of reading.
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
  /** A checkpoint that an earlier process has seen, of a store that may have gone back since. */
  readonly known?: string | undefined;
  /** Milliseconds between two checkpoints while entries come. */
  readonly intervalMs: number;
  /**
   * This is the newest checkpoint now: the one found at the start, in case the process before ended before it
   * was given out everywhere, and each new one. No one waits for what this does.
   */
  readonly onCheckpoint: (note: string) => void;
  /** No checkpoint could be made; it is tried again, and events are stored meanwhile. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Called after each try to make a checkpoint: how it failed, or nothing when none is owed any more. */
  readonly onTried?: (failure?: { readonly error: unknown }) => void;
  /** The log is not the one that was signed. Nothing is signed from now on; events are stored. */
  readonly onForked?: (error: CheckpointContradicted) => void;
  readonly now?: () => number;
}

const KEEP_EVERY_MS = 3_600_000;
/** How long to wait at most before a signer that failed is asked again. */
const MOST_REST_MS = 60_000;
/** After this number of leaves their hashes are brought to the disk: they are not kept in memory. */
const STAGE_EVERY = 65_536;

export class Sequencer {
  readonly #options: SequencerOptions;
  #tree: GrowingTree;
  readonly #leaves: LeafReader;
  readonly #now: () => number;
  /** Where the tree's next leaf is read. */
  #cursor: Cursor;
  #pending: { level: number; first: number; hashes: Buffer }[] = [];
  /** The newest checkpoint, and how many entries it covers; -1 when there is none. */
  #head: string | undefined;
  #signed: number;
  /** Of a store that is shared: when the tree was read, and the root that was known last. */
  #epoch: number | undefined;
  #known: { readonly size: number; readonly root: Buffer } | undefined;
  #forked: CheckpointContradicted | undefined;
  #keptAt = -Infinity;
  /** Size of the checkpoint that was kept last; -1 when that is not known. */
  #keptSize = -1;
  /** Whether the attempt that is under way succeeds. */
  #working: Promise<boolean> | undefined;
  /**
   * No signature is asked for before this, on the clock of `performance.now`: the signer failed the last
   * time.
   */
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
   * On return the tree holds every entry of the log, and a checkpoint over all of them is signed, unless the
   * signer cannot sign now. The very first checkpoint, of the empty tree, has to be signed: without it no one
   * could tell a ledger whose checkpoints were taken away from a new one.
   * @throws CheckpointContradicted when the log holds less or something else than the newest checkpoint says.
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
      // Another process begins the same log.
      if (!(error instanceof HeadMoved) || this.#options.committed.shared === undefined) throw error;
    }
  }

  /**
   * Sequences what is durable by now, and keeps the checkpoint. On return the tree is closed. Never rejects.
   */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    // A signer that has just failed may have taken all its time for it, and is not asked once more.
    if ((await this.#working) !== false) await this.#tryAdvance(true);
    await this.#options.store.close();
  }

  #lookForMore(): void {
    const { entries, shared } = this.#options.committed;
    if (shared === undefined && entries === this.#signed) return;
    this.#working ??= this.#tryAdvance(false, performance.now() >= this.#restUntil);
  }

  /** Takes in the entries behind the tree that are durable now. */
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
      // Where it ended in the middle, the store finds the place again by its number.
      this.#cursor = { sequence: tree.size + 1, at: 0 };
      if (tree.size - staged < STAGE_EVERY) continue;
      await this.#stage();
      staged = tree.size;
    }
  }

  /** Writes the hashes that came, and flushes. What cannot be written is tried again the next time. */
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
      // Another process was first with the same or more.
      else if (error instanceof HeadMoved && this.#options.committed.shared !== undefined) return true;
      else this.#options.onTrouble('no checkpoint could be made; it is tried again', error);
      this.#options.onTried?.({ error });
      return false;
    } finally {
      this.#working = undefined;
    }
  }

  /**
   * Read, stage, sign, swap, publish; or only the first two, while the signer rests: what is staged is not in
   * memory.
   * @param keep whether the checkpoint stays when a newer one comes, also when it was signed before.
   * @returns false where a checkpoint may still be owed: the signer rests, or another process is at it and
   *   has signed none.
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
   * Takes over the newest checkpoint when it is another process's, with the tree up to it. So it does when
   * what this process has read may have come from a server that is gone.
   */
  async #follow(shared: SharedCommits): Promise<void> {
    const { committed, store, onCheckpoint } = this.#options;
    const head = await store.head();
    if (head === this.#head && shared.epoch === this.#epoch) return;
    await shared.look();
    const { epoch } = shared;
    if (committed.entries < this.#signed || (head === undefined && this.#head !== undefined)) {
      throw new CheckpointContradicted(
        `the log holds ${committed.entries} entries, and a checkpoint was signed over ${this.#signed}: the store ` +
          'has gone back to an earlier state',
      );
    }
    const found = await signedTree(this.#options, head);
    if (found.signed < this.#signed) {
      throw new CheckpointContradicted(
        `its newest checkpoint covers ${found.signed} entries, and one over ${this.#signed} was given out`,
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

  /** From now on nothing is signed, until someone has looked at it and started the process again. */
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
