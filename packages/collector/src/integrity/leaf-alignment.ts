/**
 * Lays the leaves of a log as it was read beside those that its tree holds, and tells where they part: an event
 * altered, missing, slipped in, or in another place. Pure, and in flat memory whatever the log holds.
 *
 * As long as both go together, whole pieces are compared at once. Where they part, a window of each is laid beside the
 * other, and the nearest place is sought from which they go together again (meeting.ts). What lies before it is paired
 * off: a leaf of the log and a leaf of the tree are an event that was altered; what is left over of the tree's is
 * missing, and what is left over of the log's was slipped in.
 */
import { alike, leafAt, meeting, type Meeting } from './meeting.js';
import { HASH_BYTES, type HashSource } from './merkle.js';

/** A place where log and tree part. Leaves are hashes, a character a byte. */
export type Parting =
  /** The log has `leaf` where the tree has `expected`. */
  | {
      readonly kind: 'altered';
      readonly index: number;
      readonly logIndex: number;
      readonly place: number;
      readonly leaf: string;
      readonly expected: string;
    }
  /** The log lacks `count` leaves of the tree from `index` on; at `logIndex` it goes on, if it does. */
  | {
      readonly kind: 'missing';
      readonly index: number;
      readonly logIndex: number;
      /** Of the leaf that the log goes on with; undefined when it ends. */
      readonly place: number | undefined;
      readonly count: number;
      /** The first of them. */
      readonly expected: readonly string[];
    }
  /** The log has a leaf in front of the tree's leaf `index`. */
  | {
      readonly kind: 'inserted';
      readonly index: number;
      readonly logIndex: number;
      readonly place: number;
      readonly leaf: string;
    };

/** Leaves of the log that could not be read, and how many of the tree's they stand for. */
export interface Gap {
  /** As given to `gap`. */
  readonly reference: number;
  readonly index: number;
  readonly count: number;
}

export interface AlignmentOptions {
  /** Level 0 is the leaves of the tree. */
  readonly stored: HashSource;
  /** So many leaves of the tree are looked at. */
  readonly covered: number;
  readonly window?: number;
}

interface OpenGap {
  readonly reference: number;
  readonly count: number;
}

const WINDOW = 4096;
/** So many partings are told one by one; of what comes after, each kind is counted. */
const MOST_PARTINGS = 10_000;
/** So many leaves of one stretch that is missing are kept, in case they turn up elsewhere. */
const MOST_EXPECTED = 4096;
/** How often the whole level may be searched for where the log goes on. */
const MOST_SEARCHES = 16;
/** Leaves of the log that are tried as the one that it goes on with. */
const PROBES = 4;
const SEARCH_PIECE = 32_768;

export class LeafAlignment {
  readonly partings: Parting[] = [];
  /** The first of them. */
  readonly gaps: Gap[] = [];
  /** Leaves in partings that were not kept, by kind. */
  readonly unlisted = { altered: 0, missing: 0, inserted: 0 };
  /** How many leaves of the tree the log has gone past. */
  index = 0;
  /** How many leaves of the log there were, those that could not be read among them. */
  logIndex = 0;
  /** How many of these lie behind the last leaf of the tree that is looked at. */
  unsigned = 0;
  readonly #stored: HashSource;
  readonly #covered: number;
  readonly #window: number;
  /** Leaves of the log that wait until it is seen how they go on, and their places. */
  #waiting = Buffer.alloc(0);
  #places: number[] = [];
  #gap: OpenGap | undefined;
  #searches = 0;

  constructor({ stored, covered, window = WINDOW }: AlignmentOptions) {
    this.#stored = stored;
    this.#covered = covered;
    this.#window = window;
  }

  /** The next `count` leaves of the log, side by side, and of each a number by which its place is known. */
  async leaves(hashes: Buffer, places: ArrayLike<number>, count: number): Promise<void> {
    if (count === 0) return;
    await this.#closeGap(hashes, count);
    const from = this.#waiting.length === 0 ? await this.#together(hashes, count) : 0;
    if (from === count) return;
    this.#waiting = Buffer.concat([this.#waiting, hashes.subarray(from * HASH_BYTES, count * HASH_BYTES)]);
    for (let i = from; i < count; i++) this.#places.push(places[i] ?? 0);
    await this.#settle(false);
  }

