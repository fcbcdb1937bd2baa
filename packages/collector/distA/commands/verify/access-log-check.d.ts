import { type AccessLogStore } from '../../store/contract/access-log.js';
import type { VerifyFinding } from '../../store/log-audit.js';
export interface AccessLogState {
    /** Whole lines; an access has two. */
    readonly lines: number;
    /** How many of them come to a head in the log. */
    readonly covered: number;
    /** Heads in the log. */
    readonly heads: number;
    /** Accesses by others without a logged end: they still run, or were killed. */
    readonly unended: number;
    /** Lines that a crash or a full disk has cut short. */
    readonly torn: number;
    /** When the last access began: an instant, RFC 3339 in UTC. */
    readonly last: string | undefined;
    /** Notes among them. */
    readonly findings: readonly VerifyFinding[];
}
export declare class AccessLogCheck {
    #private;
    private readonly isMirror;
    /**
     * @param ownAccesses how many of the accesses are of the command that asks, and cannot have ended.
     * @param isMirror whether the log is a copy of one in a database, where others than commands have put lines before now.
     */
    constructor(log: AccessLogStore, ownAccesses?: number, isMirror?: boolean);
    /**
     * Takes the next head of the log.
     * @param body of the entry with it; it is copied.
     */
    head(sequence: number, body: Buffer): void;
    /** Holds the lines against the heads that were taken. */
    settle(): Promise<void>;
    /** To be called once, behind the last head. @returns undefined when there is neither a line nor a head. */
    finish(): Promise<AccessLogState | undefined>;
}
/** On a line of a person's: how far the log is under heads, and what is not known of its accesses. */
export declare function accessLogText({ lines, covered, unended, last }: AccessLogState): string;
