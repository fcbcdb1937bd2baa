import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
export class IdIndexError extends Error {
    code;
    run;
    name = 'IdIndexError';
    constructor(code, message, options, 
    /** The file name of the damaged run. */
    run) {
        super(message, options);
        this.code = code;
        this.run = run;
    }
}
/*
 * The split-block Bloom filter of Apache Parquet: a block is eight 32-bit words, an entry sets one bit in each
 * word. One cache line and at most eight multiplications a lookup; a miss leaves after two words on average.
 *
 * The block comes from the fingerprint's high word by scaling, not by hashing again, so that blocks are in the
 * order of the entries: a merge writes its filter front to back through one page of memory, whatever its size.
 * The bits come from the low word, which says nothing about the high one.
 */
export const WORDS_PER_BLOCK = 8;
const SALT = Uint32Array.of(0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31);
/** Which of `blocks` an entry belongs to; ascending in `hi`. The product rounds the same way every time. */
export function blockOf(hi, blocks) {
    return Math.floor((hi / 0x1_0000_0000) * blocks);
}
export function setBits(words, at, lo) {
    for (let i = 0; i < WORDS_PER_BLOCK; i++) {
        words[at + i] = (words[at + i] ?? 0) | (1 << (Math.imul(lo, SALT[i] ?? 0) >>> 27));
    }
}
export function mayHold(words, at, lo) {
    for (let i = 0; i < WORDS_PER_BLOCK; i++) {
        if (((words[at + i] ?? 0) & (1 << (Math.imul(lo, SALT[i] ?? 0) >>> 27))) === 0)
            return false;
    }
    return true;
}
export function randomKey() {
    const bytes = randomBytes(8);
    return { k0: bytes.readUInt32LE(0), k1: bytes.readUInt32LE(4) };
}
/** More organisations than this in one process cost them the cache, never the answer. */
const CACHED_ORGANISATIONS = 4096;
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
export class Fingerprint {
    key;
    hi = 0;
    lo = 0;
    #organisation = null;
    #organisationKey = { k0: 0, k1: 0 };
    #keys = new Map();
    constructor(key) {
        this.key = key;
    }
    /** Sets `hi` and `lo` for the 16 bytes of `bytes` at `offset`. */
    of(organisation, bytes, offset) {
        if (offset + 16 > bytes.length)
            throw new RangeError('an event id has 16 bytes');
        if (organisation !== this.#organisation)
            this.#select(organisation);
        this.hash(this.#organisationKey, bytes, offset, 16);
    }
    #select(organisation) {
        let key = this.#keys.get(organisation);
        if (key === undefined) {
            const name = Buffer.from(organisation);
            this.hash(this.key, name, 0, name.length);
            key = { k0: this.lo, k1: this.hi };
            if (this.#keys.size >= CACHED_ORGANISATIONS)
                this.#keys.clear();
            this.#keys.set(organisation, key);
        }
        this.#organisation = organisation;
        this.#organisationKey = key;
    }
    /** HalfSipHash-2-4-64 itself: the first four octets of its output are `lo`, the last four `hi`. */
    hash({ k0, k1 }, bytes, offset, length) {
        let v0 = k0;
        let v1 = k1 ^ 0xee;
        let v2 = 0x6c796765 ^ k0;
        let v3 = 0x74656462 ^ k1;
        const words = length >>> 2;
        // Words of input, then one of the rest and the length (2 rounds each), then two halves of output (4 rounds).
        for (let step = 0; step < words + 3; step++) {
            let word = 0;
            let rounds = 2;
            if (step < words)
                word = littleEndian(bytes, offset + 4 * step, 4);
            else if (step === words)
                word = littleEndian(bytes, offset + 4 * step, length & 3) | (length << 24);
            else {
                rounds = 4;
                if (step === words + 1)
                    v2 ^= 0xee;
                else {
                    this.lo = (v1 ^ v3) >>> 0;
                    v1 ^= 0xdd;
                }
            }
            v3 ^= word;
            for (; rounds > 0; rounds--) {
                v0 = (v0 + v1) | 0;
                v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
                v0 = (v0 << 16) | (v0 >>> 16);
                v2 = (v2 + v3) | 0;
                v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
                v0 = (v0 + v3) | 0;
                v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
                v2 = (v2 + v1) | 0;
                v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
                v2 = (v2 << 16) | (v2 >>> 16);
            }
            v0 ^= word;
        }
        this.hi = (v1 ^ v3) >>> 0;
    }
}
function littleEndian(bytes, at, count) {
    let word = 0;
    for (let i = count - 1; i >= 0; i--)
        word = (word << 8) | (bytes[at + i] ?? 0);
    return word;
}
/*
 * A run: the entries of one stretch of the log, sorted by fingerprint, never changed once it has its name.
 *
 *   page 0      header, below
 *   pages       entries: 256 a page, (fingerprint high, low, address low, high), 32 bits each
 *   pages       filter: 128 blocks a page, a block 256 bits (above)
 *   the rest    page table: CRC-32 of every entry page and filter page, then the first fingerprint's high word
 *               of every entry page
 *
 * The header vouches for the page table and the page table for every page, so that one page can be read and
 * trusted without the others: what a lookup reads is checked every time it is read.
 *
 * Words in pages and page table are in the machine's byte order: an index that is carried to a machine of the
 * other order fails its checksums there and is rebuilt.
 *
 * Header, little-endian: magic (8), version, level, k0, k1 (32 bits each), count, from, to (64), CRC of the page table
 * (32), the newest entry (fingerprint high, low, 32 bits each; address, 64), CRC of the header so far (32). A run answers for all addresses from `from` (inclusive) to `to` (exclusive).
 */
export const PAGE_BYTES = 4096;
const ENTRY_BYTES = 16;
export const ENTRIES_PER_PAGE = PAGE_BYTES / ENTRY_BYTES;
export const WORDS_PER_PAGE = PAGE_BYTES / 4;
const MAGIC = 0x3152584449434543n; // "CECIDXR1"
const VERSION = 2;
const HEADER_BYTES = 72;
/** Filter bits an entry: 1.3 % of the misses of a run then read a page; 8 bits measured 3.3 %, 12 bits 0.5 %. */
const FILTER_BITS = 10;
const BLOCK_BITS = 256;
const BLOCKS_PER_PAGE = (PAGE_BYTES * 8) / BLOCK_BITS;
export function layoutOf(count) {
    const entryPages = Math.ceil(count / ENTRIES_PER_PAGE);
    const filterBlocks = Math.ceil((count * FILTER_BITS) / BLOCK_BITS);
    const filterPages = Math.ceil(filterBlocks / BLOCKS_PER_PAGE);
    const tableAt = (1 + entryPages + filterPages) * PAGE_BYTES;
    const tableWords = 2 * entryPages + filterPages;
    return { entryPages, filterBlocks, filterPages, tableAt, tableWords, fileBytes: tableAt + 4 * tableWords };
}
/** @param newest of its entries the one of the highest address; zeros where there is none. */
export function encodeHeader(header, tableCrc, newest) {
    const page = new Uint8Array(PAGE_BYTES);
    const view = new DataView(page.buffer);
    view.setBigUint64(0, MAGIC, true);
    view.setUint32(8, VERSION, true);
    view.setUint32(12, header.level, true);
    view.setUint32(16, header.k0, true);
    view.setUint32(20, header.k1, true);
    view.setBigUint64(24, BigInt(header.count), true);
    view.setBigUint64(32, BigInt(header.from), true);
    view.setBigUint64(40, BigInt(header.to), true);
    view.setUint32(48, tableCrc, true);
    view.setUint32(52, newest.hi, true);
    view.setUint32(56, newest.lo, true);
    view.setBigUint64(60, BigInt(newest.address), true);
    view.setUint32(68, crc32(page.subarray(0, 68)), true);
    return page;
}
/** The header in these bytes, or what is wrong with them. */
export function decodeHeader(page) {
    if (page.length < HEADER_BYTES)
        return 'the header is cut off';
    const view = new DataView(page.buffer, page.byteOffset, page.length);
    if (view.getBigUint64(0, true) !== MAGIC)
        return 'this is not a run';
    if (view.getUint32(8, true) !== VERSION)
        return `version ${view.getUint32(8, true)} is unknown`;
    if (view.getUint32(68, true) !== crc32(page.subarray(0, 68)))
        return 'the header fails its checksum';
    const header = {
        level: view.getUint32(12, true),
        k0: view.getUint32(16, true),
        k1: view.getUint32(20, true),
        count: Number(view.getBigUint64(24, true)),
        from: Number(view.getBigUint64(32, true)),
        to: Number(view.getBigUint64(40, true)),
    };
    const [hi, lo] = [view.getUint32(52, true), view.getUint32(56, true)];
    const newest = { hi, lo, address: Number(view.getBigUint64(60, true)) };
    return { header, tableCrc: view.getUint32(48, true), newest };
}
const NAME = /^([0-9a-f]{14})-([0-9a-f]{14})\.run$/;
export const UNFINISHED = '.unfinished';
/** The name says the stretch of log, so that the set of names is the manifest (sorted-runs.ts). */
export function nameOf(header) {
    return `${address(header.from)}-${address(header.to)}.run`;
}
function address(value) {
    return value.toString(16).padStart(14, '0');
}
export function parseName(name) {
    const match = NAME.exec(name);
    return match?.[1] && match[2] ? { from: parseInt(match[1], 16), to: parseInt(match[2], 16) } : null;
}
//# sourceMappingURL=sorted-run-format.js.map