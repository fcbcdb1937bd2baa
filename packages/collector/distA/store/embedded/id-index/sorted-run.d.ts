import { type Entry, IdIndexError, type RunHeader, type RunLayout } from './sorted-run-format.js';
/** Words of an entry, in a table as in a run: fingerprint high, fingerprint low, address low, address high. */
export declare const WORDS_PER_ENTRY = 4;
/**
 * The newest entries: linear probing in one shared array, 16 bytes a slot so that a probe costs one cache line.
 *
 * A slot's place is the top bits of its fingerprint. So walking the slots in order meets the entries almost
 * sorted, and freezing needs no sort of its own (`sorted`), and the memory is shared, so that freezing copies
 * nothing: the writer's thread takes the very same table while look-ups go on in it.
 *
 * One thread writes. Once frozen no one writes until `clear`.
 */
export declare class RecentTable {
    #private;
    readonly memory: SharedArrayBuffer;
    count: number;
    /** `slots` is a power of two from 4 to 2^26; memory freshly allocated or of a table handed over. */
    constructor(slots: number, memory?: SharedArrayBuffer);
    /** Past three quarters linear probing degrades; who asks for more has not frozen in time. */
    get limit(): number;
    add(hi: number, lo: number, address: number): void;
    /** Writes the addresses under this fingerprint to `out` from index `found` on; returns the new length. */
    find(hi: number, lo: number, out: number[], found: number): number;
    clear(): void;
    /**
     * Fills `out` with the entries in order of fingerprint and returns how many there are.
     *
     * Insertion sort: an entry lies at most one cluster from its place, a handful of slots at these loads, which
     * makes it a few comparisons an entry. The few that wrapped around from the end come first in the walk and
     * are pushed along to the end, one step for each entry.
     */
    sorted(out: Uint32Array): number;
}
/** What must be in memory to search a run. The writing thread loads it and hands it over. */
export interface RunImage {
    readonly name: string;
    readonly header: RunHeader;
    readonly newest: Entry;
    /** The page table: a checksum a page, then a fence an entry page. 8 bytes for 256 entries. */
    readonly table: SharedArrayBuffer;
    /** The filter, or null when it is larger than the caller wants in memory and stays on disk. */
    readonly filter: ArrayBuffer | null;
}
export declare function damaged(run: string, reason: string): IdIndexError;
/**
 * One published run, open for look-ups.
 *
 * Holds the file open: a reader in another process, and this one, go on reading a file that a merge has since
 * deleted. Every page is checked as it is read, so damage that came after opening is an error, not an answer.
 */
export declare class Run {
    #private;
    readonly fd: number;
    readonly image: RunImage;
    readonly layout: RunLayout;
    private constructor();
    get header(): RunHeader;
    /** Bytes of page table and filter in memory. */
    get memory(): number;
    /**
     * Opens a run and checks header, page table and, up to `filterMemory` bytes, the filter.
     * Throws IdIndexError `corrupt`, or the file system's error (ENOENT: a merge has deleted it).
     */
    static open(directory: string, name: string, filterMemory: number): Run;
    /** A run that another thread has opened and checked. */
    static share(directory: string, image: RunImage): Run;
    /** The entry of the newest event of the run; undefined when it has none. */
    get newest(): Entry | undefined;
    /** Reads and checks everything. Throws IdIndexError `corrupt`. */
    verify(): void;
    /** Reads `count` pages from page `first` on (entries, then filter) into `into`. Throws IdIndexError `corrupt`. */
    readPages(first: number, count: number, into: Uint8Array): void;
    /** Writes the addresses under this fingerprint to `out` from index `found` on; returns the new length. */
    find(hi: number, lo: number, out: number[], found: number): number;
    /**
     * Frees the filter now: a collection that comes late would leave this process with the filters of all merges
     * so far. The file is closed off this thread: the last close of a deleted file frees its blocks, which for a
     * gigabyte takes longer than a lookup may.
     */
    close(): void;
}
