/**
 * One pass over a range of the log, on its own thread or on the main one: it finds what a request is about, or collects the
 * events of runs. It reads the log and never the catalogue: one changed row there would hide a run.
 */
import type { EventKind } from '@clinical-events/protocol';
import { type EventLog, type PassedEntry } from '../../store/contract/events.js';
/** The bytes of an id, each as a character: a key of maps that costs no more than the copy. */
export type Id = string;
/** By organisation: no id means anything outside its own. */
export type ByOrganisation<Value> = Map<string, Map<Id, Value>>;
export interface Range {
    readonly from: number;
    readonly through: number;
}
/** What is looked for. */
export interface Sought {
    readonly subjects: readonly string[];
    /** Hexadecimal digits with which ids of runs begin. */
    readonly runs: readonly string[];
    readonly events: readonly Id[];
    /** Whether every payload is searched for the subjects; else starts are. */
    readonly mentions: boolean;
    readonly organisation?: string | undefined;
    /** Events (SequenceSet.toText) whose records are asked for. */
    readonly erased: string;
}
/** An event as its envelope has it. */
export interface LogEvent {
    readonly sequence: number;
    readonly at: number;
    readonly size: number;
    readonly kind: EventKind;
    readonly organisation: string;
    readonly receivedAt: number;
    readonly id: Id;
    /** Undefined where the event names no run and opens none. */
    readonly runId: Id | undefined;
    /** The event that it hangs on; it stays in the envelope when the payload is erased. */
    readonly parent: Id | undefined;
}
/** The facts in a start. */
export interface StartFacts {
    readonly sequence: number;
    /** `unread`: its payload cannot be opened, and no action erased it. */
    readonly state: 'read' | 'erased' | 'unread';
    readonly target?: string;
    readonly caller?: string;
    readonly parent: Id | undefined;
}
export type Job = ({
    readonly find: Sought;
} & Range) | ({
    readonly collect: Wanted;
} & Range);
export interface Wanted {
    readonly runs: ByOrganisation<true>;
    /** Events: what hangs on them is wanted too, events without a run and starts of nested runs. */
    readonly on: ByOrganisation<true>;
}
export interface Found {
    /** All that have an event. */
    readonly organisations: ReadonlySet<string>;
    readonly runs: ByOrganisation<true>;
    /** Events without a run whose ids begin as `Sought.runs` do. */
    readonly runless: ByOrganisation<true>;
    readonly events: readonly (LogEvent & {
        readonly isMention: boolean;
    })[];
    /** Of `Sought.erased`: runs, and events without one. */
    readonly erased: {
        readonly runs: ByOrganisation<true>;
        readonly runless: ByOrganisation<true>;
    };
    /** Payloads that had to be opened and could not be. */
    readonly unread: number;
}
export interface Collected {
    readonly events: readonly (LogEvent & {
        readonly start?: StartFacts;
    })[];
}
/** What a pass answers, and what it reports meanwhile. */
export type Answer = Found | Collected;
export declare function put<Value>(map: ByOrganisation<Value>, organisation: string, id: Id, value: Value): void;
type Log = Pick<EventLog, 'pass' | 'actions'>;
/** @param onBytes called with the bytes of each batch. @throws StoreDamaged; what the signal is aborted with. */
export declare function pass(log: Log, job: Job, onBytes: (bytes: number) => void, signal?: AbortSignal): Promise<Answer>;
export declare function eventOf(entry: PassedEntry): LogEvent;
export declare function idOf(text: string): Id;
export declare function textOf(id: Id): string;
export {};
