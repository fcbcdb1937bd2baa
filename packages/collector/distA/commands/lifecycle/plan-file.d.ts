import type { EventKind } from '@clinical-events/protocol';
export declare const PLAN_FORMAT = "clinical-events/erasure-plan/v1";
/** What keeps an event from being erased: a hold by its name, a floor and until when, that it has no key. */
export interface Block {
    readonly by: 'hold' | 'floor' | 'stored in the clear';
    readonly name: string;
    /** RFC 3339; null where it has no end that is known. */
    readonly until: string | null;
}
export interface PlanEvent {
    readonly sequence: number;
    readonly id: string;
    readonly run: string;
    readonly organisation: string;
    readonly kind: EventKind;
    /** RFC 3339. */
    readonly received_at: string;
    /** In the log, in bytes. */
    readonly size: number;
    readonly because: 'target' | 'caller' | 'run' | 'event' | 'certificate' | 'late' | 'mention' | 'nested';
    readonly about: 'this person' | 'someone else' | 'nobody' | 'not compared';
    readonly blocked: readonly Block[];
    /** Why it was not marked; empty where it was. */
    readonly why: string;
    readonly erase: boolean;
}
export interface Plan {
    readonly format: typeof PLAN_FORMAT;
    readonly log: string;
    readonly made: string;
    /** The last event that it looked at. */
    readonly through: number;
    /** The action by which the policy was set, and the holds that stood. */
    readonly policy: string | null;
    readonly holds: readonly string[];
    /** What was asked for; of ids of a person how many. */
    readonly asked: string;
    readonly searched: 'starts' | 'every payload';
    /** Payloads that could not be opened and were not erased. */
    readonly unread: number;
    /** Ids of the subject file that no start has, by their line among the ids. */
    readonly unmatched: readonly number[];
    /** Events that came for runs after an earlier action erased these whole. */
    readonly late: readonly {
        readonly action: string;
        readonly events: number;
    }[];
    readonly events: readonly PlanEvent[];
}
/** A plan as it stands in its file. */
export interface PlanFile {
    readonly plan: Plan;
    /** Of the plan without its marks, and of the marks; in hexadecimal. */
    readonly sha256: string;
    readonly marks: string;
}
export declare function planFile(plan: Plan): PlanFile;
/** An event a line, so that a person can compare and edit it. */
export declare function planText({ plan, sha256 }: PlanFile): string;
/** @throws CommandFailure for a file that is no plan, or of which more than the marks was changed; it holds nothing of it. */
export declare function readPlan(file: string): PlanFile;
/** For the reviewer: a line for each run, what is blocked, and what was not compared. */
export declare function planTable({ plan, sha256, marks }: PlanFile): string;
export declare function blockText({ by, name, until }: Block): string;
