/** Records made of runs that lie near each other in the log, so that their events are read in few calls. */
import type { ClinicalRecord } from '@clinical-events/protocol';
import type { EventFacts, EventPlace, EventPlaces } from '../store/event-places.js';
import { assembleRecord } from './assemble.js';
import type { RunLinks } from './nesting.js';
import { runEvent } from './run-event.js';

/** A window is full with so many bytes of log; a run that is larger is one for itself. */
const WINDOW_BYTES = 4 << 20;
/** A batch, likewise: few, because until its last record is made its texts survive every collection of garbage. */
const BATCH_BYTES = 512 << 10;
const MOST_RUNS = 4096;

interface PlacedRun {
  readonly places: readonly EventPlace[];
}

/** Runs in their order, in parts whose events can be read at once. */
export function windowsOf<Run extends PlacedRun>(runs: Iterable<Run>): Generator<Run[]> {
  return partsOf(runs, WINDOW_BYTES);
}

/** An event as it was read. */
export interface UnparsedEvent {
  readonly facts: EventFacts;
  /** Undefined when the payload is encrypted or retired. */
  readonly text: string | undefined;
}

/** The events of each run, in no order, some runs at once: only of these are there strings while the rest waits. */
export function* eventBatchesOf(
  log: Pick<EventPlaces, 'read'>,
  window: readonly PlacedRun[],
): Generator<UnparsedEvent[][]> {
  const read = log.read(window.flatMap(({ places }) => places));
  let index = 0;
  for (const part of partsOf(window, BATCH_BYTES)) {
    yield part.map(({ places }) =>
      places.map(() => ({ facts: read.facts(index), text: read.body(index++) })),
    );
  }
}

/** Parses what a run's events say, and makes the record. */
export function recordOf(events: readonly UnparsedEvent[], links: RunLinks): ClinicalRecord {
  return assembleRecord(
    events.map(({ facts, text }) => runEvent(facts, text)),
    links,
  );
}

/** @returns the records of the runs, in their order. */
export function recordsOf(
  log: Pick<EventPlaces, 'read'>,
  window: readonly PlacedRun[],
  linksOf: (run: number) => RunLinks,
): ClinicalRecord[] {
  const records: ClinicalRecord[] = [];
  for (const batch of eventBatchesOf(log, window)) {
    for (const events of batch) records.push(recordOf(events, linksOf(records.length)));
  }
  return records;
}

/** As nearly every sender writes it. */
const STATED = '"parent_event_id":"';
const ID_LENGTH = 36;
/** In a run of a few events, which is to say in most, looking at each is quicker than making a set of them. */
const FEW = 8;

/**
 * The parents that events of a run name and that are not of the run: what its links will be asked for, as far as that
 * can be seen without parsing them. Some may be missing, and others be too many.
 */
export function likelyOutsideParents(events: readonly UnparsedEvent[]): string[] {
  const ids = events.length > FEW ? new Set(events.map(({ facts }) => facts.eventId)) : undefined;
  const outside: string[] = [];
  for (const { text } of events) {
    const at = text?.indexOf(STATED) ?? -1;
    if (text === undefined || at < 0) continue;
    const stated = text.slice(at + STATED.length, at + STATED.length + ID_LENGTH);
    if (ids?.has(stated) ?? hasEvent(events, stated)) continue;
    outside.push(stated.toLowerCase());
  }
  return outside;
}

function hasEvent(events: readonly UnparsedEvent[], id: string): boolean {
  for (const { facts } of events) if (facts.eventId === id) return true;
  return false;
}

function* partsOf<Run extends PlacedRun>(runs: Iterable<Run>, mostBytes: number): Generator<Run[]> {
  let part: Run[] = [];
  let bytes = 0;
  for (const run of runs) {
    let more = 0;
    for (const { size } of run.places) more += size;
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
