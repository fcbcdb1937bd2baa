/**
 * Which events hang on which: starts that are nested under an event, and events without a run of their own, of a whole log.
 * 40 bytes each in typed arrays: a log of ten million events may have millions of them.
 */
import { ID_BYTES } from '../../store/contract/events.js';
import type { Id } from './log-stretch.js';

/** Of each row: organisation, parent, child (4 words each), whether the child is a run. */
const WORDS = 10;
const PARENT = 1;
const CHILD = 5;
const IS_RUN = 9;

export interface LinkTable {
  readonly organisations: readonly string[];
  readonly words: Uint32Array;
}

export class LinkRows {
  readonly #organisations = new Map<string, number>();
  #words = new Uint32Array(WORDS * 64);
  #used = 0;

  /** @param child a run that is nested under the event `parent`, or an event without a run. */
  add(organisation: string, source: Buffer, parentAt: number, childAt: number, isRun: boolean): void {
    if (this.#used === this.#words.length) {
      const larger = new Uint32Array(this.#words.length * 2);
      larger.set(this.#words);
      this.#words = larger;
    }
    let number = this.#organisations.get(organisation);
    if (number === undefined) this.#organisations.set(organisation, (number = this.#organisations.size));
    const row = this.#used;
    this.#words[row] = number;
    for (let i = 0; i < ID_BYTES / 4; i++) {
      this.#words[row + PARENT + i] = source.readUInt32LE(parentAt + 4 * i);
      this.#words[row + CHILD + i] = source.readUInt32LE(childAt + 4 * i);
    }
    this.#words[row + IS_RUN] = isRun ? 1 : 0;
    this.#used += WORDS;
  }

  table(): LinkTable {
    return { organisations: [...this.#organisations.keys()], words: this.#words.slice(0, this.#used) };
  }
}

export interface Child {
  readonly id: Id;
  readonly isRun: boolean;
}

export class Links {
  readonly #organisations = new Map<string, number>();
  readonly #words: Uint32Array;
  readonly #byParent: Uint32Array;
  #byChild: Uint32Array | undefined;

  constructor(tables: readonly LinkTable[]) {
    this.#words = new Uint32Array(tables.reduce((sum, { words }) => sum + words.length, 0));
    let at = 0;
    for (const { organisations, words } of tables) {
      const numbers = organisations.map((name) => {
        const number = this.#organisations.get(name) ?? this.#organisations.size;
        this.#organisations.set(name, number);
        return number;
      });
      this.#words.set(words, at);
      for (const end = at + words.length; at < end; at += WORDS)
        this.#words[at] = numbers[this.#words[at] ?? 0] ?? 0;
    }
    this.#byParent = this.#sorted(PARENT);
  }

  /** What hangs on an event. */
  *childrenOf(organisation: string, parent: Id): Generator<Child> {
    for (const row of this.#rows(this.#byParent, PARENT, organisation, parent))
      yield { id: this.#id(row + CHILD), isRun: this.#words[row + IS_RUN] === 1 };
  }

  /** The event that one without a run hangs on; undefined when it names none. */
  parentOf(organisation: string, child: Id): Id | undefined {
    this.#byChild ??= this.#sorted(CHILD);
    for (const row of this.#rows(this.#byChild, CHILD, organisation, child))
      if (this.#words[row + IS_RUN] === 0) return this.#id(row + PARENT);
    return undefined;
  }

  #sorted(at: number): Uint32Array {
    const words = this.#words;
    const rows = Uint32Array.from({ length: words.length / WORDS }, (_, i) => i * WORDS);
    return rows.sort((a, b) => compare(words, a, words, b, at));
  }

  *#rows(order: Uint32Array, at: number, organisation: string, id: Id): Generator<number> {
    const number = this.#organisations.get(organisation);
    if (number === undefined) return;
    const words = this.#words;
    const wanted = new Uint32Array(WORDS);
    const bytes = Buffer.from(id, 'latin1');
    wanted[0] = number;
    for (let i = 0; i < ID_BYTES / 4; i++) wanted[at + i] = bytes.readUInt32LE(4 * i);
    let [low, high] = [0, order.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compare(words, order[middle] ?? 0, wanted, 0, at) < 0) low = middle + 1;
      else high = middle;
    }
    for (; low < order.length; low++) {
      const row = order[low] ?? 0;
      if (compare(words, row, wanted, 0, at) !== 0) return;
      yield row;
    }
  }

  #id(at: number): Id {
    const bytes = Buffer.alloc(ID_BYTES);
    for (let i = 0; i < ID_BYTES / 4; i++) bytes.writeUInt32LE(this.#words[at + i] ?? 0, 4 * i);
    return bytes.toString('latin1');
  }
}

/** By organisation, then by the id that stands `at` words behind. */
function compare(a: Uint32Array, rowA: number, b: Uint32Array, rowB: number, at: number): number {
  let difference = (a[rowA] ?? 0) - (b[rowB] ?? 0);
  for (let i = at; difference === 0 && i < at + ID_BYTES / 4; i++)
    difference = (a[rowA + i] ?? 0) - (b[rowB + i] ?? 0);
  return difference;
}
