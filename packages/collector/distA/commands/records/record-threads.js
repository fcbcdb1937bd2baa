/**
 * Threads that make records, one for each core: to read, scan and encode is nearly all of the work. Their pieces come
 * back in the order of the records.
 */
import os from 'node:os';
import { setImmediate as breath } from 'node:timers/promises';
import { FORMATS } from '../../records/exports/formats.js';
import { LogThread } from '../log-thread.js';
import { runOfEvent } from '../catalogue.js';
/** Records to a job, and bytes of log where the format does not ask for more: what is in memory at once. */
const JOB_RECORDS = 16_384;
const JOB_BYTES = 4 << 20;
const MOST_THREADS = 4;
/** The young generation: what one window leaves behind should die in it, and not be copied. */
const YOUNG_MEBIBYTES = 96;
export class RecordThreads {
    settings;
    source;
    #threads = [];
    constructor(settings, source) {
        this.settings = settings;
        this.source = source;
    }
    /**
     * The pieces of all records, in order.
     * @throws what a thread could not do; StoreDamaged among it.
     */
    async *pieces(selection, signal) {
        const most = Math.min(MOST_THREADS, os.availableParallelism());
        const waiting = [];
        let turn = 0;
        for await (const { job, sequence } of this.#jobs(selection, signal)) {
            // A job takes about as long as a thread to start.
            const thread = (this.#threads[turn % most] ??= new RecordThread(this.settings, this.source));
            turn++;
            waiting.push(thread.make(job).then((pieces) => ({ pieces, sequence })));
            waiting.at(-1)?.catch(() => undefined);
            // Each has one to do and one to go on with.
            while (waiting.length >= 2 * most)
                yield await first(waiting, signal);
        }
        while (waiting.length > 0)
            yield await first(waiting, signal);
    }
    async stop() {
        await Promise.all(this.#threads.map((thread) => thread.stop()));
    }
    async *#jobs(selection, signal) {
        const mostBytes = FORMATS[this.settings.format]?.jobBytes ?? JOB_BYTES;
        let filling = new FillingJob();
        for (const page of this.source.catalogue.placed(selection)) {
            for (const record of page) {
                filling.add(record, this.#linksOf(record));
                if (filling.records < JOB_RECORDS && filling.logBytes < mostBytes)
                    continue;
                yield filling.done();
                filling = new FillingJob();
            }
            await breath();
            signal.throwIfAborted();
        }
        if (filling.records > 0)
            yield filling.done();
    }
    #linksOf(record) {
        const { parent, hasChildren, isInCircle } = record;
        if (parent === undefined && !hasChildren && !isInCircle)
            return undefined;
        const { catalogue } = this.source;
        return {
            parent,
            children: hasChildren ? catalogue.children(record) : [],
            cycle: isInCircle ? catalogue.cycle(record) : [],
        };
    }
}
class FillingJob {
    #places = [];
    #ends = [];
    #links = new Map();
    #sequence = 0;
    logBytes = 0;
    get records() {
        return this.#ends.length;
    }
    add(record, links) {
        if (links !== undefined)
            this.#links.set(this.records, links);
        for (const { at, size } of record.places()) {
            this.#places.push(at, size);
            this.logBytes += size;
        }
        this.#ends.push(this.#places.length);
        this.#sequence = record.firstSequence;
    }
    done() {
        const places = Float64Array.from(this.#places);
        return { job: { places, ends: this.#ends, links: this.#links }, sequence: this.#sequence };
    }
}
async function first(waiting, signal) {
    const made = await waiting.shift();
    if (made === undefined)
        throw new RangeError('nothing is under way');
    signal.throwIfAborted();
    return made;
}
/** One thread. It has its next job before it is done with one. */
class RecordThread {
    source;
    #thread;
    #answered = Promise.resolve();
    constructor(settings, source) {
        this.source = source;
        const options = { workerData: settings, resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MEBIBYTES } };
        this.#thread = new LogThread(new URL('record-thread.js', import.meta.url), options, (questions) => {
            // The answers go out in the order of the questions.
            this.#answered = this.#answered.then(() => this.#answer(questions));
            this.#answered.catch((error) => {
                this.#thread.fail(error instanceof Error ? error : new Error(String(error)));
            });
        });
    }
    make(job) {
        return this.#thread.do({ job }, [job.places.buffer]);
    }
    stop() {
        return this.#thread.stop();
    }
    async #answer(questions) {
        const runs = [];
        for (const { organisation, eventId } of questions) {
            runs.push(await runOfEvent(this.source, organisation, eventId));
        }
        this.#thread.tell({ runs });
    }
}
//# sourceMappingURL=record-threads.js.map