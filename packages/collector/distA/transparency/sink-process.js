/**
 * The process that runs the directory and file sinks, started by SinkWorker: it gets checkpoints, and reports what came
 * of them.
 *
 * A call to a mount whose server has gone may never return. In the collector it would hold one of the four threads
 * that Node shares among all such calls, on which the ledger waits for room as well; and no process, whatever it
 * calls to end, ends before those threads have. This one may be killed at any time.
 */
import '../stray-signals.js';
import { noteKey } from '../integrity/note-signing.js';
import { DirectorySink, FileSink } from './disk-sinks.js';
import { nodeSinkFiles } from './sink-files.js';
import { SinkTrouble } from './sink.js';
/** A sink, and what it is at. */
class RunningSink {
    spec;
    #sink;
    #delivery;
    #takeRoot = () => undefined;
    constructor(spec) {
        this.spec = spec;
        const log = {
            rootAt: (size) => this.#rootAt(size),
            entries: () => this.#delivery?.entries ?? 0,
            logKeys: () => this.#delivery?.keys.map(noteKey) ?? [],
        };
        const options = { ...spec, files: nodeSinkFiles, log };
        this.#sink = spec.kind === 'directory' ? new DirectorySink(options) : new FileSink(options);
    }
    take(message) {
        if (message.kind === 'deliver')
            return this.#deliver(message);
        this.#takeRoot(message.root);
        return Promise.resolve();
    }
    async #deliver(delivery) {
        const { shown } = this.spec;
        this.#delivery = delivery;
        try {
            const count = await this.#sink.deliver(delivery.notes, {
                newest: delivery.newest,
                // Nothing on a disk can be called off.
                signal: new AbortController().signal,
                progress: () => report({ shown, kind: 'progress' }),
                alsoHolds: (origin) => report({ shown, kind: 'alsoHolds', origin }),
                lost: () => report({ shown, kind: 'lost' }),
            });
            report({ shown, kind: 'given', count });
        }
        catch (error) {
            const { state, message } = error instanceof SinkTrouble ? error : new SinkTrouble('cannot be used');
            report({ shown, kind: 'failed', state, message });
        }
    }
    async #rootAt(size) {
        const answer = new Promise((resolve) => (this.#takeRoot = resolve));
        report({ shown: this.spec.shown, kind: 'rootAt', size });
        const root = await answer;
        if (typeof root === 'string')
            throw new SinkTrouble(root);
        return root;
    }
}
function report(message) {
    process.send?.(message);
}
const sinks = new Map();
process.on('message', (message) => {
    const sink = sinks.get(message.sink.shown) ?? new RunningSink(message.sink);
    sinks.set(message.sink.shown, sink);
    sink.take(message).catch(() => process.kill(process.pid, 'SIGKILL'));
});
// With the collector gone there is no one to write for. Not `exit`, which waits for calls that hang.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// Anyone who stops a service or a terminal signals every process of it; the last checkpoints come after that.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'])
    process.on(signal, () => undefined);
//# sourceMappingURL=sink-process.js.map