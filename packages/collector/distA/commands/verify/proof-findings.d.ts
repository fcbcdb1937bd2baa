import type { Config } from '../../config.js';
import type { StoreFinding } from '../../store/contract/findings.js';
import type { Verification } from './verification.js';
export type Finding = StoreFinding;
export declare function about(severity: Finding['severity'], subject: string, message: string): Finding;
/** @param running whether a collector runs on the directory. @param isMirror others sign its log, and give checkpoints away. */
export declare function proofFindings(config: Config, log: Verification, running: boolean, isMirror: boolean): Generator<Finding>;
/** Of a log in a database. @param dataDir with what is public of it. */
export declare function sharedProofFindings(dataDir: string, log: Verification): Generator<Finding>;
/** @param free bytes on the disk of the data directory. */
export declare function whyUnsigned(free: number): string;
