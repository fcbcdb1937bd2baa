import type { Checkpoint } from '@clinical-events/protocol/verify';
import { type EventLog } from '../store/contract/events.js';
import type { TreeReader } from '../store/contract/tree.js';
/** A log, and the directory with its public keys. */
interface SignedLog {
    readonly dataDir: string;
    readonly tree: TreeReader;
    readonly events: EventLog;
}
export interface Exported {
    readonly checkpoint: Checkpoint;
    /** Events that an earlier export had brought. */
    readonly before: number;
    /** Files of tiles and entries that were written. */
    readonly written: number;
}
/**
 * Exports what the newest checkpoint covers.
 * @param directory is made once there is something to export.
 * @param onProgress events exported so far, and of how many.
 * @throws CommandFailure
 */
export declare function exportTiles(log: SignedLog, directory: string, onProgress: (events: number, of: number) => void): Promise<Exported>;
export {};
