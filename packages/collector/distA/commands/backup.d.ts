import { Command } from 'commander';
import { type BackedUpLog } from '../backup/backup.js';
export interface BackupSourceOptions {
    readonly dataDir: string;
    /** Directory of the private keys that are to be copied too; undefined when they are not. */
    readonly signingKeys: string | undefined;
    /** How many entries the newest checkpoint of the back-up covers; 0 when there is none yet. */
    readonly agreed: number;
    /** Told of what is left out because it is not sound, and can be done without. */
    readonly warn: (message: string) => void;
}
/**
 * What is there now. On return all of it is on stable storage.
 * @throws CommandFailure, StoreDamaged, SigningKeyFault
 */
export declare function backedUpLog(options: BackupSourceOptions): Promise<BackedUpLog>;
/** @returns false when there are none. */
export declare function copyKeys(dataDir: string, file: string): Promise<boolean>;
export declare function command(): Command;
/** A copy inside of what is copied is none. */
export declare function assertApart(directory: string, other: string, what: string): void;
/** As far as it is there. */
export declare function real(directory: string): string;
/** On a file system, in a quota, or under a limit. */
export declare function isNoRoom(error: unknown): boolean;
