import { type Entry } from './sorted-run-format.js';
import { Run } from './sorted-run.js';
export interface ReadOptions {
    readonly directory: string;
    /** The log's first address; runs must follow each other from here. */
    readonly origin: number;
    /** The log's end. A run that speaks of more belongs to a log that has since lost its tail, and is not used. */
    readonly logEnd: number;
    /** Filters larger than this (bytes) stay on disk and cost a page read a lookup. */
    readonly filterMemory: number;
    /** Whether to read every page now (1 to 2 GB/s from the page cache) or only as it is needed. */
    readonly verify: boolean;
    readonly onError: (error: unknown) => void;
}
/**
 * The runs in a directory that together cover the log from its origin without a gap.
 *
 * The names are the manifest. From each address on, the sound run that reaches furthest is taken: so a merged
 * run replaces its inputs in the instant of its rename, whether or not they have been deleted, and should it
 * turn out damaged while they are still there, they serve. A manifest of its own was the alternative: one more
 * durable write for every table, and one more file whose loss is the loss of everything.
 *
 * What does not fit the chain is never used: it is behind a gap, of another key, torn, or replaced.
 */
export declare function openChain(options: ReadOptions, whileWritten: boolean): Run[];
/**
 * Deletes the runs and unfinished runs that are not of this chain, durably. Only the writer may, and before the
 * log grows again: once the log has been cut and has grown past a run that spoke of the part cut off, nothing
 * about that run would look wrong any more.
 */
export declare function clearAway(directory: string, chain: readonly Run[]): void;
export type IdIndexReaderOptions = Partial<ReadOptions> & Pick<ReadOptions, 'directory'>;
/**
 * The published runs of an index, as any process may read them at any time.
 *
 * What `find` yields are candidates: addresses below `coveredTo` of events whose fingerprint is this one. The
 * caller reads the log there and compares organisation and id; an address that holds something else, or
 * nothing, is no match. The other way round nothing is missing: no candidate means no such event in the log
 * from its origin to `coveredTo`.
 *
 * A reader sees the runs published when it was opened. Later events it does not know: the caller scans the log
 * from `coveredTo` on, or opens again.
 */
export declare class IdIndexReader {
    #private;
    protected readonly runs: Run[];
    protected readonly origin: number;
    /** Throws the file system's error. Damaged runs are not used and reported to `onError`; `coveredTo` says the rest. */
    static read(options: IdIndexReaderOptions): IdIndexReader;
    protected constructor(options: ReadOptions, runs: Run[]);
    /** The end (exclusive) of the log that published runs cover: at start-up, add every event from here on. */
    get coveredTo(): number;
    /** The words of the fingerprint last made, unsigned. */
    get hi(): number;
    get lo(): number;
    protected get key(): import("./sorted-run-format.js").FingerprintKey;
    /** Sets `hi` and `lo` for the 16-byte id at `offset`. */
    fingerprint(organisation: string, bytes: Uint8Array, offset: number): void;
    /**
     * Writes the candidate addresses to `out` from index 0 on and returns how many; `out` keeps its length.
     * A miss makes no object (V8 boxes numbers above 2^31: about 75 bytes an event). Throws IdIndexError `corrupt`.
     */
    find(hi: number, lo: number, out: number[]): number;
    protected findInRuns(hi: number, lo: number, out: number[], found: number): number;
    /**
     * Of each run the newest event. A run of another log, or of a copy of this one that
     * went on differently, has another event at that address, or none: what distinguishes an index from that of another
     * log.
     */
    newestOfRuns(): Generator<Entry>;
    /** Closes the files. */
    close(): Promise<void>;
}
export declare function withDefaults(options: IdIndexReaderOptions): ReadOptions;
