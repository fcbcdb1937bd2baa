import type { Files } from '../../files.js';
export interface SurveyedSegment {
    readonly path: string;
    readonly name: string;
    /** As its name says; as its header says when its first frame says so too. */
    readonly firstSequence: number;
    /** Address of its first frame, as its header says; undefined when the header cannot be believed. */
    readonly base: number | undefined;
    /** How many of the entries before are the log's own, as it says; undefined alike. */
    readonly ownBefore: number | undefined;
    /** What is wrong with its header, in words that go on from `the header of …`. */
    readonly faults: readonly string[];
}
/**
 * The segments in a directory, in their order; none when the directory is not there.
 * @param ledgerId of the ledger; undefined when nothing says it: then it is the one that most of them have.
 * @param irregular is called with what has the name of a segment and is no file, like a pipe, on which a reader would
 *   wait.
 */
export declare function surveySegments(files: Files, directory: string, ledgerId: string | undefined, irregular?: (name: string) => void): SurveyedSegment[];
