import type { Checkpoint } from '@clinical-events/protocol/verify';
import { type NoteKey } from '../integrity/note-signing.js';
/** A sink on a file system, which may hang. */
export interface DiskSinkSpec {
    readonly kind: 'directory' | 'file';
    readonly shown: string;
    readonly path: string;
}
/** Somewhere that checkpoints go. `shown` names it to people. */
export type SinkSpec = DiskSinkSpec | {
    readonly kind: 'witness';
    readonly shown: string;
    /** Without a slash at its end. */
    readonly prefix: string;
    readonly key: NoteKey;
};
/** The option cannot be understood; one line says which sink and why. */
export declare class SinkSpecInvalid extends Error {
    name: string;
}
/** A checkpoint on its way. */
export interface Published {
    /** The signed note. */
    readonly note: string;
    readonly checkpoint: Checkpoint;
}
/** One try to deliver. */
export interface Attempt {
    /** The newest checkpoint of the ledger, perhaps newer than those that are handed over. */
    readonly newest: Checkpoint;
    /** Aborted when the time for the try is up. */
    readonly signal: AbortSignal;
    /** To be called while a long task gets on: the time begins again. */
    progress(): void;
    /** To be called when checkpoints of another log lie in the same place: its origin, which a terminal may be shown. */
    readonly alsoHolds: (origin: string) => void;
    /** To be called when something that was given before is not there any more. */
    readonly lost: () => void;
}
export interface Sink {
    readonly shown: string;
    /** Whether it is owed every checkpoint, or each time the newest. */
    readonly wants: 'every' | 'newest';
    /**
     * @param notes at least one, oldest first.
     * @returns how many of them, from the first on, are there for good.
     * @throws {@link SinkTrouble}. When any of them have been given nonetheless, they may be given again.
     */
    deliver(notes: readonly Published[], attempt: Attempt): Promise<number>;
}
/** A sink did not take a checkpoint; the message tells an operator why and what to do, and nothing secret. */
export declare class SinkTrouble extends Error {
    name: string;
    /** Forked: the sink has seen a checkpoint of this log that the ledger here does not agree with. */
    readonly state: 'failing' | 'forked';
}
/** What a sink holds and what the ledger holds cannot both be true. */
export declare class SinkForked extends SinkTrouble {
    name: string;
    readonly state = "forked";
}
/**
 * @param text the option's value; an empty one names no sink.
 * @returns the sinks in the order given, their paths absolute.
 * @throws {@link SinkSpecInvalid}
 */
export declare function parseSinks(text: string): SinkSpec[];
