import * as fs from 'node:fs';
import path from 'node:path';
import { systemCode } from '../../../system-code.js';
import { Fingerprint, IdIndexError, UNFINISHED, parseName, randomKey, } from './sorted-run-format.js';
import { syncDirectory } from './sorted-run-writer.js';
import { Run, damaged } from './sorted-run.js';
/** What a listing that changed under the reader costs at most; each further look is at a newer listing. */
const LOOKS = 10;
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
export function openChain(options, whileWritten) {
    for (let look = 1;; look++) {
        const chain = new Chain(options);
        // Merges go on while another process reads the names: what vanished or does not meet may be there by now.
        if (chain.sound || !whileWritten || look === LOOKS) {
            for (const error of chain.discarded)
                options.onError(error);
            return chain.runs;
        }
        for (const run of chain.runs)
            run.close();
    }
}
class Chain {
    options;
    runs = [];
    discarded = [];
    /** False when a run vanished while it was looked at, or there are runs behind a gap. */
    sound = true;
    constructor(options) {
        this.options = options;
        const byStart = new Map();
        let furthest = options.origin;
        for (const name of fs.readdirSync(options.directory)) {
            const stretch = parseName(name);
            if (stretch === null || stretch.to > options.logEnd)
                continue;
            furthest = Math.max(furthest, stretch.to);
            const peers = byStart.get(stretch.from) ?? [];
            byStart.set(stretch.from, [...peers, { name, to: stretch.to }]);
        }
        let reached = options.origin;
        for (;;) {
            const peers = (byStart.get(reached) ?? []).filter(({ to }) => to > reached);
            peers.sort((a, b) => b.to - a.to);
            const run = this.#firstSound(peers.map(({ name }) => name));
            if (run === null)
                break;
            this.runs.push(run);
            reached = run.header.to;
        }
        if (reached < furthest)
            this.sound = false;
    }
    #firstSound(names) {
        for (const name of names) {
            try {
                const run = Run.open(this.options.directory, name, this.options.filterMemory);
                try {
                    this.#check(run);
                    return run;
                }
                catch (error) {
                    run.close();
                    throw error;
                }
            }
            catch (error) {
                if (isMissing(error))
                    this.sound = false;
                else if (error instanceof IdIndexError)
                    this.discarded.push(error);
                else
                    throw error;
            }
        }
        return null;
    }
    #check(run) {
        const { name, header } = run.image;
        const stretch = parseName(name);
        if (stretch?.from !== header.from || stretch.to !== header.to) {
            throw damaged(name, 'holds the run of another stretch of log');
        }
        const key = this.runs[0]?.header ?? header;
        if (key.k0 !== header.k0 || key.k1 !== header.k1) {
            throw damaged(name, 'belongs to another index');
        }
        if (this.options.verify)
            run.verify();
    }
}
/**
 * Deletes the runs and unfinished runs that are not of this chain, durably. Only the writer may, and before the
 * log grows again: once the log has been cut and has grown past a run that spoke of the part cut off, nothing
 * about that run would look wrong any more.
 */
export function clearAway(directory, chain) {
    const kept = new Set(chain.map((run) => run.image.name));
    let cleared = false;
    for (const name of fs.readdirSync(directory)) {
        const ours = parseName(name) !== null || name.endsWith(`.run${UNFINISHED}`);
        if (!ours || kept.has(name))
            continue;
        fs.unlinkSync(path.join(directory, name));
        cleared = true;
    }
    if (cleared)
        syncDirectory(fs, directory);
}
function isMissing(error) {
    return systemCode(error) === 'ENOENT';
}
/** 16 MiB hold the filter of 13 million entries. All filters in memory are then below 60 MiB, at any size of log. */
const FILTER_MEMORY = 16 * 1024 * 1024;
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
export class IdIndexReader {
    runs;
    origin;
    #fingerprint;
    /** Throws the file system's error. Damaged runs are not used and reported to `onError`; `coveredTo` says the rest. */
    static read(options) {
        const full = withDefaults(options);
        return new IdIndexReader(full, openChain(full, true));
    }
    constructor(options, runs) {
        this.origin = options.origin;
        this.runs = runs;
        const first = runs[0];
        this.#fingerprint = new Fingerprint(first ? { k0: first.header.k0, k1: first.header.k1 } : randomKey());
    }
    /** The end (exclusive) of the log that published runs cover: at start-up, add every event from here on. */
    get coveredTo() {
        return this.runs.at(-1)?.header.to ?? this.origin;
    }
    /** The words of the fingerprint last made, unsigned. */
    get hi() {
        return this.#fingerprint.hi;
    }
    get lo() {
        return this.#fingerprint.lo;
    }
    get key() {
        return this.#fingerprint.key;
    }
    /** Sets `hi` and `lo` for the 16-byte id at `offset`. */
    fingerprint(organisation, bytes, offset) {
        this.#fingerprint.of(organisation, bytes, offset);
    }
    /**
     * Writes the candidate addresses to `out` from index 0 on and returns how many; `out` keeps its length.
     * A miss makes no object (V8 boxes numbers above 2^31: about 75 bytes an event). Throws IdIndexError `corrupt`.
     */
    find(hi, lo, out) {
        return this.findInRuns(hi, lo, out, 0);
    }
    findInRuns(hi, lo, out, found) {
        for (let i = this.runs.length - 1; i >= 0; i--)
            found = this.runs[i]?.find(hi, lo, out, found) ?? found;
        return found;
    }
    /**
     * Of each run the newest event. A run of another log, or of a copy of this one that
     * went on differently, has another event at that address, or none: what distinguishes an index from that of another
     * log.
     */
    *newestOfRuns() {
        for (const { newest } of this.runs)
            if (newest !== undefined)
                yield newest;
    }
    /** Closes the files. */
    close() {
        for (const run of this.runs.splice(0))
            run.close();
        return Promise.resolve();
    }
}
export function withDefaults(options) {
    return {
        origin: 0,
        logEnd: Infinity,
        filterMemory: FILTER_MEMORY,
        verify: true,
        onError: () => undefined,
        ...options,
    };
}
//# sourceMappingURL=sorted-runs.js.map