import * as fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { handOver } from '../../../files.js';
import { ENTRIES_PER_PAGE, PAGE_BYTES, UNFINISHED, WORDS_PER_BLOCK, WORDS_PER_PAGE, blockOf, encodeHeader, layoutOf, nameOf, setBits, } from './sorted-run-format.js';
import { WORDS_PER_ENTRY } from './sorted-run.js';
/** What a link leads to is not written. */
const CREATING = fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_TRUNC | fs.constants.O_NOFOLLOW;
const BUFFER_PAGES = 16;
/**
 * Pages between two syncs. Without them a merge leaves all of its output to one sync at the end, and the
 * ledger's own sync, which shares the journal, waits behind it.
 */
const SYNC_PAGES = 2048;
/**
 * Writes one run from entries that come in order. Memory is bounded by two buffers and the page table.
 *
 * Crash order: pages, page table and header under an unfinished name; sync; rename; sync of the directory. Only
 * then may the caller speak of the run or delete what it replaces. A crash before the rename leaves a name that
 * no one reads; a crash after it leaves a complete run beside the ones that it was made from.
 */
export class RunWriter {
    files;
    directory;
    header;
    name;
    /** Null once closed: closing a number twice would close a file that another thread has opened since. */
    #fd;
    #unfinished;
    #layout;
    #table;
    #entries = new Uint32Array(BUFFER_PAGES * WORDS_PER_PAGE);
    #filter = new Uint32Array(WORDS_PER_PAGE);
    #used = 0;
    #entryPage = 0;
    #filterPage = 0;
    #count = 0;
    /** The entry of the highest address: fingerprint high, low, address low, high. */
    #newest = new Uint32Array(WORDS_PER_ENTRY);
    /** `header.count` must be what will be added: the places of filter and page table follow from it. */
    constructor(files, directory, header) {
        this.files = files;
        this.directory = directory;
        this.header = header;
        this.name = nameOf(header);
        this.#layout = layoutOf(header.count);
        this.#table = new Uint32Array(this.#layout.tableWords);
        this.#unfinished = path.join(directory, this.name + UNFINISHED);
        this.#fd = files.openSync(this.#unfinished, CREATING, 0o600);
        handOver(this.#fd, directory);
    }
    add(hi, lo, addressLow, addressHigh) {
        const entries = this.#entries;
        const at = this.#used;
        entries[at] = hi;
        entries[at + 1] = lo;
        entries[at + 2] = addressLow;
        entries[at + 3] = addressHigh;
        this.#used = at + WORDS_PER_ENTRY;
        this.#count++;
        const newest = this.#newest;
        const highest = newest[3] ?? 0;
        if (addressHigh > highest || (addressHigh === highest && addressLow >= (newest[2] ?? 0))) {
            newest[0] = hi;
            newest[1] = lo;
            newest[2] = addressLow;
            newest[3] = addressHigh;
        }
        if (this.#used === entries.length)
            this.#flushEntries();
        const word = blockOf(hi, this.#layout.filterBlocks) * WORDS_PER_BLOCK;
        while (word >= (this.#filterPage + 1) * WORDS_PER_PAGE)
            this.#flushFilter();
        setBits(this.#filter, word - this.#filterPage * WORDS_PER_PAGE, lo);
    }
    #flushEntries() {
        const pages = Math.ceil(this.#used / WORDS_PER_PAGE);
        this.#entries.fill(0, this.#used);
        const bytes = new Uint8Array(this.#entries.buffer, 0, pages * PAGE_BYTES);
        const fences = this.#table.length - this.#layout.entryPages;
        for (let i = 0; i < pages; i++) {
            const at = i * PAGE_BYTES;
            this.#table[this.#entryPage + i] = crc32(bytes.subarray(at, at + PAGE_BYTES));
            this.#table[fences + this.#entryPage + i] = this.#entries[i * WORDS_PER_PAGE] ?? 0;
        }
        this.#write(bytes, (1 + this.#entryPage) * PAGE_BYTES);
        this.#entryPage += pages;
        this.#used = 0;
        if (this.#entryPage % SYNC_PAGES === 0)
            this.files.fdatasyncSync(this.#file);
    }
    #flushFilter() {
        const bytes = new Uint8Array(this.#filter.buffer);
        const at = this.#layout.entryPages + this.#filterPage++;
        this.#table[at] = crc32(bytes);
        this.#write(bytes, (1 + at) * PAGE_BYTES);
        this.#filter.fill(0);
    }
    /** On return the run is durable under its name. */
    finish() {
        if (this.#count !== this.header.count) {
            throw new RangeError(`${this.#count} entries were added to a run of ${this.header.count}`);
        }
        if (this.#used > 0)
            this.#flushEntries();
        while (this.#filterPage < this.#layout.filterPages)
            this.#flushFilter();
        const table = new Uint8Array(this.#table.buffer);
        this.#write(table, this.#layout.tableAt);
        const [hi = 0, lo = 0, low = 0, high = 0] = this.#newest;
        const newest = { hi, lo, address: high * 0x1_0000_0000 + low };
        this.#write(encodeHeader(this.header, crc32(table), newest), 0);
        this.files.fsyncSync(this.#file);
        this.#close();
        this.files.renameSync(this.#unfinished, path.join(this.directory, this.name));
        syncDirectory(this.files, this.directory);
    }
    /** Gives up after a failure, which must stay the one that is reported: nothing here throws. */
    discard() {
        try {
            this.#close();
        }
        catch {
            // The system has let go of the number all the same.
        }
        try {
            this.files.unlinkSync(this.#unfinished);
        }
        catch {
            // Left behind, or renamed already; opening the index clears it away either way.
        }
    }
    get #file() {
        if (this.#fd === null)
            throw new Error(`${this.name} is finished`);
        return this.#fd;
    }
    #close() {
        const fd = this.#fd;
        this.#fd = null;
        if (fd !== null)
            this.files.closeSync(fd);
    }
    #write(bytes, position) {
        for (let at = 0; at < bytes.length;) {
            at += this.files.writeSync(this.#file, bytes, at, bytes.length - at, position + at);
        }
    }
}
/** On return the names in the directory are durable. */
export function syncDirectory(files, directory) {
    const fd = files.openSync(directory, 'r');
    try {
        files.fsyncSync(fd);
    }
    finally {
        files.closeSync(fd);
    }
}
/**
 * Runs of one level that become one of the next. With 4, an entry is written log4(n / table) + 1 times, and a
 * miss asks at most 3 filters a level: 12 at 10 million entries. 8 would write each 3 times and not 4, and ask
 * up to 21; look-ups are what the ledger waits for.
 */
const FAN_OUT = 4;
/**
 * The next runs to merge, or null: the oldest FAN_OUT of the lowest level that has that number.
 *
 * `runs` is the chain in order of log. Tables come in at its end at level 0 and merges take the oldest of their
 * level, so levels never rise along the chain and the runs returned are neighbours.
 */
export function nextMerge(runs) {
    const byLevel = new Map();
    for (const run of runs) {
        const peers = byLevel.get(run.header.level);
        if (peers)
            peers.push(run);
        else
            byLevel.set(run.header.level, [run]);
    }
    const full = [...byLevel].filter(([, peers]) => peers.length >= FAN_OUT);
    full.sort(([a], [b]) => a - b);
    return full[0]?.[1].slice(0, FAN_OUT) ?? null;
}
/** One merge under way, done a step at a time so that a full table never waits for a long merge. */
export class Merge {
    inputs;
    #writer;
    #cursors;
    constructor(files, directory, inputs) {
        this.inputs = inputs;
        const [first, last] = [inputs[0]?.header, inputs.at(-1)?.header];
        if (!first || !last)
            throw new RangeError('nothing to merge');
        const count = inputs.reduce((sum, run) => sum + run.header.count, 0);
        this.#writer = new RunWriter(files, directory, { ...first, level: first.level + 1, count, to: last.to });
        this.#cursors = inputs.filter((run) => run.header.count > 0).map((run) => new Cursor(run));
    }
    get name() {
        return this.#writer.name;
    }
    /** Moves about `entries` entries. True when the merged run is durable under its name. */
    step(entries) {
        const cursors = this.#cursors;
        for (let left = entries; left > 0; left--) {
            let least = cursors[0];
            if (least === undefined) {
                this.#writer.finish();
                return true;
            }
            for (let i = 1; i < cursors.length; i++) {
                const other = cursors[i];
                if (other && (other.hi < least.hi || (other.hi === least.hi && other.lo < least.lo)))
                    least = other;
            }
            this.#writer.add(least.hi, least.lo, least.addressLow, least.addressHigh);
            if (!least.next())
                cursors.splice(cursors.indexOf(least), 1);
        }
        return false;
    }
    discard() {
        this.#writer.discard();
    }
}
/** Reads a run's entries in order, checking every page. */
class Cursor {
    run;
    hi = 0;
    lo = 0;
    addressLow = 0;
    addressHigh = 0;
    #bytes = new Uint8Array(BUFFER_PAGES * PAGE_BYTES);
    #words = new Uint32Array(this.#bytes.buffer);
    #at = 0;
    constructor(run) {
        this.run = run;
        this.next();
    }
    next() {
        const { header, layout } = this.run;
        if (this.#at === header.count)
            return false;
        const within = this.#at % (BUFFER_PAGES * ENTRIES_PER_PAGE);
        if (within === 0) {
            const first = this.#at / ENTRIES_PER_PAGE;
            this.run.readPages(first, Math.min(BUFFER_PAGES, layout.entryPages - first), this.#bytes);
        }
        const word = within * WORDS_PER_ENTRY;
        this.hi = this.#words[word] ?? 0;
        this.lo = this.#words[word + 1] ?? 0;
        this.addressLow = this.#words[word + 2] ?? 0;
        this.addressHigh = this.#words[word + 3] ?? 0;
        this.#at++;
        return true;
    }
}
//# sourceMappingURL=sorted-run-writer.js.map