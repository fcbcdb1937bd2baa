import type { Config } from '../../config.js';
import { type Reason } from '../../privacy/actions.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
export interface ApplyOptions {
    readonly reason: Reason;
    /** Of 1 to 64 of A-Z a-z 0-9 . _ / - */
    readonly case: string;
    readonly by?: string;
    readonly overrideFloor?: true;
    readonly incomplete?: true;
}
export interface Applied {
    readonly action: string;
    readonly erased: SequenceSet;
    /** Of the events that the plan marks, how many were left: floors, and what has no key. */
    readonly left: number;
}
/** @throws CommandFailure when it may not be applied, or there is nothing to erase; then nothing is erased. */
export declare function applyPlan(config: Config, file: string, options: ApplyOptions): Promise<Applied>;
/** Nothing is changed. @returns what a second person reviews: the plan as it is marked, both hashes, and who planned it. */
export declare function checkPlan(dataDir: string, file: string): Promise<string>;
