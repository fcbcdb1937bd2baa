import type { EventLog } from '../../store/contract/events.js';
import { type RunSummary } from '../../catalogue/run-summary.js';
import { type Found, type Id, type LogEvent, type Range, type Sought, type StartFacts } from './log-stretch.js';
/** Names a record: a run by its id, or events without a run by the id of the event that they hang on. */
export interface RecordKey {
    readonly organisation: string;
    readonly id: Id;
    readonly isRun: boolean;
}
export declare function nameOf({ organisation, id }: RecordKey): string;
/** The records of runs that were found. */
export declare function keysIn(runs: Found['runs']): RecordKey[];
/** A record with its events. */
export declare class LogRun implements RecordKey {
    readonly organisation: string;
    readonly id: Id;
    readonly isRun: boolean;
    readonly events: LogEvent[];
    readonly starts: StartFacts[];
    /** Records that one of its starts is nested in. */
    readonly parents: Set<LogRun>;
    constructor(organisation: string, id: Id, isRun: boolean);
    get recordId(): string;
    /** It, and all that it is nested in. */
    get chain(): readonly LogRun[];
    /** Its id, and the events that it hangs on: a run has the id of the event that opens it, which may not be there. */
    get hangsOn(): readonly string[];
    /** Whom its starts name: targets, and callers. */
    get persons(): readonly string[];
}
export declare function named({ starts }: LogRun, as: 'target' | 'caller'): string[];
/** Why a run that was not found by an id is not about the person, although it is nested in one that was. */
export declare function whyNested(run: LogRun): string;
/**
 * What a run that was found by an id of a person says of this person.
 * @returns `why` is empty only for a run that is about this person and about no other.
 */
export declare function compared(run: LogRun, ids: ReadonlySet<string>): {
    because: 'target' | 'caller';
    about: 'this person' | 'someone else';
    why: string;
};
/** @param counts how much of what was asked for each organisation has. @throws CommandFailure for several. */
export declare function assertOneOrganisation(counts: ReadonlyMap<string, number>): void;
/** What is collected beside the records that are named. */
export interface Around {
    /** Runs that are nested in them, however deep. */
    readonly nested: boolean;
    /** Those that they are nested in: what holds one of these holds what is nested in it. */
    readonly outer: boolean;
}
export declare class LogRuns {
    #private;
    private readonly dataDir;
    readonly log: EventLog;
    /** By default all that was durable when it was opened. */
    readonly range: Range;
    private readonly signal;
    private constructor();
    /** @param part the sequences that are passed; all that is durable. @throws CommandFailure for a log that was cut. */
    static open(dataDir: string, signal: AbortSignal, part?: Partial<Range>): Promise<LogRuns>;
    /** @throws CommandFailure where the log is damaged; what the signal is aborted with. */
    find(sought: Partial<Sought>): Promise<Found>;
    /** The records of runs, and of events without one, each with the id by which it was found. */
    recordsOf({ runs, runless }: Found['erased']): Promise<{
        id: Id;
        record: RecordKey;
    }[]>;
    /** The record that an event is of; undefined for one that is not there. */
    recordOf(organisation: string, eventId: Id): Promise<RecordKey | undefined>;
    /**
     * Records with all their events, of which those that are not in the log have none, in as many passes as runs are nested deep.
     * @returns those that are named and those nested in them; what they are nested in stands in `LogRun.parents`.
     */
    collect(keys: Iterable<RecordKey>, around: Around): Promise<LogRun[]>;
    /** What a catalogue would say of each record that has events, made of these alone. */
    summaries(runs: readonly LogRun[]): AsyncGenerator<readonly [LogRun, RunSummary]>;
    close(): Promise<void>;
}
