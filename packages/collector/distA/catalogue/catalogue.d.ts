import { type EventKind } from '@clinical-events/protocol';
import type { CountedRun } from '../records/counted-run.js';
import { type Cursor, type EventLog, type Place } from '../store/contract/events.js';
import { type RecordSelection, type RunFilter } from './questions.js';
import type { RunSummary } from './run-summary.js';
import { type Tally } from './tally.js';
import { type CatalogueOptions } from './taking-in.js';
import type { Updated, UpdateOptions } from './updating.js';
export { beganBySender } from './run-summary.js';
export { CatalogueBusy, CatalogueDamaged, CatalogueFault } from './faults.js';
export { modelsNamed, type FeedbackAsked, type RecordSelection, type RunFilter } from './questions.js';
export type { CatalogueOptions, Cursor, EventLog, RunSummary, Tally, Updated, UpdateOptions };
/** Where the catalogue of a data directory is. */
export declare function catalogueDirectory(dataDir: string): string;
/** An event of a record. Times in milliseconds since 1970. */
export interface EventEntry extends Place {
    readonly kind: EventKind;
    readonly sequence: number;
    readonly receivedAt: number;
    /** By the sender's clock; undefined when the payload cannot be read. */
    readonly sentAt: number | undefined;
}
/** A record, and where its events are. */
export interface CatalogueRun extends RunSummary {
    /** Its row: the same as long as the record is not merged with another. */
    readonly row: number;
    /** Its events in the order of the log. */
    events(): EventEntry[];
}
/** A record of an export: where its events are, and what links it to others. */
export interface PlacedRecord {
    readonly row: number;
    readonly firstSequence: number;
    /** The run of what it is nested in, or null when that is none; undefined when it is nested in nothing. */
    readonly parent: string | null | undefined;
    readonly hasChildren: boolean;
    readonly isInCircle: boolean;
    /** Of its events, in the order of the log. */
    places(): Place[];
}
/** Where an event is: its run, or null when it is of none, and the row of its record. */
export interface EventRecord {
    readonly runId: string | null;
    readonly row: number;
}
export declare class Catalogue {
    #private;
    private readonly options;
    private constructor();
    /** @throws CatalogueFault when the file cannot be made or opened. */
    static open(options: CatalogueOptions): Catalogue;
    /** The next sequence that an update takes in. */
    get cursor(): Cursor;
    /**
     * Takes in what the log holds behind the cursor. A catalogue of another log is emptied first, and one that is damaged
     * is rebuilt once.
     * @throws CatalogueBusy when another process writes for longer than is waited, CatalogueFault, or what the log throws.
     */
    update(log: EventLog, options?: UpdateOptions): Promise<Updated>;
    /**
     * The records that match, in the order of the filter, as they are when the first one is asked for: an update meanwhile
     * is not seen. While they are read, the file cannot be made smaller.
     * @throws CatalogueFault when an update was left before its end; CatalogueDamaged, and the next update rebuilds it. So
     *   do the others.
     */
    runs(filter?: RunFilter): Generator<CatalogueRun>;
    /** How many records match; the order makes no difference. With a limit, no more than it are counted. */
    count(filter?: RunFilter): number;
    /**
     * The records of that id, runs first. @param recordId in its text form, or its first hexadecimal digits.
     * @param most of an id that is short.
     */
    run(organisation: string | undefined, recordId: string, most?: number): CatalogueRun[];
    /** All that have an event. */
    organisations(): string[];
    /** The ids before and behind one among those of all records. */
    neighbours(recordId: string): string[];
    /** The records of a selection in its order, some at a time: between two of these others can have their turn. */
    placed(selection: RecordSelection): Generator<PlacedRecord[]>;
    /**
     * Calls for each record of a selection what is counted of it, some at a time. `since` and `until` are not looked at but
     * for when a record began.
     * @returns the sequence up to which it has come, at most the last.
     */
    counted(selection: RecordSelection, visit: (record: CountedRun) => void): Generator<number>;
    /** The models of all records, and the versions of each: null where a record of it says none. */
    models(): {
        readonly model: string;
        readonly version: string | null;
    }[];
    /** The runs that are nested in a record, in the order of their ids. */
    children({ row }: Pick<CatalogueRun, 'row'>): string[];
    /** The runs of the circle that a run is part of, in the order of their ids and at most 100; empty when there is none. */
    cycle({ row }: Pick<CatalogueRun, 'row'>): readonly string[];
    /** The record that an event is of; undefined when the catalogue has no such event. */
    recordOfEvent(log: Pick<EventLog, 'find'>, organisation: string, eventId: string): Promise<EventRecord | undefined>;
    /** The record of a row; undefined when there is no such row, or no longer. */
    byRow(row: number): CatalogueRun | undefined;
    /**
     * From now on, until it is released, all questions are answered from what is committed now.
     * @returns whether that can be asked: false, and nothing is held, when an update was left before its end.
     */
    hold(): boolean;
    release(): void;
    /** False when the next update makes another file: it is not the one under its name, or a question found it damaged. */
    get isCurrent(): boolean;
    /**
     * Runs that began in the hour of `since` or later, by the collector's clock and by how complete they are. It may be asked
     * before an update has come to its end: a record counts by what its row says.
     */
    tally(since: number): Tally;
    /** On return the files are closed, and removed when they are damaged; what was asked for lazily ends. */
    close(): void;
}
