import { DatabaseSync } from 'node:sqlite';
/**
 * SQLite reads a file in WAL mode only with its -wal and -shm beside it, and makes these when they are not there.
 * Both are there while a collector runs and after a crash. Neither is after an orderly end: nothing has the file open
 * then, and it may be taken for one that does not change. (The hole: a command that opens, writes and closes it within
 * the same milliseconds can make it look damaged.) A copy may hold the -wal alone, with changes that the file lacks:
 * these are read from a copy of both, for this user alone, whose names are gone on return.
 */
export declare function openWithoutWriting(file: string): DatabaseSync;
