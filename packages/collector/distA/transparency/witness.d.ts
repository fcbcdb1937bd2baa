/**
 * `https://...#<vkey>` posts each time the newest checkpoint to a witness (C2SP tlog-witness), with a proof that the
 * ledger goes on from what the witness saw last, and keeps the cosignature.
 *
 * A witness remembers the size of the largest tree that it saw of this log. So it finds out when the ledger was
 * replaced by an older back-up of itself, or by another one that was signed with the right key.
 *
 * Looking up its name takes a thread of Node's pool for as long as the resolver takes. Such look-ups get half of the
 * threads at most (libuv), so they slow the ledger's calls down and do not stop them.
 *
 * What a witness answers is not believed but for its cosignature, and never quoted: logs are no place for the texts
 * of strangers.
 */
import { type Checkpoint } from '@clinical-events/protocol/verify';
import { type HashSource } from '../integrity/merkle.js';
import { type NoteKey } from '../integrity/note-signing.js';
import { type LogView } from './sink-queue.js';
import { type Attempt, type Published, type Sink } from './sink.js';
export interface WitnessOptions {
    /** Without a slash at its end. */
    readonly prefix: string;
    readonly shown: string;
    readonly key: NoteKey;
    /** Where the cosigned checkpoint is kept. */
    readonly directory: string;
    readonly log: LogView;
    /** The ledger's tree, at least up to the newest checkpoint. */
    readonly tiles: HashSource;
    readonly fetch: typeof fetch;
}
export declare class Witness implements Sink {
    #private;
    private readonly options;
    readonly wants = "newest";
    readonly shown: string;
    constructor(options: WitnessOptions);
    deliver(notes: readonly Published[], { signal }: Attempt): Promise<number>;
}
export declare class CosignedFile {
    private readonly directory;
    private readonly witness;
    readonly path: string;
    constructor(directory: string, witness: NoteKey);
    /**
     * @returns the checkpoint, or undefined when there is none, or what is there is not one of this log with the
     *   witness's cosignature: then the witness itself tells how far it has seen the log.
     * @throws the system's error when the file cannot be read.
     */
    read(origin: string, log: LogView): Promise<Checkpoint | undefined>;
    /** On return the note is in the place of the one before, on stable storage. A crash leaves one of the two. */
    write(note: string): Promise<void>;
}
