import { type TreeReader, type TreeStore } from '../contract/tree.js';
import type { Files } from '../../files.js';
/** Where the checkpoints of a data directory are. */
export declare function checkpointDirectory(dataDirectory: string): string;
export declare class TreeFiles implements TreeStore {
    #private;
    private readonly writable;
    private constructor();
    /** For the one process that holds the directory's lock. */
    static open(dataDirectory: string, files: Files): TreeFiles;
    /** For reading only, beside a collector too; nothing is made. */
    static read(dataDirectory: string, files: Files): TreeReader;
    hashes(level: number, first: number, count: number): Promise<Buffer>;
    hashCount(level: number): Promise<number>;
    put(level: number, first: number, hashes: Buffer): Promise<void>;
    flush(): Promise<void>;
    head(): Promise<string | undefined>;
    /** The lock on the directory keeps a second sequencer away, so nothing comes between the look and the swap. */
    swapHead(expected: string | undefined, note: string, keptSize?: number): Promise<void>;
    close(): Promise<void>;
}
