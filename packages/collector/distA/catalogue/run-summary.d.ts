/** What the catalogue says of a record: all that a list of runs or a report asks of it, and nothing of its texts. */
import { type Completeness, type EventKind, type RecordedCall } from '@clinical-events/protocol';
import type { AssembledRun } from '../records/assemble.js';
import type { TimedEvent } from '../records/canonical-order.js';
import { type FeedbackWord, type OutcomeWord } from '../records/vocabulary.js';
import type { ConflictWord, EventTimes, Missing } from '../records/counted-run.js';
/** A time by either clock, in milliseconds since 1970. Where a payload cannot be read, both are the collector's. */
interface Moment {
    readonly received: number;
    readonly sender: number;
}
type CallSummary = Pick<RecordedCall, 'ending' | 'status' | 'attempts' | 'input_tokens' | 'output_tokens'>;
export interface RunSummary {
    readonly organisation: string;
    /** The run, or the event that a record without a run is known by; lower-case text form. */
    readonly recordId: string;
    readonly isRun: boolean;
    readonly firstSequence: number;
    readonly lastSequence: number;
    /** Of its events, whichever they are; by the sender's clock those of the collector where a payload cannot be read. */
    readonly times: EventTimes;
    /** By the collector's clock, when it had the first event; by the sender's, see beganBySender. */
    readonly began: Moment;
    readonly modelId: string | null;
    readonly modelVersion: string | null;
    readonly userId: string | null;
    readonly targetId: string | null;
    /** `app_name` in the system_metadata of the start; else of the first event that has one. */
    readonly application: string | null;
    readonly counts: Readonly<Record<EventKind, number>>;
    /** What the last outcome says, in canonical order. */
    readonly outcome: OutcomeWord;
    /** When the last outcome, in canonical order, and the earliest one were; null when there is none. */
    readonly outcomeAt: {
        readonly last: Moment;
        readonly earliest: Moment;
    } | null;
    /** Whether its outcomes are not all of one word. */
    readonly outcomesDiffer: boolean;
    readonly feedback: Readonly<Record<FeedbackWord, number>>;
    readonly thumbs: {
        readonly up: number;
        readonly down: number;
    };
    /** How often 0, 1, … 5 was given, rounded; and the sum as given. */
    readonly ratings: readonly number[];
    readonly ratingSum: number;
    readonly call: CallSummary | null;
    readonly latencyMs: number | null;
    readonly level: Completeness['level'];
    readonly missing: readonly Missing[];
    readonly conflicts: readonly ConflictWord[];
    /** How many of its events have a parent that is not there; all of them, where the record has no start. */
    readonly orphanEvents: number;
    /** How many of its events have a number that was sent as a text. */
    readonly numbersInText: number;
}
/** */
export declare const MOST_RATING = 5;
type Timed = TimedEvent;
/** The one rule of what a row says. @param run of all events of the record. */
export declare function summaryOf(run: AssembledRun): RunSummary;
/** By the sender's clock, in milliseconds since 1970; the collector's where the payload cannot be read or says no time. */
export declare function sentAtOf({ event, at }: Pick<Timed, 'event' | 'at'>): number;
/** When a record began by the sender's clock, in milliseconds since 1970: its first start, else its earliest event. */
export declare function beganBySender(events: readonly Timed[], start: Timed | undefined): number;
export {};
