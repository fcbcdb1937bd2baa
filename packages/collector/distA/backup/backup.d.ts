import { type Checkpoint } from '@clinical-events/protocol/verify';
import { type Copied, type LogCopy } from '../store/contract/copy.js';
/** The directory holds something else than this back-up, or is not the empty one that a restoration needs. */
export declare class DirectoryUnfit extends Error {
    name: string;
}
/** `backup.json`. */
export interface BackupState {
    readonly backup: 2;
    readonly origin: string;
    readonly ledger_id: string;
    /** When the last completed round began; null when none was completed. What was acknowledged by then is there. */
    readonly at: string | null;
    readonly events: number;
    readonly entries: number;
    readonly signed_entries: number;
    readonly last_received_at: string | null;
    /** The segment that the log grew in then: those before it are whole. */
    readonly growing: string | null;
}
/** A log as it is to be backed up. */
export interface BackedUpLog {
    readonly origin: string;
    readonly checkpoint: Checkpoint;
    /** The newest checkpoint, signed. */
    readonly note: string;
    /** Small files by their names in the data directory: public keys, kept and cosigned checkpoints. */
    readonly files: ReadonlyMap<string, Buffer>;
    /** Private keys; none unless they were asked for. */
    readonly signingKeys: ReadonlyMap<string, Buffer>;
    readonly log: LogCopy;
    /** The access log up to its last whole line; undefined when there is none. To be read after `log` was looked at. */
    accessLog(): {
        readonly bytes: number;
        readonly pieces: () => Generator<Uint8Array>;
    } | undefined;
    /** @returns false when there are no API keys. */
    copyKeys(file: string): Promise<boolean>;
}
export interface Round extends Copied {
    readonly state: BackupState;
    /** Where the access log that was there before is kept, when the log's own does not go on from it. */
    readonly accessLogKept: string | undefined;
}
/**
 * @returns undefined when the directory is new or empty.
 * @throws DirectoryUnfit
 */
export declare function readState(directory: string): BackupState | undefined;
/** A link in a back-up could have the log itself written over, or be vouched for with bytes from elsewhere. */
export declare function assertNoLinks(directory: string): void;
/**
 * The newest checkpoint of the back-up, of which nothing is verified; undefined when there is none yet.
 * @throws LogDiffers when it cannot be read.
 */
export declare function checkpointThere(directory: string): Checkpoint | undefined;
/**
 * Nothing is written.
 * @throws DirectoryUnfit when it is that of another log; LogDiffers when it has more, or others, than the log.
 */
export declare function assertGoesOn(directory: string, log: BackedUpLog): void;
/**
 * One round. On return the directory holds all of the log, on stable storage; whatever ends it before, what the
 * directory held before is whole. The caller holds its lock.
 * @param at when the round began.
 */
export declare function backUp(directory: string, from: BackedUpLog, at: string, onProgress: (bytes: number, of: number) => void): Promise<Round>;
