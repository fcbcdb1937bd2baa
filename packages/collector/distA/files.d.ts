/** A file as its name leads to it. */
export interface NamedFile {
    /** The same for as long as it is the same file, and another one's never while that one is open. */
    readonly id: string;
    /** In bytes. */
    readonly size: number;
}
/** A file that this process holds, and that must stay under its name. */
export type HeldFile = Pick<NamedFile, 'id'> & {
    readonly path: string;
};
export interface Files {
    open(path: string, flags: 'r' | 'r+' | 'wx+'): number;
    close(fd: number): void;
    size(fd: number): number;
    /** @returns what has this name now; undefined when nothing has. */
    look(path: string): NamedFile | undefined;
    /** Reads up to `length` bytes; fewer only at the end of the file. */
    read(fd: number, target: Uint8Array, offset: number, length: number, position: number): number;
    /** Writes all of it or throws; after a throw any part may have been written. */
    write(fd: number, source: Uint8Array, length: number, position: number): void;
    /** On return what was written to `fd` is on stable storage (fdatasync, POSIX.1-2017). */
    datasync(fd: number): void;
    truncate(fd: number, size: number): void;
    rename(from: string, to: string): void;
    remove(path: string): void;
    /** On return the directory exists; the names of all that had to be made are on stable storage. */
    makeDirectory(path: string): void;
    list(directory: string): string[];
    /** On return the names in the directory are on stable storage. */
    syncDirectory(path: string): void;
    /**
     * Creates `path` with `size` zero bytes that are on stable storage when the promise resolves. Written, not
     * merely reserved: only blocks that exist and were written can be overwritten without a journal commit.
     */
    createZeroed(path: string, size: number): Promise<void>;
    /** As `datasync`, by the thread pool. */
    datasyncLater(fd: number): Promise<void>;
    /**
     * On return `path` holds just these bytes, on stable storage under its name; whatever happens before that, it holds
     * either them or what it held before. By the thread pool.
     */
    replace(path: string, bytes: Uint8Array): Promise<void>;
}
/**
 * Gives what root makes to the owner of what it belongs to, or a collector that runs as someone else could not use it. Where
 * the system does not let root do that, it stays root's. `nodeFiles` does so with all that it makes.
 * @param made a descriptor where there is one: who owns a directory could put a link in the place of a name.
 * @param model the file or directory whose owner gets it.
 */
export declare function handOver(made: string | number, model: string): void;
/** On return the file is there, empty and for its owner alone where it was not. Its directory is there. */
export declare function makeFile(file: string): void;
/**
 * Whether something of this name is there. `fs.existsSync` answers no as well when this user may not look, and that
 * made an all-clear of a directory that no one had read.
 * @throws the system's error when it cannot be told.
 */
export declare function exists(file: string): boolean;
/** The same of a file that can be read to its end: no pipe, on which a reader would wait, and no directory. */
export declare function isFile(file: string): boolean;
export declare const nodeFiles: Files;
/** The bytes of a file from a place on. */
export declare function readFrom(files: Files, file: string, from?: number): Buffer;
/** As `Files.replace`, at once and on this thread: for the few small files that a batch of events may wait for. */
export declare function replaceNow(files: Files, file: string, bytes: Uint8Array): void;
