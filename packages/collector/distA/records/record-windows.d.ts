/** Records made of runs that lie near each other in the log, so that their events are read in few calls. */
import type { ClinicalRecord } from '@clinical-events/protocol';
import type { EventLog, Place } from '../store/contract/events.js';
import { type RunLinks } from './assemble.js';
import { type EventBody, type EventReader, type RunEvent } from './run-event.js';
interface PlacedRun {
    readonly places: readonly Place[];
}
/** Runs in their order, in parts whose events can be read together. */
export declare function windowsOf<Run extends PlacedRun>(runs: Iterable<Run>): Generator<Run[]>;
/** The events of each run, in no order, some runs at a time: only of these are there objects while the rest waits. */
export declare function eventBatchesOf<Body extends EventBody>(log: Pick<EventLog, 'read'>, window: readonly PlacedRun[], reader: EventReader<Body>): AsyncGenerator<RunEvent<Body>[][]>;
/** @returns the records of the runs, in their order. */
export declare function recordsOf(log: Pick<EventLog, 'read'>, window: readonly PlacedRun[], linksOf: (run: number, events: readonly RunEvent[]) => Promise<RunLinks>): Promise<ClinicalRecord[]>;
/** The parents that events of a run name and that are not of the run: what its links will be asked for. */
export declare function outsideParents(events: readonly RunEvent<EventBody>[]): string[];
export {};
