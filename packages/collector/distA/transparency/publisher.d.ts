import type { HashSource } from '../integrity/merkle.js';
import type { NoteKey } from '../integrity/note-signing.js';
import { type LogView, type RetryPolicy } from './sink-queue.js';
import { SinkWorker } from './sink-worker.js';
import { type SinkState } from './state-files.js';
import type { SinkSpec } from './sink.js';
export interface PublisherOptions {
    readonly sinks: readonly SinkSpec[];
    /** The ledger's tree, at least up to what is published. Read on the thread that calls `publish`. */
    readonly tiles: HashSource;
    readonly entries: LogView['entries'];
    /** States and cosignatures are kept in its `checkpoints`. */
    readonly dataDir: string;
    /** Every key that may have signed a checkpoint of this log. Asked each time: there may be a new one. */
    readonly logKeys: () => readonly NoteKey[];
    /** Told when a sink's trouble begins, and when it becomes another one. */
    readonly onTrouble: (sink: string, message: string) => void;
    /** Told instead when a sink has seen a checkpoint of this log that the ledger does not agree with. */
    readonly onForked: (sink: string, message: string) => void;
    /** Told once that checkpoints of another log lie in a sink's place; it is used all the same. */
    readonly onShared: (sink: string, message: string) => void;
    /** Told each time that a sink's place holds less than it was left with; it is used all the same. */
    readonly onLost: (sink: string, message: string) => void;
    readonly onRecovered: (sink: string) => void;
    /** How the sinks do cannot be written down for doctor, which is no trouble of theirs. Told until it can be again. */
    readonly onUnwritten: (message: string) => void;
    readonly now?: () => number;
    readonly fetch?: typeof fetch;
    readonly retryPolicy?: RetryPolicy;
    /** Runs directories and files; a process of their own when not given. */
    readonly worker?: Pick<SinkWorker, 'sinkOf' | 'kill'>;
}
/** A sink, and how it does. */
export interface SinkView {
    readonly kind: SinkSpec['kind'];
    /** As it was given, but a witness's key is replaced by its name. */
    readonly shown: string;
    /** Undefined before the first try has come to something. */
    readonly state: SinkState | undefined;
    /** Checkpoints that it is still owed. */
    readonly waiting: number;
}
export declare class Publisher {
    #private;
    constructor(options: PublisherOptions);
    /** The sinks in the order of the option. */
    get sinks(): readonly SinkView[];
    /** Sends the checkpoint on its way. Never throws and never waits. */
    publish(note: string): void;
    /**
     * Gives the sinks the time that is named, in milliseconds, to take what waits; a sink that fails then is not tried
     * again. On return nothing is under way, and the states tell what was not delivered. Never rejects.
     */
    close(timeoutMs: number): Promise<void>;
}
