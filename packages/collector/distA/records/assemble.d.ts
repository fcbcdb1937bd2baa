/**
 * The record of a run from its events: a pure function, the same whatever order the events are handed in.
 * Each event handed in stands once in `metadata.events`; what its sender wrote stands once more where it belongs, as
 * sent, and fields that no one named go with it. docs/reference/records.md, "How a record is made", has the rules in
 * words.
 */
import { type BaseEvent, type ClinicalRecord, type ExtraFields, type RecordMetadata } from '@clinical-events/protocol';
import { type Parentage, type TimedEvent } from './canonical-order.js';
import { type EventBody, type RunEvent, type Sent } from './run-event.js';
/** What a record says of itself, but for its single events. */
export type RunMetadata = {
    readonly [Name in keyof RecordMetadata as string extends Name ? never : Name extends 'events' ? never : Name]: RecordMetadata[Name];
};
/** What a record has to know of the rest of the log. Ids in lower case. */
export interface RunLinks {
    /**
     * Where an event is that is not of this record: its run, or null when it is of no run.
     * @returns undefined when the log has no such event.
     */
    parentRunOf(eventId: string): string | null | undefined;
    /** The runs that are nested in this record, each once. */
    readonly children: readonly string[];
    /** The runs of the circle that this run is part of; empty when it is nested properly or not at all. */
    readonly cycle: readonly string[];
}
/** For a record whose events name no event outside it, and that no run is nested in. */
export declare const UNLINKED: RunLinks;
/** The fields that the protocol does not name. */
export declare function extraOf({ event, body }: RunEvent): ExtraFields;
/** What a record is, before it is written out: what a format with columns takes. */
export interface AssembledRun<Body extends EventBody = EventBody> {
    readonly model: Sent | null;
    readonly user: Sent | null;
    readonly target: Sent | null;
    readonly inputs: Sent | null;
    /** Of the lists, those events whose payload can be read. All are in canonical order. */
    readonly artifacts: readonly TimedEvent<Body>[];
    readonly outputs: readonly TimedEvent<Body>[];
    readonly outcomes: readonly TimedEvent<Body>[];
    readonly feedback: readonly TimedEvent<Body>[];
    readonly metadata: RunMetadata & {
        readonly events: readonly TimedEvent<Body>[];
    };
    /** The inference-start that the record follows: the first. */
    readonly start: TimedEvent<Body> | undefined;
    readonly parentage: Parentage;
}
/**
 * @param events all events of one record (catalogue/placing.ts), at least one, each once. Their bodies become
 *   part of the record; neither may be changed afterwards.
 * @throws RangeError when there are none, or they are of two runs or two organisations.
 */
export declare function assembleRun<Body extends EventBody>(events: readonly RunEvent<Body>[], links?: RunLinks): AssembledRun<Body>;
/** The record itself, whole. */
export declare function recordOf(run: AssembledRun<BaseEvent>): ClinicalRecord;
export declare function assembleRecord(events: readonly RunEvent[], links?: RunLinks): ClinicalRecord;
