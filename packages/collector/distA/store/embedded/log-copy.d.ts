import { type LogCopy } from '../contract/copy.js';
/**
 * The part of the log that can be read. On return all of it is on stable storage.
 * @param signed how many entries its newest checkpoint covers.
 * @param agreed how many entries the newest checkpoint of the copy covers; 0 when there is no copy yet.
 * @returns undefined when there is no log.
 * @throws StoreDamaged
 */
export declare function copiedLog(dataDir: string, signed: number, agreed: number): LogCopy | undefined;
