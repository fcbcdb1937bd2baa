import * as fs from 'node:fs';
import path from 'node:path';
import { receiveMessageOnPort, workerData } from 'node:worker_threads';
import { Merge, nextMerge, RunWriter } from './sorted-run-writer.js';
import { RecentTable, WORDS_PER_ENTRY, Run } from './sorted-run.js';
/** Entries merged between two looks at the port: a full table waits a few milliseconds for a merge. */
const MERGE_STEP = 16_384;
class RunThread {
    data;
    files;
    #signal;
    #requests = [];
    #runs;
    #merge = null;
    /** After a merge has failed none is tried until a table could be written: the disk is full or broken. */
    #mergeable = true;
    #sorted = null;
    constructor(data, files) {
        this.data = data;
        this.files = files;
        this.#signal = new Int32Array(data.answers);
        this.#runs = data.images.map((image) => Run.share(data.directory, image));
        data.port.on('message', (request) => {
            this.#requests.push(request);
            this.#work();
        });
        this.#work();
    }
    #work() {
        for (;;) {
            for (;;) {
                const received = receiveMessageOnPort(this.data.port);
                if (received === undefined)
                    break;
                this.#requests.push(received.message);
            }
            const request = this.#requests.shift();
            if (request?.kind === 'close') {
                this.#merge?.discard();
                this.data.port.close();
                return;
            }
            if (request?.kind === 'write')
                this.#write(request);
            else if (request?.kind === 'delete')
                this.#delete(request.names);
            else if (!this.#mergeStep())
                return;
        }
    }
    #write({ table, count, from, to }) {
        let writer = null;
        try {
            const frozen = new RecentTable(table.byteLength / (WORDS_PER_ENTRY * 4), table);
            if (this.#sorted === null)
                this.#sorted = new Uint32Array(frozen.limit * WORDS_PER_ENTRY);
            const sorted = this.#sorted;
            frozen.sorted(sorted);
            const { k0, k1 } = this.data.key;
            writer = new RunWriter(this.files, this.data.directory, { level: 0, k0, k1, count, from, to });
            for (let at = 0; at < count * WORDS_PER_ENTRY; at += WORDS_PER_ENTRY) {
                writer.add(sorted[at] ?? 0, sorted[at + 1] ?? 0, sorted[at + 2] ?? 0, sorted[at + 3] ?? 0);
            }
            writer.finish();
            this.#publish(writer.name, []);
            this.#mergeable = true;
        }
        catch (error) {
            writer?.discard();
            this.#fail('write', error);
        }
    }
    /** Goes on with the merge under way or begins the next one; false when there is none. */
    #mergeStep() {
        try {
            if (this.#merge === null) {
                const inputs = this.#mergeable ? nextMerge(this.#runs) : null;
                if (inputs === null)
                    return false;
                this.#merge = new Merge(this.files, this.data.directory, inputs);
            }
            if (this.#merge.step(MERGE_STEP)) {
                this.#publish(this.#merge.name, this.#merge.inputs);
                this.#merge = null;
            }
        }
        catch (error) {
            this.#merge?.discard();
            this.#merge = null;
            this.#mergeable = false;
            this.#fail('merge', error);
        }
        return true;
    }
    #publish(name, replaces) {
        const run = Run.open(this.data.directory, name, this.data.filterMemory);
        const at = replaces[0] ? this.#runs.indexOf(replaces[0]) : this.#runs.length;
        this.#runs.splice(at, replaces.length, run);
        for (const replaced of replaces)
            replaced.close();
        // Handed over, not shared: this thread only merges, and two threads' collectors would hold it twice as long.
        const transfer = run.image.filter ? [run.image.filter] : [];
        this.#answer({ kind: 'published', image: run.image, replaces: replaces.map((old) => old.image.name) }, transfer);
    }
    #delete(names) {
        for (const name of names) {
            try {
                this.files.unlinkSync(path.join(this.data.directory, name));
            }
            catch {
                // Costs space until the next start, which clears it away: the run that replaced it reaches further.
            }
        }
    }
    #fail(what, error) {
        const { message, code, run } = error;
        this.#answer({ kind: 'failed', what, message, code: code ?? '', run });
    }
    #answer(answer, transfer = []) {
        this.data.port.postMessage(answer, transfer);
        Atomics.add(this.#signal, 0, 1);
        Atomics.notify(this.#signal, 0);
    }
}
const data = workerData;
const files = data.files === 'node:fs' ? fs : (await import(data.files));
new RunThread(data, files);
//# sourceMappingURL=merge-thread.js.map