import { type AuditedLog, type AuditedRoots, type AuditOptions, type FindingList, type HeadListener } from '../log-audit.js';
import type { TreeReader } from '../contract/tree.js';
/** One reading of the log from its beginning to its end, against the tree and the checkpoints. */
export declare class LogReading {
    #private;
    private readonly accessLog;
    constructor(options: AuditOptions, tree: TreeReader, { roots, newest }: AuditedRoots, accessLog: HeadListener);
    /**
     * Reads the log, and reports all that is not as it was written and signed. That nothing was found is not what makes
     * it the one that was signed: every frame has to stand in its place, from the first entry to the last, and every
     * signed root has to come out of them.
     */
    tell(findings: FindingList): Promise<AuditedLog>;
}
