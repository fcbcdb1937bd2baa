/**
 * Lays the leaves of a log as it was read beside those that its tree has hashes of, and tells where they part: an event
 * altered, missing, slipped in, or in another place. Pure, and in flat memory whatever the log holds.
 *
 * As long as both go together, whole pieces are compared at once. Where they part, up to `window` leaves of each are
 * laid beside each other, and the nearest place is sought from which they go together again. What lies before it is
 * paired off: a leaf of the log and a leaf of the tree are an event that was altered, what is left over of the tree's is
 * missing, what is left over of the log's was slipped in. When all is read, whatever is left of both and is the same
 * leaf is an event that stands in another place.
 */
import { HASH_BYTES, type HashSource } from './merkle.js';

/** Whether the tree has a leaf that the log does not, the log one that the tree does not, or both. */
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
  /** The log lacks `count` leaves of the tree from `index` on; `logIndex` is where the log goes on. */
  | {
      readonly kind: 'missing';
      readonly index: number;
      readonly logIndex: number;
      readonly count: number;
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
  /** So many leaves of the tree are to be believed, and compared. */
  readonly covered: number;
  readonly window?: number;
}

const WINDOW = 4096;
/** So many partings are told one by one; of what comes after, each kind is counted. */
const MOST_PARTINGS = 10_000;
/** Leaves of one removed stretch that are remembered, in case they turn up elsewhere. */
const MOST_EXPECTED = 4096;
/** How often the whole level may be searched for where the log goes on. */
const MOST_SEARCHES = 16;
/** Leaves of the log that are tried as the one that the log goes on with. */
const PROBES = 4;
const SEARCH_PIECE = 32_768;

export class LeafAlignment {
  readonly partings: Parting[] = [];
  readonly gaps: Gap[] = [];
  /** Partings that were not kept, by kind: altered, missing, inserted events. */
  readonly unlisted = { altered: 0, missing: 0, inserted: 0 };
  /** How many leaves of the tree the log has gone past. */
  index = 0;
  /** How many leaves of the log were read, and could not be read. */
  logIndex = 0;
  /** Leaves of the log behind the last of the tree's that are to be believed. */
  unsigned = 0;
  readonly #stored: HashSource;
  readonly #covered: number;
  readonly #window: number;
  /** Leaves of the log, and their places, that wait until it is seen how they go on. */
  #waiting = Buffer.alloc(0);
  #places: number[] = [];
  #gap: { readonly reference: number; readonly count: number } | undefined;
  #searches = 0;

  constructor({ stored, covered, window = WINDOW }: AlignmentOptions) {
    this.#stored = stored;
    this.#covered = covered;
    this.#window = window;
  }

