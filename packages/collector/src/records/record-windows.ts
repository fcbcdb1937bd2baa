/** Records made of runs that lie near each other in the log, so that their events are read in few calls. */
import type { ClinicalRecord } from '@clinical-events/protocol';
import type { EventPlace, EventPlaces } from '../store/event-places.js';
import { assembleRecord } from './assemble.js';
import type { RunLinks } from './nesting.js';
import { runEventOf, type RunEvent } from './run-event.js';
import type { RunPlaces } from './run-groups.js';

/** A window is full with so many bytes of log; a run that is larger is one for itself. */
const WINDOW_BYTES = 1 << 20;
const WINDOW_RUNS = 1024;

/** Runs in their order, in parts that can be in memory at once. */
export function* windowsOf(runs: Iterable<RunPlaces>): Generator<RunPlaces[]> {
  let window: RunPlaces[] = [];
  let bytes = 0;
  for (const run of runs) {
    const more = run.places.reduce((sum, { size }) => sum + size, 0);
    if (window.length > 0 && (bytes + more > WINDOW_BYTES || window.length === WINDOW_RUNS)) {
      yield window;
      window = [];
      bytes = 0;
    }
    window.push(run);
    bytes += more;
  }
  if (window.length > 0) yield window;
}

/** @returns the records of the runs, in their order. */
export function recordsOf(
  log: Pick<EventPlaces, 'read'>,
  window: readonly Pick<RunPlaces, 'places'>[],
  linksOf: (run: number) => RunLinks,
): ClinicalRecord[] {
  return eventsOf(log, window).map((events, run) => assembleRecord(events, linksOf(run)));
}

/** @returns the events of each run, in no order. */
export function eventsOf(
  log: Pick<EventPlaces, 'read'>,
  window: readonly Pick<RunPlaces, 'places'>[],
): RunEvent[][] {
  const places: (EventPlace & { readonly run: number })[] = [];
  for (const [run, each] of window.entries()) {
    for (const { address, size } of each.places) places.push({ address, size, run });
  }
  places.sort((a, b) => a.address - b.address);
  const events: RunEvent[][] = window.map(() => []);
  log.read(places, (stored, index) => {
    events[places[index]?.run ?? -1]?.push(runEventOf(stored));
  });
  return events;
}

/** The parents that events of a run name and that are not of the run: what its links will be asked for. */
export function outsideParentsOf(events: readonly RunEvent[]): string[] {
  const outside: string[] = [];
  for (const { body } of events) {
    const parent = body?.parent_event_id?.toLowerCase();
    if (parent !== undefined && !events.some(({ event }) => event.eventId === parent)) outside.push(parent);
  }
  return outside;
}
