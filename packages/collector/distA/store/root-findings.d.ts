/** In words, what signed roots and stored hashes say against a log or against themselves: for `collector verify`. */
import { type Stretch, type Verdict } from '../integrity/audit.js';
import { type CheckedRoot, type VerifyFinding } from './log-audit.js';
/** When it is not known what of the log is not as it was signed. */
export declare const DOUBT: VerifyFinding;
/** What is said of the first of several goes for all of them. */
export declare function withMore(finding: VerifyFinding, { index, count }: Stretch): VerifyFinding;
/** @param isUnread whether of entries below a size some cannot be read, whose leaves nothing proves. */
export declare function rootFindings(verdict: Verdict<CheckedRoot>, isUnread: (size: number) => boolean): VerifyFinding[];
/**
 * That the log is shorter than it was signed; undefined when it is not, or when the finding of a fork says so.
 * @param entries how many it holds. @param isUnread as for `rootFindings`.
 */
export declare function missingFinding({ roots, leaves, provenTo }: Verdict<CheckedRoot>, covered: number, entries: number, isUnread: (size: number) => boolean): VerifyFinding | undefined;
/** @param hasTree whether anything of the tree is stored. When nothing is, it was removed, which anybody may do. */
export declare function tileFindings({ hashes, shortages, differing, roots }: Verdict<CheckedRoot>, hasTree: boolean): VerifyFinding[];
