/**
 * The record of an event and the run around a run, found the simple way: maps of ids as text. Tests compare
 * membership.ts and nesting.ts with it.
 */
import type { RunLinks } from '../../src/records/assemble.js';

/** A record of an organisation. A run and an event may have the same id, so the key tells them apart. */
export type RecordKey = `run:${string}` | `event:${string}`;

/** The run of a record; null for a record without a run. */
function runIdOf(key: RecordKey): string | null {
  return key.startsWith('run:') ? key.slice('run:'.length) : null;
}

/** An event that names no run and opens none. Ids in lower case. */
export interface RunlessEvent {
  readonly eventId: string;
  readonly parentEventId: string | null;
}

/**
 * Finds the records of events that name no run. Takes time and memory by their number, however long their chains.
 * @param runless all such events of the organisation: one that is left out seems to be missing in the log.
 * @param runOf the run that an event names or opens itself; undefined when it does not, or is not in the log.
 * @returns the key of each. It does not depend on their order.
 */
export function placeRunless(
  runless: Iterable<RunlessEvent>,
  runOf: (eventId: string) => string | undefined,
): Map<string, RecordKey> {
  const parents = new Map<string, string | null>();
  for (const { eventId, parentEventId } of runless) parents.set(eventId, parentEventId);
  const keys = new Map<string, RecordKey>();
  for (const start of parents.keys()) {
    // Every event between here and the first one whose record is known.
    const path: string[] = [];
    const onPath = new Set<string>();
    let at: string | null | undefined = start;
    while (at != null && parents.has(at) && !keys.has(at) && !onPath.has(at)) {
      path.push(at);
      onPath.add(at);
      at = parents.get(at);
    }
    const key = keyAtEndOf(path, at ?? null, onPath, keys, runOf);
    for (const eventId of path) keys.set(eventId, key);
  }
  return keys;
}

function keyAtEndOf(
  path: readonly string[],
  beyond: string | null,
  onPath: ReadonlySet<string>,
  keys: ReadonlyMap<string, RecordKey>,
  runOf: (eventId: string) => string | undefined,
): RecordKey {
  if (beyond !== null) {
    const known = keys.get(beyond);
    if (known !== undefined) return known;
    // A circle has no parent outside; its smallest id is the same from any entry point.
    if (onPath.has(beyond)) return `event:${smallest(path.slice(path.indexOf(beyond)))}`;
    const runId = runOf(beyond);
    if (runId !== undefined) return `run:${runId}`;
  }
  return `event:${path.at(-1) ?? ''}`;
}

function smallest(ids: readonly string[]): string {
  return ids.reduce((a, b) => (a < b ? a : b));
}

/** Each run of a circle names the others, so naming all would be the square of their number. */
const MOST_OF_A_CIRCLE = 100;

/** The first inference-start of a run in canonical order: the others do not decide what the run is nested in. */
export interface RunStart {
  readonly runId: string;
  readonly parentEventId: string | null;
}

/** How the runs of an organisation are nested. */
export class PlainNesting {
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
      // A start whose parent is in its own run is not nested.
      if (parent === undefined || parent === `run:${runId}`) continue;
      parents.set(`run:${runId}`, parent);
      const siblings = this.#children.get(parent);
      if (siblings === undefined) this.#children.set(parent, [runId]);
      else siblings.push(runId);
    }
    for (const siblings of this.#children.values()) siblings.sort();
    this.#findCycles(parents);
  }

  /** The run of an event; null when it is of none, undefined when the log has no such event. */
  runOf(eventId: string): string | null | undefined {
    const record = this.#recordOf(eventId);
    return record === undefined ? undefined : runIdOf(record);
  }

  /** The links that the record of this key needs. */
  linksOf(key: RecordKey): RunLinks {
    return {
      parentRunOf: (eventId) => this.runOf(eventId),
      children: this.#children.get(key) ?? [],
      cycle: this.#cycles.get(key) ?? [],
    };
  }

  /** Every run has at most one parent, so a walk up ends at the top, at a visited run, or in a new circle. */
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
