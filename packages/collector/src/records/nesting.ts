/**
 * Runs within runs: an agent's run is nested in the run that holds the event which its inference-start names as its
 * parent. Pure; for one organisation at a time. Memory grows with the runs that are handed in, and those whose start
 * names no parent need not be.
 */
import { runIdOf, type RecordKey } from './membership.js';

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

/** For a record whose events name no event outside it, and that no run is nested in. */
export const UNLINKED: RunLinks = { parentRunOf: () => undefined, children: [], cycle: [] };

/** The first inference-start of a run in canonical order: the others do not decide what the run is nested in. */
export interface RunStart {
  readonly runId: string;
  readonly parentEventId: string | null;
}

/** How the runs of an organisation are nested. */
export class Nesting {
  readonly #recordOf: (eventId: string) => RecordKey | undefined;
  readonly #children = new Map<RecordKey, string[]>();
  readonly #cycles = new Map<RecordKey, readonly string[]>();

  /**
   * @param starts one for each run whose start names a parent; others may be among them.
   * @param recordOf the record of an event of the log; undefined when the log has no such event.
   */
  constructor(starts: Iterable<RunStart>, recordOf: (eventId: string) => RecordKey | undefined) {
    this.#recordOf = recordOf;
    const parents = new Map<RecordKey, RecordKey>();
    for (const { runId, parentEventId } of starts) {
      const parent = parentEventId === null ? undefined : recordOf(parentEventId);
      // A start that expands on an event of its own run is nested in nothing.
      if (parent === undefined || parent === `run:${runId}`) continue;
      parents.set(`run:${runId}`, parent);
      const siblings = this.#children.get(parent);
      if (siblings === undefined) this.#children.set(parent, [runId]);
      else siblings.push(runId);
    }
    for (const siblings of this.#children.values()) siblings.sort();
    this.#findCycles(parents);
  }

  /** The records that others are nested in, and those that are nested in each other in a circle. */
  *linked(): Generator<RecordKey> {
    yield* this.#children.keys();
    yield* this.#cycles.keys();
  }

  /** The run of an event; null when it is of none, undefined when the log has no such event. */
  runOf(eventId: string): string | null | undefined {
    const record = this.#recordOf(eventId);
    return record === undefined ? undefined : runIdOf(record);
  }

  /** What the record of this key has to know. */
  linksOf(key: RecordKey): RunLinks {
    return {
      parentRunOf: (eventId) => this.runOf(eventId),
      children: this.#children.get(key) ?? [],
      cycle: this.#cycles.get(key) ?? [],
    };
  }

  /** Every run has at most one parent, so who walks up ends at the top, where somebody has been, or in a new circle. */
  #findCycles(parents: ReadonlyMap<RecordKey, RecordKey>): void {
    const walkOf = new Map<RecordKey, number>();
    let walk = 0;
    for (const start of parents.keys()) {
      walk++;
      let at: RecordKey | undefined = start;
      while (at !== undefined && !walkOf.has(at)) {
        walkOf.set(at, walk);
        at = parents.get(at);
      }
      if (at === undefined || walkOf.get(at) !== walk) continue;
      const circle: RecordKey[] = [];
      for (let next: RecordKey | undefined = at; next !== undefined; next = parents.get(next)) {
        if (circle.length > 0 && next === at) break;
        circle.push(next);
      }
      // Only runs have parents, so there are only runs in a circle.
      const runIds = circle
        .map((key) => runIdOf(key) ?? '')
        .sort()
        .slice(0, MOST_OF_A_CIRCLE);
      for (const key of circle) this.#cycles.set(key, runIds);
    }
  }
}
