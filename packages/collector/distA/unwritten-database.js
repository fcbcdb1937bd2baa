/** Opens an SQLite file, beside a process that writes it or without one, and writes nothing beside it. */
import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { assertRoomForIndex } from './shared-index.js';
const BUSY_TIMEOUT_MS = 5_000;
/**
 * SQLITE_IOERR, SQLITE_FULL, SQLITE_CANTOPEN and SQLITE_PROTOCOL, without their extended parts: of a -shm that cannot be
 * used as it stands, and cannot be changed.
 */
const SHARED_CODES = [10, 13, 14, 15];
/**
 * SQLite reads a file in WAL mode only with its -wal and -shm beside it, and makes these when they are not there.
 * Both are there while a collector runs and after a crash. Neither is after an orderly end: nothing has the file open
 * then, and it may be taken for one that does not change. (The hole: a command that opens, writes and closes it within
 * the same milliseconds can make it look damaged.) A copy may hold the -wal alone, with changes that the file lacks:
 * these are read from a copy of both, for this user alone, whose names are gone on return.
 */
export function openWithoutWriting(file) {
    const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
    const shared = statSync(`${file}-shm`, { throwIfNoEntry: false });
    if (log !== undefined && shared !== undefined) {
        let database;
        try {
            assertRoomForIndex(file);
            database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
            look(database);
            return database;
        }
        catch (error) {
            database?.close();
            // After a crash, or a start that failed, the -shm may have to grow first, and a full disk does not let it. One
            // that was copied beside a writer may not fit the -wal.
            const code = error?.errcode;
            if (typeof code !== 'number' || !SHARED_CODES.includes(code & 0xff))
                throw error;
        }
    }
    if (log === undefined || log.size === 0) {
        const url = pathToFileURL(file);
        url.search = '?immutable=1';
        return new DatabaseSync(url, { readOnly: true });
    }
    const directory = mkdtempSync(path.join(os.tmpdir(), 'collector-database-'));
    try {
        const copy = path.join(directory, path.basename(file));
        copyFileSync(file, copy);
        copyFileSync(`${file}-wal`, `${copy}-wal`);
        assertRoomForIndex(copy);
        const database = new DatabaseSync(copy, { readOnly: true });
        // The first reading opens the -wal and the -shm; open files outlive their names.
        look(database);
        return database;
    }
    finally {
        rmSync(directory, { recursive: true, force: true });
    }
}
function look(database) {
    database.prepare('PRAGMA user_version').get();
}
//# sourceMappingURL=unwritten-database.js.map