/** Makes records of neighbouring runs together, so that few calls read their events. */
import type { ClinicalRecord } from '@clinical-events/protocol';
import type { EventLog, Place } from '../store/contract/events.js';
import { assembleRecord, type RunLinks } from './assemble.js';
import { type EventBody, ParsingReader, type EventReader, type RunEvent } from './run-event.js';

/** Bytes of log in a window; a larger run has its own window. */
const WINDOW_BYTES = 4 << 20;
/** Bytes of a batch: small, because its objects survive garbage collections until the last record is made. */
const BATCH_BYTES = 512 << 10;
const MOST_RUNS = 4096;

interface PlacedRun {
  readonly places: readonly Place[];
}

/** Parts of the runs, in order, whose events can be read together. */
export function windowsOf<Run extends PlacedRun>(runs: Iterable<Run>): Generator<Run[]> {
  return partsOf(runs, WINDOW_BYTES);
}

/** The events of each run, in no order, a few runs at a time: only these are in memory as objects. */
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

/** @returns the records of the runs, in order. */
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

/** For a few events, as in most runs, a linear search is faster than a set. */
const FEW = 8;

/** Parents outside the run that its events name. */
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

/** Groups neighbours whose events have at most that many bytes; a larger one is alone. */
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

/** Size of the events in the log in bytes. */
export function bytesOf({ places }: PlacedRun): number {
  let bytes = 0;
  for (const { size } of places) bytes += size;
  return bytes;
}
