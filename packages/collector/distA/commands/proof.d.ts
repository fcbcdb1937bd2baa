import { Command } from 'commander';
import { type StoredEntry } from '../store/contract/events.js';
import { type SignedCheckpoint } from './verify/log-checkpoints.js';
export interface EventProof {
    readonly event: StoredEntry;
    /** The proof file. */
    readonly proof: string;
    readonly checkpoint: SignedCheckpoint;
    /** The key of the log that signed the checkpoint. */
    readonly verifierKey: string;
    /** Who else has, by name and key id. */
    readonly cosignedBy: readonly string[];
}
/**
 * Waits for the collector, if one runs, to sign a checkpoint when none covers the event yet.
 * @param eventId lower-case text form.
 * @throws CommandFailure when there is no such event, more than one, or no proof of it that holds.
 */
export declare function proveEvent(dataDir: string, eventId: string, organisation?: string): Promise<EventProof>;
export declare function command(): Command;
