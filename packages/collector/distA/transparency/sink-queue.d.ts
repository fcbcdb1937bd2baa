import { type Checkpoint } from '@clinical-events/protocol/verify';
import { type HashSource } from '../integrity/merkle.js';
import { type NoteKey } from '../integrity/note-signing.js';
import { type Published, type Sink, SinkTrouble } from './sink.js';
import type { SinkState } from './state-files.js';
/** The log as far as its checkpoints need it. */
export interface LogView {
    /** The root of the ledger's tree, at least up to the newest checkpoint. Rejects with a {@link SinkTrouble}. */
    readonly rootAt: (size: number) => Promise<Uint8Array>;
    /** How many entries the ledger holds now, those under no checkpoint yet among them. */
    readonly entries: () => number;
    /** Every key that may have signed a checkpoint of this log. */
    readonly logKeys: () => readonly NoteKey[];
}
/** @throws NoteMalformed. No signature is checked. */
export declare function checkpointOf(note: string): Checkpoint;
/** @returns the checkpoint in the note if it is one of this log and signed by its key, else undefined. */
export declare function ownCheckpoint(note: string, origin: string, { logKeys }: LogView): Checkpoint | undefined;
/**
 * @returns the name of another log, when the note is a checkpoint that says to be of one; fit to be shown on a
 *   terminal. Its signature is not checked: there is no key of that log to check it by.
 */
export declare function otherLog(note: string, origin: string): string | undefined;
/**
 * Returns when the log, whose newest checkpoint is `newest`, goes on from the tree that `held` speaks of.
 * @param held an own checkpoint.
 * @param where it was found, for the message.
 * @throws {@link SinkForked} when it does not, {@link SinkTrouble} when the tree cannot tell.
 */
export declare function assertGoesOnFrom(held: Checkpoint, newest: Checkpoint, where: string, log: LogView): Promise<void>;
/** How many entries the ledger holds, which are more than its newest checkpoint covers while some wait for the next. */
export declare function sizeOf({ entries }: LogView, newest: Checkpoint): number;
/** @throws {@link SinkTrouble} when the tree lacks hashes. */
export declare function rootIn(tiles: HashSource, size: number): Promise<Buffer>;
/** What to report when the tree cannot give a root or a proof. */
export declare function treeTrouble(error: unknown): SinkTrouble;
/** Times in milliseconds. */
export interface RetryPolicy {
    /** Between the first failure and the next try; doubles from failure to failure. */
    readonly firstMs: number;
    readonly mostMs: number;
    /** For a try, or for a stretch of a long one. */
    readonly tryMs: number;
}
export interface SinkQueueOptions {
    readonly retryPolicy: RetryPolicy;
    /** What the last collector left. */
    readonly before: SinkState | undefined;
    readonly now: () => number;
    /** Told when trouble begins, and when it becomes another. */
    readonly onTrouble: (message: string) => void;
    /** Told instead when the sink has seen a checkpoint of this log that the ledger does not agree with. */
    readonly onForked: (message: string) => void;
    /** Told once of each other log whose checkpoints lie in the same place; the sink is used all the same. */
    readonly onShared: (origin: string) => void;
    /** Told each time that something is gone which the sink had taken; it is used all the same. */
    readonly onLost: () => void;
    readonly onRecovered: () => void;
    /** @param changed whether it is more than that one more checkpoint was delivered. */
    readonly onState: (changed: boolean) => void;
}
/**
 * One sink, and what waits for it.
 *
 * Invariants: one try is under way at most, also when its time is up, because a call to a disk cannot be taken back;
 * what is delivered leaves the queue, and what fails stays in its place; the newest is never dropped.
 */
export declare class SinkQueue {
    #private;
    private readonly sink;
    private readonly options;
    constructor(sink: Sink, options: SinkQueueOptions);
    /** Undefined before the first try has come to something. */
    get state(): SinkState | undefined;
    /** Checkpoints that are not delivered yet. */
    get waiting(): number;
    /** Never throws and never waits. */
    offer(published: Published): void;
    /** Resolves when the sink has everything, or has failed once more. Nothing is taken any more. */
    close(): Promise<void>;
    /** Gives up what is under way or waits. Nothing is told any more, but the state says so. */
    abandon(): void;
}
