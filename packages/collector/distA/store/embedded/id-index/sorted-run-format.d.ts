/**
 * Why the index refuses.
 *
 * corrupt  a published run is not what was written. The run has been thrown away if this process may write;
 *          the answer in hand is unknown. Abandon the index, open it again, add from `coveredTo` on.
 * full     entries cannot be taken in because the disk takes none out (`cause` says why). Nothing was added;
 *          the same call succeeds once a table could be written.
 */
export type IdIndexErrorCode = 'corrupt' | 'full';
export declare class IdIndexError extends Error {
    readonly code: IdIndexErrorCode;
    /** The file name of the damaged run. */
    readonly run?: string | undefined;
    readonly name = "IdIndexError";
    constructor(code: IdIndexErrorCode, message: string, options?: ErrorOptions, 
    /** The file name of the damaged run. */
    run?: string | undefined);
}
export declare const WORDS_PER_BLOCK = 8;
/** Which of `blocks` an entry belongs to; ascending in `hi`. The product rounds the same way every time. */
export declare function blockOf(hi: number, blocks: number): number;
export declare function setBits(words: Uint32Array, at: number, lo: number): void;
export declare function mayHold(words: Uint32Array, at: number, lo: number): boolean;
/** Two 32-bit words drawn once per index and stored in every run of it. */
export interface FingerprintKey {
    readonly k0: number;
    readonly k1: number;
}
export declare function randomKey(): FingerprintKey;
/**
 * HalfSipHash-2-4 with 64 bits out, of an id under its organisation's key, which is HalfSipHash-2-4 of the
 * organisation's name under the index's key.
 *
 * A keyed pseudo-random function and not a faster mixer, because senders choose the ids: anyone who can predict
 * fingerprints can pile events into one probe sequence, and every collision costs the ledger a read of its log.
 * HalfSipHash because it needs nothing but 32-bit additions, rotations and exclusive ors (150 ns an id); SipHash
 * itself wants 64-bit words, which JavaScript has only as BigInt, an allocation a step.
 *
 * The result stays in `hi` and `lo` (unsigned) until the next call: a lookup allocates nothing.
 */
export declare class Fingerprint {
    #private;
    readonly key: FingerprintKey;
    hi: number;
    lo: number;
    constructor(key: FingerprintKey);
    /** Sets `hi` and `lo` for the 16 bytes of `bytes` at `offset`. */
    of(organisation: string, bytes: Uint8Array, offset: number): void;
    /** HalfSipHash-2-4-64 itself: the first four octets of its output are `lo`, the last four `hi`. */
    hash({ k0, k1 }: FingerprintKey, bytes: Uint8Array, offset: number, length: number): void;
}
export declare const PAGE_BYTES = 4096;
export declare const ENTRIES_PER_PAGE: number;
export declare const WORDS_PER_PAGE: number;
export interface RunHeader {
    /** How often its entries have been merged; the runs of one level are of about one size. */
    readonly level: number;
    readonly k0: number;
    readonly k1: number;
    readonly count: number;
    readonly from: number;
    readonly to: number;
}
/** A fingerprint, and the address of the event that has it. */
export interface Entry {
    readonly hi: number;
    readonly lo: number;
    readonly address: number;
}
export interface RunLayout {
    readonly entryPages: number;
    readonly filterBlocks: number;
    readonly filterPages: number;
    /** Where the page table begins, and its length in 32-bit words. */
    readonly tableAt: number;
    readonly tableWords: number;
    readonly fileBytes: number;
}
export declare function layoutOf(count: number): RunLayout;
/** @param newest of its entries the one of the highest address; zeros where there is none. */
export declare function encodeHeader(header: RunHeader, tableCrc: number, newest: Entry): Uint8Array;
/** The header in these bytes, or what is wrong with them. */
export declare function decodeHeader(page: Uint8Array): {
    header: RunHeader;
    tableCrc: number;
    newest: Entry;
} | string;
export declare const UNFINISHED = ".unfinished";
/** The name says the stretch of log, so that the set of names is the manifest (sorted-runs.ts). */
export declare function nameOf(header: Pick<RunHeader, 'from' | 'to'>): string;
export declare function parseName(name: string): {
    from: number;
    to: number;
} | null;
