/**
 * One collector a data directory.
 *
 * The lock is SQLite's, on a file of its own: an operating-system lock that goes when its process goes, however
 * that ends, and that holds between containers sharing a volume. Node has no flock; a file with a process id in
 * it lies after a kill -9 or across process namespaces, and a native addon would be one for this line alone.
 *
 * A lock belongs to a file, not to its name. Anyone who removes the name lets a second collector lock a new file. So
 * the first one looks at the name once a second and stops (SegmentLog), and the second one waits for that.
 */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { exists, makeFile, nodeFiles } from '../files.js';
/** `isLocked` shares the lock for an instant; a collector that starts just then must not take it for another. */
const PATIENCE_MS = 250;
/**
 * So long a collector that holds a lock without a name may take to see that, and to end: a second and its last
 * answers.
 */
const NAMELESS_MS = 3000;
/** Another collector holds the directory. */
export class DirectoryInUse extends Error {
    name = 'DirectoryInUse';
}
/** `lock` is no file that a collector made. */
export class LockUnfit extends Error {
    name = 'LockUnfit';
}
/**
 * On return this process alone holds `directory`, until `release` or its end.
 * @throws DirectoryInUse when another one does, LockUnfit.
 */
export function lockDirectory(directory) {
    nodeFiles.makeDirectory(directory);
    const file = lockPath(directory);
    // SQLite would make it with what the umask leaves, and would not say which file it may not open.
    const fault = lockFault(directory);
    if (fault !== undefined)
        throw new LockUnfit(fault);
    const isNew = !exists(file);
    makeFile(file);
    const database = new DatabaseSync(file, { timeout: PATIENCE_MS });
    let held;
    try {
        database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
        held = { path: file, id: nodeFiles.look(file)?.id ?? '' };
    }
    catch (error) {
        database.close();
        if (isLockedError(error)) {
            throw new DirectoryInUse(`${directory} is in use by another collector`, { cause: error });
        }
        throw error;
    }
    if (isNew && exists(path.join(directory, 'ledger'))) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, NAMELESS_MS);
    }
    return { file: held, release: () => database.close() };
}
/** True when a collector holds `directory` now. Needs to read the lock only, and so answers on a snapshot too. */
export function isLocked(directory) {
    const file = lockPath(directory);
    if (!exists(file) || lockFault(directory) !== undefined)
        return false;
    fs.closeSync(fs.openSync(file, 'r'));
    const database = new DatabaseSync(file, { readOnly: true });
    try {
        // Any reading at all takes the shared lock, which the exclusive one shuts out.
        database.prepare('SELECT 1 FROM sqlite_schema').get();
        return false;
    }
    catch (error) {
        if (isLockedError(error))
            return true;
        throw error;
    }
    finally {
        database.close();
    }
}
/** Why no collector can lock what has the name of the lock; undefined when one can. */
export function lockFault(directory) {
    const file = lockPath(directory);
    const found = fs.statSync(file, { throwIfNoEntry: false });
    if (found === undefined || (found.isFile() && found.size === 0))
        return undefined;
    return `${file} is not an empty file, as the lock of a collector is: move it away when no collector runs there`;
}
function lockPath(directory) {
    return path.join(directory, 'lock');
}
function isLockedError(error) {
    return error instanceof Error && error.message.includes('locked');
}
/* Whether a data directory is open to other users of the host than its owner. */
/**
 * Only reported, never changed: a group that may read can be meant, for a back-up. What the collector itself makes in
 * the directory is for its owner alone, whatever the umask.
 * @returns what is wrong and how to fix it, or undefined when nothing is.
 */
export function exposureOf(dataDirectory) {
    // The modes that Node gives on Windows are made up from one read-only bit.
    if (process.platform === 'win32' || (fs.statSync(dataDirectory).mode & 0o077) === 0)
        return undefined;
    return `${dataDirectory} can be entered by other users; it holds patient data: chmod 700`;
}
//# sourceMappingURL=directory-lock.js.map