  /** The next `count` leaves of the log, side by side, and for each a number by which its place is known. */
  leaves(hashes: Buffer, places: ArrayLike<number>, count: number): void {
    if (count === 0) return;
    if (this.#gap !== undefined) this.#close(this.#gap, hashes, count);
    let from = 0;
    if (this.#waiting.length === 0) {
      from = this.#together(hashes, count);
      if (from === count) return;
    }
    this.#waiting = Buffer.concat([this.#waiting, hashes.subarray(from * HASH_BYTES, count * HASH_BYTES)]);
    for (let i = from; i < count; i++) this.#places.push(places[i] ?? 0);
    this.#settle(false);
  }

  /** Here the log has `count` leaves that cannot be read, as far as anybody can tell. */
  gap(count: number, reference: number): void {
    this.#settle(true);
    if (this.#gap !== undefined) this.#pass(this.#gap, this.#gap.count);
    this.#gap = { reference, count };
  }

  /** The log ends here. On return `partings` and `gaps` are complete; what the tree has behind `index` is missing. */
  finish(): void {
    this.#settle(true);
    if (this.#gap !== undefined) this.#pass(this.#gap, this.#gap.count);
    this.#gap = undefined;
  }

  /** Hashes of the tree's leaves, from `first` on. */
  #expected(first: number, count: number): Buffer {
    const wanted = Math.min(count, this.#covered - first);
    return wanted <= 0 ? Buffer.alloc(0) : this.#stored.hashes(0, first, wanted);
  }

  /** Goes past what both have alike. @returns how many of the leaves of the log that were. */
  #together(hashes: Buffer, count: number): number {
    const wanted = Math.max(0, Math.min(count, this.#covered - this.index));
    const expected = this.#expected(this.index, wanted);
    let same = Math.min(wanted, expected.length / HASH_BYTES);
    if (!equal(hashes, 0, expected, 0, same)) {
      for (let i = 0; i < same; i++) if (!equal(hashes, i, expected, i, 1)) same = i;
      this.index += same;
      this.logIndex += same;
      return same;
    }
    // What the tree's file has lost cannot be compared.
    this.index += wanted;
    this.logIndex += count;
    this.unsigned += count - wanted;
    return count;
  }

  /** Deals with the leaves that wait. Unless these are the last before a gap or the end, leaves half of a window be. */
  #settle(last: boolean): void {
    let done = 0;
    const held = this.#places.length;
    while (done < held && (last || held - done >= this.#window)) {
      const log = this.#waiting.subarray(done * HASH_BYTES);
      const left = held - done;
      const tree = this.#expected(this.index, this.#window);
      if (tree.length === 0) {
        done += this.#together(log, left);
        continue;
      }
      done += this.#settleWindow(log, Math.min(left, this.#window), tree, done, last && left <= this.#window);
    }
    this.#waiting = Buffer.from(this.#waiting.subarray(done * HASH_BYTES));
    this.#places = this.#places.slice(done);
  }

  /** @returns how many of the leaves of the log it has dealt with: at least one. */
  #settleWindow(log: Buffer, logCount: number, tree: Buffer, offset: number, last: boolean): number {
    const treeCount = tree.length / HASH_BYTES;
    const whole = this.index + treeCount >= this.#covered;
    const where = new Map<string, number>();
    for (let j = 0; j < treeCount; j++) where.set(leafAt(tree, j), j);
    let [i, j] = [0, 0];
    for (;;) {
      while (i < logCount && j < treeCount && equal(log, i, tree, j, 1)) {
        i++;
        j++;
      }
      // With less than half a window in sight, look again once there is more.
      const near = i > 0 && ((!last && logCount - i < this.#window / 2) || (!whole && treeCount - j < this.#window / 2));
      if (i === logCount || j === treeCount || near) break;
      const met = meeting(log, i, logCount, tree, j, treeCount, where, { last, whole });
      if (met !== undefined) {
        this.#part(log, i, i + met.log, offset, tree, j, j + met.tree);
        i += met.log;
        j += met.tree;
        continue;
      }
      const skipped = last && whole ? undefined : this.#search(log, i, logCount, this.index + treeCount);
      if (skipped !== undefined) {
        this.#advance(i, j);
        this.#partFar(log, skipped.log, offset + i, skipped.index);
        return i + skipped.log;
      }
      const paired = Math.min(logCount - i, treeCount - j);
      this.#part(log, i, i + paired, offset, tree, j, j + paired);
      i += paired;
      j += paired;
    }
    this.#advance(i, j);
    return i;
  }

  #advance(log: number, tree: number): void {
    this.logIndex += log;
    this.index += tree;
  }

  /** The leaves [from, to) of the log stand where the tree has [treeFrom, treeTo). Counts from `index` and `logIndex`. */
  #part(log: Buffer, from: number, to: number, offset: number, tree: Buffer, treeFrom: number, treeTo: number): void {
    const paired = Math.min(to - from, treeTo - treeFrom);
    for (let k = 0; k < paired; k++) {
      this.#keep({
        ...{ kind: 'altered', index: this.index + treeFrom + k, logIndex: this.logIndex + from + k },
        place: this.#places[offset + from + k] ?? 0,
        ...{ leaf: leafAt(log, from + k), expected: leafAt(tree, treeFrom + k) },
      });
    }
    const [index, logIndex] = [this.index + treeFrom + paired, this.logIndex + from + paired];
    const count = treeTo - treeFrom - paired;
    if (count > 0) {
      const expected = Array.from({ length: count }, (_, k) => leafAt(tree, treeFrom + paired + k));
      this.#keep({ kind: 'missing', index, logIndex, count, expected });
    }
    for (let k = 0; k < to - from - paired; k++) {
      const place = this.#places[offset + from + paired + k] ?? 0;
      this.#keep({ kind: 'inserted', index, logIndex: logIndex + k, place, leaf: leafAt(log, from + paired + k) });
    }
  }

  /** As `#part`, to a leaf of the tree out of the window: the log's first `count` leaves, and all up to `index`. */
  #partFar(log: Buffer, count: number, offset: number, index: number): void {
    const tree = this.#expected(this.index, Math.min(index - this.index, MOST_EXPECTED));
    const paired = Math.min(count, tree.length / HASH_BYTES);
    this.#part(log.subarray(0), 0, count, offset, tree, 0, paired);
    const missing = index - this.index - paired;
    const expected = Array.from({ length: tree.length / HASH_BYTES - paired }, (_, k) => leafAt(tree, paired + k));
    this.#keep({
      ...{ kind: 'missing', index: this.index + paired, logIndex: this.logIndex + count },
      ...{ count: missing, expected },
    });
    this.logIndex += count;
    this.index = index;
  }

  /** Searches all of the level behind the window for one of the next leaves of the log. */
  #search(
    log: Buffer,
    from: number,
    count: number,
    behind: number,
  ): { log: number; index: number } | undefined {
    if (this.#searches >= MOST_SEARCHES) return undefined;
    this.#searches++;
    for (let first = behind; first < this.#covered; first += SEARCH_PIECE) {
      const piece = this.#expected(first, SEARCH_PIECE);
      for (let k = 0; k < PROBES && from + k < count; k++) {
        const probe = log.subarray((from + k) * HASH_BYTES, (from + k + 1) * HASH_BYTES);
        const at = piece.indexOf(probe);
        if (at >= 0 && at % HASH_BYTES === 0) return { log: from + k, index: first + at / HASH_BYTES };
      }
    }
    return undefined;
  }

  /** Finds out how many leaves of the tree the gap in the log stands for, now that it is known how the log goes on. */
  #close(gap: { reference: number; count: number }, hashes: Buffer, count: number): void {
    this.#gap = undefined;
    const probes = Math.min(PROBES, count);
    for (const start of [this.index + gap.count, this.index, this.index + gap.count - this.#window]) {
      if (start < this.index) continue;
      const tree = this.#expected(start, start === this.index + gap.count ? probes : gap.count + this.#window);
      for (let k = 0; k < probes; k++) {
        const at = tree.indexOf(hashes.subarray(k * HASH_BYTES, (k + 1) * HASH_BYTES));
        const skipped = start + at / HASH_BYTES - k - this.index;
        if (at < 0 || at % HASH_BYTES !== 0 || skipped < 0) continue;
        this.#pass(gap, skipped);
        return;
      }
    }
    this.#pass(gap, gap.count);
  }

  #pass({ reference, count: said }: { reference: number; count: number }, count: number): void {
    const signed = Math.max(0, Math.min(count, this.#covered - this.index));
    this.gaps.push({ reference, index: this.index, count });
    this.index += signed;
    this.logIndex += said;
    this.unsigned += count - signed;
  }

  #keep(parting: Parting): void {
    const count = parting.kind === 'missing' ? parting.count : 1;
    if (this.partings.length < MOST_PARTINGS) this.partings.push(parting);
    else this.unlisted[parting.kind] += count;
  }
}

function leafAt(hashes: Buffer, i: number): string {
  return hashes.latin1Slice(i * HASH_BYTES, (i + 1) * HASH_BYTES);
}

function equal(one: Buffer, i: number, other: Buffer, j: number, count: number): boolean {
  const bytes = count * HASH_BYTES;
  const [from, otherFrom] = [i * HASH_BYTES, j * HASH_BYTES];
  return other.compare(one, from, from + bytes, otherFrom, otherFrom + bytes) === 0;
}
