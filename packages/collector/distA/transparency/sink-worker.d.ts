import type { LogView } from './sink-queue.js';
import { type DiskSinkSpec, type Sink } from './sink.js';
/**
 * Runs directory and file sinks in a process of their own, which is started at the first delivery, and again when it
 * has ended. A delivery that hangs is pending until it returns, or until `kill`. Keeps nobody's event loop alive.
 */
export declare class SinkWorker {
    #private;
    /** The compiled module of the process. */
    private readonly program;
    constructor(
    /** The compiled module of the process. */
    program?: import("url").URL);
    sinkOf(sink: DiskSinkSpec, log: LogView): Sink;
    /** Ends the process, whatever it is at; all deliveries reject, these and later ones. */
    kill(): void;
    /** For tests: the process, when there is one. */
    get pid(): number | undefined;
}
