import { type Action, type Actions } from '../privacy/actions.js';
import type { TakenKeys } from '../privacy/key-directory.js';
import type { SequenceSet } from '../privacy/sequence-set.js';
import { type Candidate } from '../store/contract/events.js';
import { type LifecycleKeys, type Requests } from '../store/contract/requests.js';
/** What a request was made by the light of: none of it may have changed when it is done. */
interface Preconditions {
    /** The action by which the policy was set; null when none was. */
    readonly policy: string | null;
    /** The holds that were not over. */
    readonly holds: readonly string[];
}
export interface LifecycleRequest {
    readonly action: Action;
    readonly considered: Preconditions;
}
export type LifecycleAnswer = {
    readonly state: 'done';
}
/** Begun, and it will be done: these directories of keys cannot be reached. */
 | {
    readonly state: 'pending';
    readonly unreached: readonly string[];
} | ({
    readonly state: 'refused';
} & Refusal);
interface Refusal {
    /** `changed`: a hold has begun, or a policy was set, since it was considered; nothing was done. */
    readonly because: 'changed' | 'partly' | 'impossible';
    readonly reason: string;
}
export interface LifecycleOptions {
    readonly requests: Requests;
    /** Those of the log; what is appended is added to them. */
    readonly actions: Actions;
    /** Undefined where payloads are not encrypted. */
    readonly keys: LifecycleKeys | undefined;
    /** Where others write the log too: whether it is on this process to work. On return `actions` has what the others did. */
    readonly isOnUs?: () => Promise<boolean>;
    /** Where who asks does not know it: by what keys events are encrypted. Those without one are left out. */
    readonly keysOf?: (sequences: SequenceSet) => Promise<TakenKeys[]>;
    /** Of each of some lists of keys those by which events of the log are encrypted. Reads the log where they may be. */
    readonly keysIn: (lists: readonly (readonly TakenKeys[])[], signal: AbortSignal) => Promise<TakenKeys[][]>;
    /** Stores an entry, durably. Rejects when it is not stored; it is tried again. */
    readonly append: (entry: Candidate) => Promise<void>;
    /** Something could not be done; it is tried again. */
    readonly onTrouble: (what: string, error: unknown) => void;
    /** Something is done, and says so: of whom or what never. */
    readonly onNotice?: (message: string) => void;
}
/** How keys and erasures fare. */
export interface PrivacyState {
    readonly directories: number;
    /** Directories of keys that could not be written the last time. */
    readonly unreached: number;
    /** Milliseconds since 1970. */
    readonly epochBegun: number;
    readonly retired: number;
    /** Erasures that have begun and are not at their end, and when the oldest began. */
    readonly pending: number;
    readonly pendingSince: number | undefined;
    readonly holds: number;
}
export declare const WRITER = "lifecycle000";
/** On return a request is durable, and will be taken. */
export declare function layRequest(requests: Requests, { action, considered }: LifecycleRequest): Promise<void>;
/** The answer to a request; undefined while there is none. */
export declare function answerTo(requests: Requests, action: string): Promise<LifecycleAnswer | undefined>;
export declare class Lifecycle {
    #private;
    constructor(options: LifecycleOptions);
    /** Looks for requests at once and from now on. */
    start(intervalMs: number): this;
    /** Undefined where payloads are not encrypted. */
    get state(): PrivacyState | undefined;
    /** On return what was asked for is done, as far as it can be now. Never rejects. */
    look(): Promise<void>;
    /** On return nothing is under way. To be called while entries can still be stored. */
    close(): Promise<void>;
}
export {};
