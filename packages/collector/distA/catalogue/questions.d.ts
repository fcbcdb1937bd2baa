import type { CountedRun } from '../records/counted-run.js';
import { type FeedbackWord, type OutcomeWord } from '../records/vocabulary.js';
import { type Value } from './columns.js';
import type { RunSummary } from './run-summary.js';
import type { Names } from './names.js';
import type { Statements } from './statements.js';
export type FeedbackAsked = FeedbackWord | 'up' | 'down' | 'any' | 'none';
/** Every condition that is given must hold. Times in milliseconds since 1970. */
export interface RunFilter {
    /** A run id, or the id that a record without a run is known by; lower case. */
    readonly recordId?: string | undefined;
    readonly organisation?: string | undefined;
    readonly target?: string | undefined;
    readonly user?: string | undefined;
    /** Any of these. A version of '' is that of a run whose version is not known. */
    readonly models?: readonly {
        readonly model: string;
        readonly version?: string;
    }[] | undefined;
    readonly application?: string | undefined;
    readonly outcome?: OutcomeWord | undefined;
    /** Any of its feedback is of this word; of `up` and `down`, any of its thumbs. It has any, or none. */
    readonly feedback?: FeedbackAsked | undefined;
    readonly level?: RunSummary['level'] | undefined;
    readonly hasConflict?: boolean | undefined;
    /** The call of its model failed, or did not. */
    readonly failed?: boolean | undefined;
    /** It has no outcome, and began before this, by the clock. */
    readonly noOutcomeSince?: number | undefined;
    /** It began then or later, by the clock. */
    readonly since?: number | undefined;
    /** It began before. */
    readonly until?: number | undefined;
    /** It has an event that the collector had then or later, and before `until` where that is given. */
    readonly eventsSince?: number | undefined;
    /** By which it began, and by which it is newer or older than another. */
    readonly clock?: 'received' | 'sender' | undefined;
    /** It has an event with a later sequence. */
    readonly afterSequence?: number | undefined;
    /** True for runs alone, false for records without a run alone. */
    readonly isRun?: boolean | undefined;
    /**
     * `newest` and `oldest`: by when they began, by the clock. `log` and `sender`, as exports have them: by the sequence of
     * their first event, and by when they began by the sender's clock.
     */
    readonly order?: 'newest' | 'oldest' | 'log' | 'sender' | undefined;
    readonly limit?: number | undefined;
}
export interface RunQuery {
    /** Behind FROM run, without the order. */
    readonly where: string;
    readonly order: string;
    readonly values: readonly Value[];
}
/** The number of a text; undefined when no row has it. */
type NameId = (text: string) => number | undefined;
/** @returns undefined when nothing can match. */
export declare function queryOf(filter: RunFilter, nameId: NameId): RunQuery | undefined;
/** Both an id and a version may have an @ in them, so that MODEL_ID@VERSION can be meant in several ways. */
export declare function modelsNamed(text: string): NonNullable<RunFilter['models']>;
/** Which records are wanted. Every condition that is given must hold. Times in milliseconds since 1970. */
export interface RecordSelection {
    /** A run id, or the id that a record without a run is known by; lower case. */
    readonly recordId?: string | undefined;
    readonly organisation?: string | undefined;
    /** MODEL_ID or MODEL_ID@VERSION; an id may have an @ in it as well. */
    readonly model?: string | undefined;
    readonly isIncomplete?: boolean | undefined;
    /** It has an event with a higher sequence. */
    readonly after?: number | undefined;
    /** By `received`: it has an event at this time or later, and before `until`. By `sender`: it began then. */
    readonly since?: number | undefined;
    readonly until?: number | undefined;
    /** By which `since` and `until` are meant; `received` when it is not given. */
    readonly clock?: 'received' | 'sender' | undefined;
    /** `log`: by the sequence of the first event. `sender`: by when it began by the sender's clock. */
    readonly order?: 'log' | 'sender' | undefined;
}
/** What statements are asked of. */
export interface Source {
    readonly statements: Statements;
    readonly names: Names;
}
/** The same as a filter of runs. */
export declare function filterOf(selection: RecordSelection): RunFilter;
/** Calls for each record. @returns how far it has come, after each page: a sequence. */
export declare function countedPages(source: Source, selection: RecordSelection, visit: (record: CountedRun) => void): Generator<number>;
export {};