  /** Here the log has `count` leaves, as far as anybody can tell, that cannot be read. */
  async gap(count: number, reference: number): Promise<void> {
    await this.#settle(true);
    await this.#closeGap();
    this.#gap = { reference, count };
  }

  /** The log ends here. On return all is told. */
  async finish(): Promise<void> {
    await this.#settle(true);
    await this.#closeGap();
    if (this.index < this.#covered) await this.#miss(this.#covered - this.index);
  }

  /** Leaves of the tree; fewer when fewer are there, or are looked at. */
  async #expected(first: number, count: number): Promise<Buffer> {
    const wanted = Math.min(count, this.#covered - first);
    return wanted <= 0 ? Buffer.alloc(0) : this.#stored.hashes(0, first, wanted);
  }

  /** Goes past what is alike. @returns how many leaves of the log that were. */
  async #together(hashes: Buffer, count: number): Promise<number> {
    const wanted = Math.max(0, Math.min(count, this.#covered - this.index));
    const expected = await this.#expected(this.index, wanted);
    const there = expected.length / HASH_BYTES;
    const same = alike(hashes, 0, expected, 0, there);
    if (same < there) {
      this.index += same;
      this.logIndex += same;
      return same;
    }
    // Hashes that the tree has lost cannot be held against anything; the audit tells that they are lost.
    this.index += wanted;
    this.logIndex += count;
    this.unsigned += count - wanted;
    return count;
  }

  /** Deals with the leaves that wait, or at least with so many that less than a window of them goes on waiting. */
  async #settle(last: boolean): Promise<void> {
    let done = 0;
    const held = this.#places.length;
    while (done < held) {
      const log = this.#waiting.subarray(done * HASH_BYTES);
      const left = held - done;
      done += await this.#together(log, left);
      if (done === held || (!last && held - done < this.#window)) break;
      done += await this.#settleWindow(done, Math.min(held - done, this.#window), last);
    }
    this.#waiting = Buffer.from(this.#waiting.subarray(done * HASH_BYTES));
    this.#places = this.#places.slice(done);
  }

  /**
   * @param offset of the first of `count` waiting leaves, with which log and tree part.
   * @param last whether the log ends, or has a gap, behind the leaves that wait.
   * @returns how many leaves of the log were dealt with.
   */
  async #settleWindow(offset: number, count: number, last: boolean): Promise<number> {
    const log = this.#waiting.subarray(offset * HASH_BYTES);
    const tree = await this.#expected(this.index, this.#window);
    const treeCount = tree.length / HASH_BYTES;
    const logEnds = last && offset + count === this.#places.length;
    const treeEnds = this.index + treeCount >= this.#covered;
    const where = new Map(Array.from({ length: treeCount }, (_, j) => [leafAt(tree, j), j]));
    const window = { log, logCount: count, logEnds, tree, treeCount, treeEnds, where };
    let [i, j] = [0, 0];
    const pass = (ofLog: number, ofTree: number) => {
      this.index += ofTree;
      this.logIndex += ofLog;
      i += ofLog;
      j += ofTree;
    };
    for (;;) {
      if (j >= treeCount) return i;
      const run = alike(log, i, tree, j, Math.min(count - i, treeCount - j));
      pass(run, run);
      // With little in sight, it is looked at again when there is more.
      const near = (left: number, ends: boolean) => left === 0 || (i > 0 && !ends && left < this.#window / 2);
      if (near(count - i, logEnds) || near(treeCount - j, treeEnds)) return i;
      const met =
        meeting(window, i, j) ?? (treeEnds ? undefined : await this.#search(log, i, count, treeCount - j));
      const paired = Math.min(count - i, treeCount - j);
      const { log: ofLog, tree: ofTree } = met ?? { log: paired, tree: paired };
      await this.#part(log, i, ofLog, ofTree, offset);
      pass(ofLog, ofTree);
    }
  }

  /** Searches the whole level, from `from` leaves ahead on, for one of the next leaves of the log. */
  async #search(log: Buffer, i: number, count: number, from: number): Promise<Meeting | undefined> {
    if (this.#searches === MOST_SEARCHES) return undefined;
    this.#searches++;
    for (let first = this.index + from; first < this.#covered; first += SEARCH_PIECE) {
      const piece = await this.#expected(first, SEARCH_PIECE);
      for (let k = 0; k < PROBES && i + k < count; k++) {
        const at = leafIn(piece, log, i + k);
        if (at >= 0) return { log: k, tree: first + at - this.index };
      }
    }
    return undefined;
  }

  /** The next leaves of the log, `ofLog` from `i` on, stand where the tree has its next `ofTree`. */
  async #part(log: Buffer, i: number, ofLog: number, ofTree: number, offset: number): Promise<void> {
    const expected = await this.#expected(this.index, Math.min(ofTree, MOST_EXPECTED));
    for (let k = 0; k < ofLog; k++) {
      const logIndex = this.logIndex + k;
      const place = this.#places[offset + i + k] ?? 0;
      const leaf = leafAt(log, i + k);
      const index = this.index + Math.min(k, ofTree);
      const here = { index, logIndex, place, leaf };
      if (k >= ofTree) this.#keep({ kind: 'inserted', ...here });
      else this.#keep({ kind: 'altered', ...here, expected: leafAt(expected, k) });
    }
    if (ofTree > ofLog) await this.#miss(ofTree - ofLog, ofLog, this.#places[offset + i + ofLog]);
  }

  /** The log lacks `count` leaves of the tree, `behind` leaves further on. */
  async #miss(count: number, behind = 0, place?: number): Promise<void> {
    const index = this.index + behind;
    const hashes = await this.#expected(index, Math.min(count, MOST_EXPECTED));
    const expected = Array.from({ length: hashes.length / HASH_BYTES }, (_, k) => leafAt(hashes, k));
    this.#keep({ kind: 'missing', index, logIndex: this.logIndex + behind, place, count, expected });
  }

  /** Finds out, from how the log goes on if it does, how many leaves of the tree an open gap stands for. */
  async #closeGap(hashes?: Buffer, count = 0): Promise<void> {
    if (this.#gap === undefined) return;
    const { reference, count: said } = this.#gap;
    this.#gap = undefined;
    const stands = hashes === undefined ? said : ((await this.#passedBy(said, hashes, count)) ?? said);
    const looked = Math.max(0, Math.min(stands, this.#covered - this.index));
    if (this.gaps.length < MOST_PARTINGS) this.gaps.push({ reference, index: this.index, count: stands });
    this.index += looked;
    this.logIndex += said;
    this.unsigned += stands - looked;
  }

  /** How many leaves of the tree lie before the one that the log goes on with, most likely `said`. */
  async #passedBy(said: number, hashes: Buffer, count: number): Promise<number | undefined> {
    const probes = Math.min(PROBES, count);
    const find = async (first: number, length: number): Promise<number | undefined> => {
      const piece = await this.#expected(this.index + first, length);
      for (let k = 0; k < probes; k++) {
        const at = leafIn(piece, hashes, k);
        if (at >= 0 && first + at >= k) return first + at - k;
      }
      return undefined;
    };
    let found = await find(said, probes);
    for (let first = 0; found === undefined && first < said + this.#window; first += SEARCH_PIECE) {
      found = await find(first, Math.min(SEARCH_PIECE, said + this.#window - first));
    }
    return found;
  }

  #keep(parting: Parting): void {
    if (this.partings.length < MOST_PARTINGS) this.partings.push(parting);
    else this.unlisted[parting.kind] += parting.kind === 'missing' ? parting.count : 1;
  }
}

/** Where leaf `k` of `leaves` stands in a piece of the level, or -1. */
function leafIn(piece: Buffer, leaves: Buffer, k: number): number {
  const leaf = leaves.subarray(k * HASH_BYTES, (k + 1) * HASH_BYTES);
  for (let at = piece.indexOf(leaf); at >= 0; at = piece.indexOf(leaf, at + 1)) {
    if (at % HASH_BYTES === 0) return at / HASH_BYTES;
  }
  return -1;
}
