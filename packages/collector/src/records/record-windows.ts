/** Records made of runs that lie near each other in the log, so that their events are read in few calls. */
import type { ClinicalRecord } from '@clinical-events/protocol';
import type { EventLog, Place } from '../store/contract/events.js';
import { assembleRecord, type RunLinks } from './assemble.js';
import { type EventBody, ParsingReader, type EventReader, type RunEvent } from './run-event.js';

/** The bytes of log that fill a window; a run that is larger is one for itself. */
const WINDOW_BYTES = 4 << 20;
/** A batch, likewise: few, because until its last record is made its objects survive every collection of garbage. */
const BATCH_BYTES = 512 << 10;
const MOST_RUNS = 4096;

interface PlacedRun {
  readonly places: readonly Place[];
}

/** Runs in their order, in parts whose events can be read together. */
export function windowsOf<Run extends PlacedRun>(runs: Iterable<Run>): Generator<Run[]> {
  return partsOf(runs, WINDOW_BYTES);
}

/** The events of each run, in no order, some runs at a time: only of these are there objects while the rest waits. */
export async function* eventBatchesOf<Body extends EventBody>(
  log: Pick<EventLog, 'read'>,
  window: readonly PlacedRun[],
  reader: EventReader<Body>,
): AsyncGenerator<RunEvent<Body>[][]> {
  const read = await log.read(window.flatMap(({ places }) => places));
  let index = 0;
  for (const part of partsOf(window, BATCH_BYTES)) {
    reader.begin(read);
    yield part.map(({ places }) => places.map(() => reader.event(index++)));
  }
}

/** @returns the records of the runs, in their order. */
export async function recordsOf(
  log: Pick<EventLog, 'read'>,
  window: readonly PlacedRun[],
  linksOf: (run: number, events: readonly RunEvent[]) => Promise<RunLinks>,
): Promise<ClinicalRecord[]> {
  const records: ClinicalRecord[] = [];
  for await (const batch of eventBatchesOf(log, window, new ParsingReader())) {
    for (const events of batch) records.push(assembleRecord(events, await linksOf(records.length, events)));
  }
  return records;
}

/** In a run of a few events, which is to say in most, looking at each is quicker than making a set of them. */
const FEW = 8;

/** The parents that events of a run name and that are not of the run: what its links will be asked for. */
export function outsideParents(events: readonly RunEvent<EventBody>[]): string[] {
  const ids = events.length > FEW ? new Set(events.map(({ event }) => event.eventId)) : undefined;
  const outside: string[] = [];
  for (const { body } of events) {
    const parent = body?.parent_event_id?.toLowerCase();
    if (parent !== undefined && !(ids?.has(parent) ?? hasEvent(events, parent))) outside.push(parent);
  }
  return outside;
}

function hasEvent(events: readonly RunEvent<EventBody>[], id: string): boolean {
  for (const { event } of events) if (event.eventId === id) return true;
  return false;
}

/** Neighbours whose events take at most that many bytes together; one that takes more stands alone. */
export function* partsOf<Run extends PlacedRun>(runs: Iterable<Run>, mostBytes: number): Generator<Run[]> {
  let part: Run[] = [];
  let bytes = 0;
  for (const run of runs) {
    const more = bytesOf(run);
    if (part.length > 0 && (bytes + more > mostBytes || part.length === MOST_RUNS)) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(run);
    bytes += more;
  }
  if (part.length > 0) yield part;
}

/** Bytes of log that the events take. */
export function bytesOf({ places }: PlacedRun): number {
  let bytes = 0;
  for (const { size } of places) bytes += size;
  return bytes;
}
