import { type Checkpoint } from '@clinical-events/protocol/verify';
import { type KeyHistory } from '../../transparency/key-files.js';
import type { TreeReader } from '../../store/contract/tree.js';
export interface SignedCheckpoint {
    /** The signed note. */
    readonly note: string;
    readonly checkpoint: Checkpoint;
}
export interface LogCheckpoints {
    readonly history: KeyHistory;
    readonly newest: SignedCheckpoint;
}
/**
 * The newest checkpoint, and the keys of the log.
 * @returns undefined when nothing was signed yet.
 * @throws CommandFailure when the keys do not follow from each other, or none of them signed the checkpoint.
 */
export declare function newestCheckpoint(dataDir: string, tree: TreeReader): Promise<LogCheckpoints | undefined>;
/**
 * The newest checkpoint that covers so many events and that a witness has cosigned, with the cosignatures of all
 * whose newest one it is.
 * @param warn is told of files that are no such checkpoint.
 */
export declare function newestCosigned(dataDir: string, history: KeyHistory, covering: number, warn: (message: string) => void): SignedCheckpoint | undefined;
/** Who besides the log has signed the note: name and key id, as a verifier key begins. Nothing of it is checked. */
export declare function cosigners(note: string, { keys }: Pick<KeyHistory, 'keys'>): string[];
/**
 * How many entries the newest checkpoint says that there are; 0 when there is none that can be read. Nothing of it is
 * verified: for a first look, before the log is read.
 */
export declare function claimedSize(tree: TreeReader): Promise<number>;
/**
 * The end of the log looks the same where the disk has lost it; a checkpoint knows how far it went.
 * @param claimed what {@link claimedSize} said before the log was read.
 * @throws CommandFailure when fewer entries can be read.
 */
export declare function assertReaches(entries: number, claimed: number): void;
/** @throws when the note is not one of this log, in words that follow a colon. */
export declare function checkpointIn(note: string, { keys, origin }: Pick<KeyHistory, 'keys' | 'origin'>): Checkpoint;
