import type { ExportFormat } from '../../records/exports/formats.js';
export interface AccessRequest {
    /** Ids of the person. */
    readonly subjects: readonly string[];
    readonly organisation: string | undefined;
    /** Whether records that are about others as well are given out too. */
    readonly withOthers: boolean;
    /** Undefined for the readable text. */
    readonly format: (ExportFormat & {
        readonly name: string;
    }) | undefined;
    readonly isFull: boolean;
    /** Undefined for standard output. */
    readonly out: string | undefined;
    /** What was done is reported as one JSON object. */
    readonly json: boolean;
}
/**
 * On return the records are given out, and on standard error stands which are left out, or have to be reviewed.
 * @throws CommandFailure when no start names an id, or starts of several organisations do; never with an id in it.
 */
export declare function answerAccessRequest(dataDir: string, request: AccessRequest): Promise<void>;
