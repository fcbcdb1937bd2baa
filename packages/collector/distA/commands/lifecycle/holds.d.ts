import type { Actions } from '../../privacy/actions.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import type { EventLog } from '../../store/contract/events.js';
import type { LogRun } from './log-runs.js';
export interface HoldRecord {
    readonly format: 'clinical-events/hold/v1';
    readonly action: string;
    readonly name: string;
    readonly begun: string;
    /** Ids of runs. */
    readonly runs: readonly string[];
    readonly organisations: readonly string[];
    /** In base64; also of runs that come later. */
    readonly subjects: readonly string[];
    /**
     * What it met when it began, of runs and subjects: runs, and the sequences of their events. So that no sender takes anything
     * out of it, by a further start that is about someone else.
     */
    readonly met?: {
        readonly runs: readonly string[];
        readonly events: string;
    };
    readonly salt: string;
}
/** Kinds of records of which an action of the log has a SHA-256; each has a directory. Back-ups have them. */
export declare const RECORDS: readonly ["holds", "erasures"];
export declare function recordFile(dataDir: string, kind: (typeof RECORDS)[number], action: string): string;
/** So that whoever has the log alone cannot guess what a record holds and try it. */
export declare function newSalt(): string;
/** On return the record is on stable storage. @returns it, and what the log is to say of it. */
export declare function keepRecord(dataDir: string, record: Omit<HoldRecord, 'format' | 'salt' | 'begun'>): Promise<{
    readonly record: string;
    readonly text: string;
}>;
/** For a mirror: on return the record of a hold that was begun on another is here too. @returns false for one that is not it. */
export declare function takeRecord(dataDir: string, { action, record }: {
    readonly action: string;
    readonly record: string;
}, text: string): Promise<boolean>;
/** On return the record is on stable storage, for its owner alone. */
export declare function writeRecord(dataDir: string, kind: (typeof RECORDS)[number], action: string, text: string): Promise<void>;
/** @param record what the log says of it. @returns undefined when it is not there as it was written. */
export declare function recordOf(dataDir: string, action: string, record: string): HoldRecord | undefined;
/** @param record what the log says of it. @returns undefined for a text that is not it. */
export declare function recordIn(text: string, record: string): HoldRecord | undefined;
/**
 * The records of the holds that are not over.
 * @throws CommandFailure when one is missing or was changed: what it holds is not known, so that nothing may be erased.
 */
export declare function holdsOf(dataDir: string, actions: Actions): HoldRecord[];
/** Decides by which holds an event is held. */
export declare class Holds {
    #private;
    private readonly records;
    private readonly names;
    /** @param names by which the subjects of holds are encrypted. */
    constructor(records: readonly HoldRecord[], names: EventLog['names']);
    /**
     * The names of the holds on an event of a run. A hold on a run holds what is nested in it, and one on a person every run of
     * which a start names the person: a further start of its sender takes nothing out of it.
     */
    on(run: LogRun, sequence: number): string[];
}
/** The sequences of the events that a hold met when it began. */
export declare function metBy({ met }: Pick<HoldRecord, 'met'>): SequenceSet;
