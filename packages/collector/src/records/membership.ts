/**
 * Which record an event is part of. An event that names a run, or opens one, is part of that run's
 * record. Any other event goes where its parent goes, and so on up; where that leads to no run, the events that hang
 * together are a record without a run, known by the event that they hang on. Pure; for one organisation at a time,
 * because ids are unique in one.
 */

/** A record of an organisation. A run and an event may have the same id, so the key says which is meant. */
export type RecordKey = `run:${string}` | `event:${string}`;

/** The run of a record; null for a record without a run. */
export function runIdOf(key: RecordKey): string | null {
  return key.startsWith('run:') ? key.slice('run:'.length) : null;
}

/** An event that names no run and opens none. Ids in lower case. */
export interface RunlessEvent {
  readonly eventId: string;
  readonly parentEventId: string | null;
}

/**
 * Finds the records of events that name no run. Takes time and memory by their number, however long their chains.
 * @param runless all such events of the organisation: of one left out, it looks as if the log did not have it.
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
    // A circle hangs on nothing; its smallest id is the same from wherever one comes to it.
    if (onPath.has(beyond)) return `event:${smallest(path.slice(path.indexOf(beyond)))}`;
    const runId = runOf(beyond);
    if (runId !== undefined) return `run:${runId}`;
  }
  return `event:${path.at(-1) ?? ''}`;
}

function smallest(ids: readonly string[]): string {
  return ids.reduce((a, b) => (a < b ? a : b));
}
