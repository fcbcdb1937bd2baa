/**
 * Actions: entries of the log that say what is done to stored events, and what may be done. They are leaves like events,
 * are never erased, and so hold nothing personal: no subject, no name of a person, no free text. Pure.
 *
 *   policy   the retention policy that holds from here on, whole
 *   hold     a hold begins: its id, and what binds its record, which is kept beside the log
 *   unhold   a hold is over
 *   retire   the keys of these events are destroyed, from this entry on. A long one has several parts, an entry each
 *   done     no directory of keys has them any more
 *   keys     another epoch of keys has begun, and no key of an older one is left
 *   quarantine   what no collector has stored was moved out of the way of a log in a database
 */
import type { TakenKeys } from './key-directory.js';
import { SequenceSet } from './sequence-set.js';
/** Why events are retired. Closed: free text could name a person. */
export declare const REASONS: readonly ["policy", "erasure-request", "consent-withdrawn", "objection", "unlawful-processing", "legal-obligation", "court-order", "tenant-end", "test-data", "sent-in-error"];
export type Reason = (typeof REASONS)[number];
/** Reasons to which the floors of a policy may yield. Holds yield to none. */
export declare const ABOVE_FLOORS: readonly Reason[];
interface Named {
    /** A UUID, the same in all entries of an action. */
    readonly action: string;
}
export interface Retire extends Named {
    readonly does: 'retire';
    readonly reason: Reason;
    /** The action by which the policy was set that held, and the rule of it, where one decided. */
    readonly policy?: string;
    readonly rule?: string;
    /** SHA-256 of the plan and of the marks that were set in it, in hexadecimal; of an erasure that was planned. */
    readonly plan?: string;
    readonly marks?: string;
    /** Salted SHA-256 of the erasure record, which is kept beside the log. */
    readonly record?: string;
    /** The floors of the policy were overridden. */
    readonly override?: true;
    /** There were payloads that the plan could not read. */
    readonly incomplete?: true;
    /** Counted from 1. */
    readonly part: number;
    readonly parts: number;
    readonly keys: readonly TakenKeys[];
}
/** What an action says. */
export type Action = Retire | (Named & {
    readonly does: 'done';
}) | (Named & {
    readonly does: 'policy';
    readonly policy: unknown;
})
/** @param record SHA-256 of the hold's record, in hexadecimal. */
 | (Named & {
    readonly does: 'hold';
    readonly record: string;
}) | (Named & {
    readonly does: 'unhold';
    readonly hold: string;
}) | (Named & {
    readonly does: 'keys';
    readonly epoch: number;
}) | (Named & {
    readonly does: 'quarantine';
    readonly batches: number;
    readonly entries: number;
    /** Of events, which can be stored again. */
    readonly ids: number;
});
/** As the log has it. */
export interface LoggedAction {
    readonly sequence: number;
    /** The id of the entry, by which it is proved. */
    readonly entryId: string;
    /** Milliseconds since 1970. */
    readonly at: number;
    readonly said: Action;
}
/** To be written as JSON, in an entry behind its id. */
export declare function actionFields(action: Action): object;
export declare function eventsOf(keys: readonly TakenKeys[]): SequenceSet;
/** Undefined for what is none, or of a later version. */
export declare function actionIn(body: Buffer): Action | undefined;
/** Of JSON that was parsed; undefined for what is no action. */
export declare function actionFrom(read: Readonly<Record<string, unknown>>): Action | undefined;
/** Divides what is to be retired into parts. @param keys one for each bucket and organisation. */
export declare function partsOf(retire: Omit<Retire, 'part' | 'parts'>): Retire[];
/** The keys that actions noted beside them say are destroyed, whether the log has these actions or not. */
export declare function takenBy(noted: readonly Buffer[]): TakenKeys[];
/** By what an event was retired. */
export interface Retirement {
    readonly action: string;
    readonly reason: Reason;
    /** When, in ms since 1970. */
    readonly at: number;
}
/** The actions of a log, in its order. */
export declare class Actions {
    #private;
    readonly logged: LoggedAction[];
    /** @returns whether the body says one that is known here. */
    add(sequence: number, at: number, body: Buffer): boolean;
    /** All events whose keys were to be destroyed. */
    get retired(): SequenceSet;
    /** Whether the key of a place was to be destroyed, of a log in a database. */
    isTaken(tag: number, organisation: string, place: number): boolean;
    /** By what an event was retired; undefined when it was not. */
    retirementOf(sequence: number): Retirement | undefined;
    /** The parts of an action that are in the log. */
    partsIn(action: string): Retire[];
    /** Whether all parts of an action are in the log. */
    isWhole(action: string): boolean;
    /** When an action was done, in ms since 1970; undefined when it is not. */
    doneAt(action: string): number | undefined;
    /** The keys that are to be destroyed by actions that are not done, or by all. */
    taken(which: 'all' | 'undone'): TakenKeys[];
    /** Actions whose keys may still be somewhere, oldest first. */
    undone(): string[];
    /** The policy that holds; undefined while none was set. */
    get policy(): {
        readonly action: string;
        readonly policy: unknown;
    } | undefined;
    /** The holds that are not over, by their ids, and what binds their records. */
    get holds(): ReadonlyMap<string, string>;
}
export {};
