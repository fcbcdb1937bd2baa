import * as fs from 'node:fs';
import { type RunHeader } from './sorted-run-format.js';
import { type Run } from './sorted-run.js';
/** What writing a run asks of the file system; tests hand in one that fails. */
export type Files = Pick<typeof fs, 'openSync' | 'writeSync' | 'fdatasyncSync' | 'fsyncSync' | 'renameSync' | 'unlinkSync' | 'closeSync'>;
/**
 * Writes one run from entries that come in order. Memory is bounded by two buffers and the page table.
 *
 * Crash order: pages, page table and header under an unfinished name; sync; rename; sync of the directory. Only
 * then may the caller speak of the run or delete what it replaces. A crash before the rename leaves a name that
 * no one reads; a crash after it leaves a complete run beside the ones that it was made from.
 */
export declare class RunWriter {
    #private;
    private readonly files;
    private readonly directory;
    private readonly header;
    readonly name: string;
    /** `header.count` must be what will be added: the places of filter and page table follow from it. */
    constructor(files: Files, directory: string, header: RunHeader);
    add(hi: number, lo: number, addressLow: number, addressHigh: number): void;
    /** On return the run is durable under its name. */
    finish(): void;
    /** Gives up after a failure, which must stay the one that is reported: nothing here throws. */
    discard(): void;
}
/** On return the names in the directory are durable. */
export declare function syncDirectory(files: Pick<Files, 'openSync' | 'fsyncSync' | 'closeSync'>, directory: string): void;
/**
 * The next runs to merge, or null: the oldest FAN_OUT of the lowest level that has that number.
 *
 * `runs` is the chain in order of log. Tables come in at its end at level 0 and merges take the oldest of their
 * level, so levels never rise along the chain and the runs returned are neighbours.
 */
export declare function nextMerge(runs: readonly Run[]): Run[] | null;
/** One merge under way, done a step at a time so that a full table never waits for a long merge. */
export declare class Merge {
    #private;
    readonly inputs: readonly Run[];
    constructor(files: Files, directory: string, inputs: readonly Run[]);
    get name(): string;
    /** Moves about `entries` entries. True when the merged run is durable under its name. */
    step(entries: number): boolean;
    discard(): void;
}
