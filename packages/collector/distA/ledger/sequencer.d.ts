import type { CheckpointSigner } from '../integrity/note-signing.js';
import { type Committed } from '../store/contract/events.js';
import { type TreeStore } from '../store/contract/tree.js';
import { CheckpointContradicted } from './signed-tree.js';
export interface SequencerOptions {
    readonly store: TreeStore;
    readonly signer: CheckpointSigner;
    readonly committed: Committed;
    /** A checkpoint that an earlier process has seen, of a store that may have gone back since. */
    readonly known?: string | undefined;
    /** Milliseconds between two checkpoints while entries come. */
    readonly intervalMs: number;
    /**
     * This is the newest checkpoint now: the one found at the start, in case the process before ended before it was
     * given out everywhere, and each new one. No one waits for what this does.
     */
    readonly onCheckpoint: (note: string) => void;
    /** No checkpoint could be made; it is tried again, and events are stored meanwhile. */
    readonly onTrouble: (what: string, error: unknown) => void;
    /** Called after each try to make a checkpoint: how it failed, or nothing when none is owed any more. */
    readonly onTried?: (failure?: {
        readonly error: unknown;
    }) => void;
    /** The log is not the one that was signed. Nothing is signed from now on; events are stored. */
    readonly onForked?: (error: CheckpointContradicted) => void;
    readonly now?: () => number;
}
export declare class Sequencer {
    #private;
    private constructor();
    /**
     * On return the tree holds every entry of the log, and a checkpoint over all of them is signed, unless the signer
     * cannot sign now. The very first checkpoint, of the empty tree, has to be signed: without it no one could tell a
     * ledger whose checkpoints were taken away from a new one.
     * @throws CheckpointContradicted when the log holds less or something else than the newest checkpoint says.
     */
    static open(options: SequencerOptions): Promise<Sequencer>;
    /** Sequences what is durable by now, and keeps the checkpoint. On return the tree is closed. Never rejects. */
    close(): Promise<void>;
}
