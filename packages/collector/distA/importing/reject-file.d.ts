import type { LineFault } from './offered-line.js';
/** A line that was not stored. */
export interface Refusal extends LineFault {
    readonly line: number;
    /**
     * `rejected`: it is faulty. `conflict`: another event with its id is stored, and stands. `unreadable`: the collector
     * failed at it again and again; an event with its id may be stored in a place that cannot be read. `retired`: it was
     * stored, and erased since.
     */
    readonly outcome: 'rejected' | 'conflict' | 'unreadable' | 'retired';
    /** The exact line without its ending; undefined when it was too long to be held, or is not to be kept. */
    readonly bytes: Uint8Array | undefined;
}
/** There is such a file, with something in it that must not be lost. */
export declare class RejectsExist extends Error {
    name: string;
}
/** There is such a file, and someone else may read what is written into it. */
export declare class RejectsUnsafe extends Error {
    name: string;
}
export declare class RejectFile {
    #private;
    readonly path: string;
    private constructor();
    /**
     * Made at once, and not at the first fault: an import of an hour should not end for want of a place to write it to.
     * @throws RejectsExist unless it is new, or empty as an import that was killed may have left it.
     * @throws RejectsUnsafe when that one is a link, or a file of another user or with another name: where others may make
     * files, one of them has put it there to be written into.
     */
    static open(file: string): RejectFile;
    /** How many lines were written. */
    get lines(): number;
    /** On return it is written, but not yet on stable storage. */
    write(input: string, refusal: Refusal): void;
    /** On return all of it is on stable storage, or the file is gone if it is empty. */
    close(): void;
}
