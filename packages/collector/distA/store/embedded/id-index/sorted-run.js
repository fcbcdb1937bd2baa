import * as fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { systemCode } from '../../../system-code.js';
import { ENTRIES_PER_PAGE, IdIndexError, PAGE_BYTES, WORDS_PER_BLOCK, WORDS_PER_PAGE, blockOf, decodeHeader, layoutOf, mayHold, } from './sorted-run-format.js';
/** Words of an entry, in a table as in a run: fingerprint high, fingerprint low, address low, address high. */
export const WORDS_PER_ENTRY = 4;
/**
 * Set in the fourth word of a slot in use: an address has 53 bits, so the top bit is free, and zeroed memory is
 * empty.
 */
const IN_USE = 0x8000_0000;
/**
 * The newest entries: linear probing in one shared array, 16 bytes a slot so that a probe costs one cache line.
 *
 * A slot's place is the top bits of its fingerprint. So walking the slots in order meets the entries almost
 * sorted, and freezing needs no sort of its own (`sorted`), and the memory is shared, so that freezing copies
 * nothing: the writer's thread takes the very same table while look-ups go on in it.
 *
 * One thread writes. Once frozen no one writes until `clear`.
 */
export class RecentTable {
    memory;
    #words;
    #shift;
    #mask;
    count = 0;
    /** `slots` is a power of two from 4 to 2^26; memory freshly allocated or of a table handed over. */
    constructor(slots, memory = new SharedArrayBuffer(slots * WORDS_PER_ENTRY * 4)) {
        this.memory = memory;
        this.#words = new Uint32Array(memory);
        this.#shift = 32 - Math.log2(slots);
        this.#mask = slots - 1;
    }
    /** Past three quarters linear probing degrades; who asks for more has not frozen in time. */
    get limit() {
        return ((this.#mask + 1) / 4) * 3;
    }
    add(hi, lo, address) {
        if (this.count >= this.limit)
            throw new RangeError('the table is full');
        const words = this.#words;
        let at = (hi >>> this.#shift) * WORDS_PER_ENTRY;
        while (words[at + 3] !== 0)
            at = (at + WORDS_PER_ENTRY) & (this.#mask * WORDS_PER_ENTRY);
        words[at] = hi;
        words[at + 1] = lo;
        words[at + 2] = address >>> 0;
        words[at + 3] = ((address / 0x1_0000_0000) | IN_USE) >>> 0;
        this.count++;
    }
    /** Writes the addresses under this fingerprint to `out` from index `found` on; returns the new length. */
    find(hi, lo, out, found) {
        const words = this.#words;
        let at = (hi >>> this.#shift) * WORDS_PER_ENTRY;
        for (;;) {
            const high = words[at + 3] ?? 0;
            if (high === 0)
                return found;
            if (words[at] === hi && words[at + 1] === lo) {
                out[found++] = (high - IN_USE) * 0x1_0000_0000 + (words[at + 2] ?? 0);
            }
            at = (at + WORDS_PER_ENTRY) & (this.#mask * WORDS_PER_ENTRY);
        }
    }
    clear() {
        this.#words.fill(0);
        this.count = 0;
    }
    /**
     * Fills `out` with the entries in order of fingerprint and returns how many there are.
     *
     * Insertion sort: an entry lies at most one cluster from its place, a handful of slots at these loads, which
     * makes it a few comparisons an entry. The few that wrapped around from the end come first in the walk and
     * are pushed along to the end, one step for each entry.
     */
    sorted(out) {
        const words = this.#words;
        let end = 0;
        for (let slot = 0; slot < words.length; slot += WORDS_PER_ENTRY) {
            const high = words[slot + 3] ?? 0;
            if (high === 0)
                continue;
            const hi = words[slot] ?? 0;
            const lo = words[slot + 1] ?? 0;
            let at = end;
            for (; at > 0; at -= WORDS_PER_ENTRY) {
                const before = out[at - WORDS_PER_ENTRY] ?? 0;
                if (before < hi || (before === hi && (out[at - WORDS_PER_ENTRY + 1] ?? 0) <= lo))
                    break;
            }
            if (at < end)
                out.copyWithin(at + WORDS_PER_ENTRY, at, end);
            out[at] = hi;
            out[at + 1] = lo;
            out[at + 2] = words[slot + 2] ?? 0;
            out[at + 3] = high - IN_USE;
            end += WORDS_PER_ENTRY;
        }
        return end / WORDS_PER_ENTRY;
    }
}
/** Pages are read into here. One thread, synchronous calls: no one else can need it before its reader is done. */
const page = new Uint8Array(PAGE_BYTES);
const pageWords = new Uint32Array(page.buffer);
/** Which page that is. A run that is published never changes, so who asks for neighbours reads a page once. */
let held;
export function damaged(run, reason) {
    return new IdIndexError('corrupt', `${run}: ${reason}`, {}, run);
}
/**
 * Opens for reading without a time of last access, where the system has that and this user may. To note the time
 * a read must join the file system's journal, where it may wait while the writing thread's sync commits.
 */
function openQuietly(file) {
    // Absent where the system has no such flag, whatever the types say.
    const flag = fs.constants.O_NOATIME;
    try {
        if (flag !== undefined)
            return fs.openSync(file, fs.constants.O_RDONLY | flag);
    }
    catch (error) {
        if (systemCode(error) !== 'EPERM')
            throw error;
    }
    return fs.openSync(file, 'r');
}
/** How much is read with one call where a whole run is read. */
const CHUNK_PAGES = 16;
/**
 * One published run, open for look-ups.
 *
 * Holds the file open: a reader in another process, and this one, go on reading a file that a merge has since
 * deleted. Every page is checked as it is read, so damage that came after opening is an error, not an answer.
 */
export class Run {
    fd;
    image;
    layout;
    #table;
    #filter;
    constructor(fd, image) {
        this.fd = fd;
        this.image = image;
        this.layout = layoutOf(image.header.count);
        this.#table = new Uint32Array(image.table);
        this.#filter = image.filter && new Uint32Array(image.filter);
    }
    get header() {
        return this.image.header;
    }
    /** Bytes of page table and filter in memory. */
    get memory() {
        return this.image.table.byteLength + (this.image.filter?.byteLength ?? 0);
    }
    /**
     * Opens a run and checks header, page table and, up to `filterMemory` bytes, the filter.
     * Throws IdIndexError `corrupt`, or the file system's error (ENOENT: a merge has deleted it).
     */
    static open(directory, name, filterMemory) {
        const fd = openQuietly(path.join(directory, name));
        try {
            const first = new Uint8Array(PAGE_BYTES);
            const decoded = decodeHeader(first.subarray(0, fs.readSync(fd, first, 0, PAGE_BYTES, 0)));
            if (typeof decoded === 'string')
                throw damaged(name, decoded);
            const { header, tableCrc, newest } = decoded;
            const layout = layoutOf(header.count);
            if (fs.fstatSync(fd).size !== layout.fileBytes) {
                throw damaged(name, 'not the length that its header says');
            }
            const table = new SharedArrayBuffer(layout.tableWords * 4);
            const tableBytes = new Uint8Array(table);
            fs.readSync(fd, tableBytes, 0, tableBytes.length, layout.tableAt);
            if (crc32(tableBytes) !== tableCrc) {
                throw damaged(name, 'the page table fails its checksum');
            }
            const filterBytes = layout.filterPages * PAGE_BYTES;
            const filter = filterBytes <= filterMemory ? new ArrayBuffer(filterBytes) : null;
            const run = new Run(fd, { name, header, newest, table, filter });
            if (filter)
                run.readPages(layout.entryPages, layout.filterPages, new Uint8Array(filter));
            return run;
        }
        catch (error) {
            fs.closeSync(fd);
            throw error;
        }
    }
    /** A run that another thread has opened and checked. */
    static share(directory, image) {
        return new Run(openQuietly(path.join(directory, image.name)), image);
    }
    /** The entry of the newest event of the run; undefined when it has none. */
    get newest() {
        return this.header.count === 0 ? undefined : this.image.newest;
    }
    /** Reads and checks everything. Throws IdIndexError `corrupt`. */
    verify() {
        const chunk = new Uint8Array(CHUNK_PAGES * PAGE_BYTES);
        const pages = this.layout.entryPages + this.layout.filterPages;
        for (let at = 0; at < pages; at += CHUNK_PAGES)
            this.readPages(at, Math.min(CHUNK_PAGES, pages - at), chunk);
    }
    /** Reads `count` pages from page `first` on (entries, then filter) into `into`. Throws IdIndexError `corrupt`. */
    readPages(first, count, into) {
        const length = count * PAGE_BYTES;
        const read = fs.readSync(this.fd, into, 0, length, (1 + first) * PAGE_BYTES);
        for (let i = 0; i < count; i++) {
            const at = i * PAGE_BYTES;
            if (read !== length || crc32(into.subarray(at, at + PAGE_BYTES)) !== this.#table[first + i]) {
                throw damaged(this.image.name, `page ${1 + first + i} fails its checksum`);
            }
        }
    }
    /** Writes the addresses under this fingerprint to `out` from index `found` on; returns the new length. */
    find(hi, lo, out, found) {
        if (this.header.count === 0 || !this.#mayHold(hi, lo))
            return found;
        const { entryPages } = this.layout;
        const fences = this.#table.length - entryPages;
        // The first page whose fence is not below `hi`; entries of `hi` may begin in the page before.
        let low = 0;
        let high = entryPages;
        while (low < high) {
            const middle = (low + high) >>> 1;
            if ((this.#table[fences + middle] ?? 0) < hi)
                low = middle + 1;
            else
                high = middle;
        }
        for (let at = Math.max(0, low - 1); at < entryPages; at++) {
            if ((this.#table[fences + at] ?? 0) > hi)
                break;
            this.#hold(at);
            found = this.#findInPage(at, hi, lo, out, found);
        }
        return found;
    }
    #mayHold(hi, lo) {
        const block = blockOf(hi, this.layout.filterBlocks) * WORDS_PER_BLOCK;
        if (this.#filter !== null)
            return mayHold(this.#filter, block, lo);
        this.#hold(this.layout.entryPages + Math.floor(block / WORDS_PER_PAGE));
        return mayHold(pageWords, block % WORDS_PER_PAGE, lo);
    }
    #hold(number) {
        if (held?.run === this && held.page === number)
            return;
        held = undefined;
        this.readPages(number, 1, page);
        held = { run: this, page: number };
    }
    #findInPage(at, hi, lo, out, found) {
        const end = Math.min(ENTRIES_PER_PAGE, this.header.count - at * ENTRIES_PER_PAGE);
        let low = 0;
        let high = end;
        while (low < high) {
            const middle = (low + high) >>> 1;
            if ((pageWords[middle * WORDS_PER_ENTRY] ?? 0) < hi)
                low = middle + 1;
            else
                high = middle;
        }
        for (let word = low * WORDS_PER_ENTRY; word < end * WORDS_PER_ENTRY; word += WORDS_PER_ENTRY) {
            if (pageWords[word] !== hi)
                break;
            if (pageWords[word + 1] !== lo)
                continue;
            out[found++] = (pageWords[word + 3] ?? 0) * 0x1_0000_0000 + (pageWords[word + 2] ?? 0);
        }
        return found;
    }
    /**
     * Frees the filter now: a collection that comes late would leave this process with the filters of all merges
     * so far. The file is closed off this thread: the last close of a deleted file frees its blocks, which for a
     * gigabyte takes longer than a lookup may.
     */
    close() {
        if (held?.run === this)
            held = undefined;
        if (this.image.filter?.detached === false)
            this.image.filter.transfer(0);
        fs.close(this.fd);
    }
}
//# sourceMappingURL=sorted-run.js.map