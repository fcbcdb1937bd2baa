import type { DatabaseSync } from 'node:sqlite';
export declare function hasSpace(directory: string): boolean;
/** To be asked before SQLite opens the file, which may make its -shm. @throws as SQLite does on a full disk. */
export declare function assertRoomForIndex(file: string): void;
/**
 * On return so many regions of the index, each for 4,096 pages of the -wal, have their blocks. Under the lock for
 * writing no one else changes what is behind the first block, which has its place already.
 */
export declare function fillIndex(database: DatabaseSync, file: string, regions: number): void;
