import { type AuditedLog, type AuditOptions, type FindingList, type VerifyFinding } from '../../store/log-audit.js';
import { type OpenSharedStore } from '../../store/open-to-read.js';
import { type AccessLogState } from './access-log-check.js';
import { SignedCheckpoints } from './signed-checkpoints.js';
import { type LogKeys } from './trusted-keys.js';
/** What `collector verify` has found. */
export declare class VerifyFindings implements FindingList {
    #private;
    /** Faults that are only counted. */
    unlisted: number;
    add(finding: VerifyFinding): void;
    confirm(): void;
    get intact(): boolean;
    get faults(): number;
    /** By the events that they are about, what is about none first; notes last. */
    get listed(): readonly VerifyFinding[];
}
export interface VerificationOptions extends AuditOptions {
    /** The log, when it is in a database; the directory then holds what is public of it. */
    readonly shared?: OpenSharedStore | undefined;
    /** Files and directories with checkpoints that were kept elsewhere. */
    readonly against: readonly string[];
    /** Verifier keys; those of the data directory when none is given. */
    readonly keys: readonly string[];
    /** Rotation notes, besides those of the data directory. */
    readonly rotations?: readonly string[];
    /** How many accesses the command that verifies has logged itself. */
    readonly ownAccesses?: number;
}
export interface Verification extends AuditedLog {
    readonly findings: VerifyFindings;
    readonly keys: LogKeys;
    readonly checkpoints: SignedCheckpoints;
    /** Undefined when no access was ever logged. */
    readonly access: AccessLogState | undefined;
}
/** @throws CommandFailure when what is to be held against the log is not there; whatever the system says of a file. */
export declare function verifyLog(options: VerificationOptions): Promise<Verification>;
