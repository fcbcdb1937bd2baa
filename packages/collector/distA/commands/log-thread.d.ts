/** A thread that reads the log beside others, and does what it is given one after the other. */
import { type Transferable, type WorkerOptions } from 'node:worker_threads';
export declare class LogThread<Job, Answer, Note = never> {
    #private;
    /** @param onNote called with what the thread says besides. */
    constructor(file: URL, options: WorkerOptions, onNote?: (note: Note) => void);
    /** Rejects with what ended the thread; StoreDamaged among it. */
    do(job: Job, transfer?: readonly Transferable[]): Promise<Answer>;
    /** Says something that no answer comes to. */
    tell(message: unknown): void;
    /** All that was asked for, and will be, is rejected. */
    fail(error: Error): void;
    stop(): Promise<void>;
}
/** In a thread: an error ends it, and reaches whoever waits. */
export declare function endBy(error: unknown): void;
