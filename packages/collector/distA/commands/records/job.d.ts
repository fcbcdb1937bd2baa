import type { AssembledRun } from '../../records/assemble.js';
import type { FileFormat, Piece } from '../../records/exports/file-format.js';
import type { Clock } from '../../records/vocabulary.js';
export interface ThreadSettings {
    readonly dataDir: string;
    /** As `--format` names it. */
    readonly format: string;
    /** The clock by whose days the records are told apart; undefined when they all go to one file. */
    readonly dayBy: Clock | undefined;
}
/** What links a record to others. */
export interface Linked {
    /** The run of what it is nested in, or null when that is none; undefined when it is nested in nothing. */
    readonly parent: string | null | undefined;
    readonly children: readonly string[];
    readonly cycle: readonly string[];
}
/** Some records in their order. */
export interface Job {
    /** Where their events are: the `at` and the `size` of each, one behind the other. */
    readonly places: Float64Array<ArrayBuffer>;
    /** Where those of each record end. */
    readonly ends: readonly number[];
    /** Of the records that are linked, by their number. */
    readonly links: ReadonlyMap<number, Linked>;
}
/** To the thread: something to do, or where the events are that it asked for. */
export type ThreadMessage = {
    readonly job: Job;
}
/** In the order of the question; undefined for an event that the log does not have. */
 | {
    readonly runs: readonly (string | null | undefined)[];
};
/** A parent that is not of the run of the event that names it. */
export interface Question {
    readonly organisation: string;
    readonly eventId: string;
}
/** Neighbours of one file. */
export interface PlacedPiece extends Piece {
    /** The UTC day, such as 2026-01-31; empty when all goes to one file. */
    readonly day: string;
    readonly events: number;
    /** Records with a text in which something was replaced. */
    readonly replaced: number;
}
export declare class PieceMaker {
    #private;
    private readonly dayBy;
    constructor(format: FileFormat, dayBy: Clock | undefined);
    add(run: AssembledRun): void;
    /** All pieces of what was added since the last time, in order. */
    take(): PlacedPiece[];
}
