/**
 * Runs within runs: an agent's run is nested in the run that holds the event which its inference-start names as its
 * parent. Pure. Memory grows with the runs that are nested, by some 150 bytes each.
 */
import { EntryList } from './entry-list.js';
import { entryId } from './run-entry.js';
import { RunTable } from './run-table.js';

/** What a record has to know of the rest of the log. Ids in lower case. */
export interface RunLinks {
  /**
   * Where an event is that is not of this record: its run, or null when it is of no run.
   * @returns undefined when the log has no such event.
   */
  parentRunOf(eventId: string): string | null | undefined;
  /** The runs that are nested in this record, each once. */
  readonly children: readonly string[];
  /**
   * The runs of the circle that this run is part of, at most MOST_OF_A_CIRCLE; empty when it is nested properly or not
   * at all.
   */
  readonly cycle: readonly string[];
}

/** Each run of a circle tells of the others, so to tell of all would be the square of their number. */
const MOST_OF_A_CIRCLE = 100;
const NONE = -1;
const NOBODY: readonly string[] = [];

/** For a record whose events name no event outside it, and that no run is nested in. */
export const UNLINKED: RunLinks = { parentRunOf: () => undefined, children: NOBODY, cycle: NOBODY };

/** Runs that are nested in another record, each once, and these records, in the same order. */
export class NestedRuns {
  readonly runs = new EntryList();
  readonly parents = new EntryList();

  /** @param parent an entry of the record that the run of the entry at `at` is nested in. */
  add(run: Buffer, at: number, parent: Buffer): void {
    this.runs.append(run, at);
    this.parents.append(parent, 0);
  }
}

/** How runs are nested. */
export class Nesting {
  readonly #runs: Buffer;
  readonly #parents: Buffer;
  readonly #byRun: RunTable;
  readonly #byParent: RunTable;
  /** By the number of a run. */
  readonly #cycles = new Map<number, readonly string[]>();

  constructor({ runs, parents }: NestedRuns) {
    this.#runs = runs.entries;
    this.#parents = parents.entries;
    this.#byRun = new RunTable(this.#runs);
    this.#byParent = new RunTable(this.#parents);
    this.#findCycles();
  }

  /** The runs that are nested in the record of an entry, in the order of their ids. */
  childrenOf(source: Buffer, at: number): readonly string[] {
    const parent = this.#byParent.find(source, at);
    if (parent < 0) return NOBODY;
    const children: string[] = [];
    for (let child = this.#byParent.first(parent); child >= 0; child = this.#byParent.after(child)) {
      children.push(entryId(this.#runs, child));
    }
    return children.sort();
  }

  /** The runs of the circle that the run of an entry is part of, in the order of their ids. */
  cycleOf(source: Buffer, at: number): readonly string[] {
    if (this.#cycles.size === 0) return NOBODY;
    return this.#cycles.get(this.#byRun.find(source, at)) ?? NOBODY;
  }

  /** Every run has at most one parent, so who walks up ends at the top, where somebody has been, or in a new circle. */
  #findCycles(): void {
    const walkOf = new Int32Array(this.#byRun.runs).fill(NONE);
    for (let start = 0; start < walkOf.length; start++) {
      let at = start;
      while (at >= 0 && walkOf[at] === NONE) {
        walkOf[at] = start;
        at = this.#parentOf(at);
      }
      if (at < 0 || walkOf[at] !== start) continue;
      const circle: number[] = [];
      let next = at;
      do {
        circle.push(next);
        next = this.#parentOf(next);
      } while (next !== at);
      const runIds = circle
        .map((run) => entryId(this.#runs, this.#byRun.first(run)))
        .sort()
        .slice(0, MOST_OF_A_CIRCLE);
      for (const run of circle) this.#cycles.set(run, runIds);
    }
  }

  /** The number of the run that a run is nested in; below 0 when that is nested in nothing itself. */
  #parentOf(run: number): number {
    return this.#byRun.find(this.#parents, this.#byRun.first(run));
  }
}
