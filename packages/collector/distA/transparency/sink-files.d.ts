import { SinkTrouble } from './sink.js';
/** A file as it was found; only the beginning of a very large one. */
interface FoundFile {
    readonly name: string;
    readonly bytes: Uint8Array;
}
/** The end of a file, and its size in bytes. */
interface FileTail {
    readonly bytes: Uint8Array;
    readonly size: number;
}
/** Every call rejects with an error that has a system's code. */
export interface SinkFiles {
    /**
     * The files of the directory whose names come last in the order of their characters.
     * @param pattern a regular expression; names that it does not match are passed over.
     * @param onProgress called now and then while a large directory is read.
     * @returns at most `count`, the last name first.
     */
    last(directory: string, pattern: string, count: number, onProgress: () => void): Promise<FoundFile[]>;
    /**
     * Makes a file. On return it is on stable storage with its name, and so is what was there before.
     * @returns undefined when it was made, else what the file of that name holds.
     */
    create(file: string, bytes: Uint8Array): Promise<Uint8Array | undefined>;
    /** On return the bytes are at the end of the file on stable storage, which is made if it is not there. */
    append(file: string, bytes: Uint8Array): Promise<void>;
    /** @returns the last `length` bytes and the size of the whole, or undefined when there is no such file. */
    tail(file: string, length: number): Promise<FileTail | undefined>;
}
/** What is no error of the system's, with a code as theirs. */
export declare class SinkFilesError extends Error {
    /** The system's, such as ENOSPC; `ENOTREG` for what is no regular file. */
    readonly code: string;
    name: string;
    constructor(
    /** The system's, such as ENOSPC; `ENOTREG` for what is no regular file. */
    code: string, message: string);
}
export declare const nodeSinkFiles: SinkFiles;
/** @param error of a call to the disk at `place`. */
export declare function diskTrouble(place: string, error: unknown): SinkTrouble;
export {};
