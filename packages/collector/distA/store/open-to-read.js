/** Opens a log for reading: one in files, and one in a database. */
import { nodeFiles } from '../files.js';
import { Inbox } from './embedded/inbox.js';
import { LogReader } from './embedded/log-reader.js';
import { TreeFiles } from './embedded/tree-files.js';
import { notesKeys, readKeyPlaces } from './key-places.js';
import { openAccessLog } from './open-access-log.js';
import { driverOf, isShared } from './open.js';
/** Where checkpoints lie. */
export { checkpointDirectory } from './embedded/tree-files.js';
/** Nothing is made or read before it is asked for, and nothing is written. */
export function openStore(dataDir) {
    const made = {};
    return {
        get events() {
            return (made.events ??= new LogReader(dataDir, nodeFiles));
        },
        get tree() {
            return (made.tree ??= TreeFiles.read(dataDir, nodeFiles));
        },
        get accessLog() {
            return (made.accessLog ??= openAccessLog(dataDir));
        },
        get requests() {
            return (made.requests ??= new Inbox(dataDir));
        },
    };
}
/**
 * @param keys where those of its payloads are; without them what is encrypted stays closed.
 * @throws when the database cannot be reached, or holds no log that this collector can read; KeysUnfit, KekFault.
 */
export async function openSharedStore({ store }, keys) {
    return (await driverOf(store)).openToRead(store, keys);
}
/** The same for the time of `work`, with a directory of what is public of the log, as a data directory has it. */
export async function withSharedView({ store, dataDir }, work) {
    return (await driverOf(store)).withView(store, sharedKeyPlaces(dataDir), work);
}
/** Where the keys of a log in a database are, as a collector has noted in its data directory; undefined where none has. */
export function sharedKeyPlaces(dataDir) {
    if (!notesKeys(dataDir))
        return undefined;
    const places = readKeyPlaces(dataDir);
    return places.directories.some((store) => isShared({ store })) ? places : undefined;
}
/** What a mirror asks of the collectors of its log. @throws when the database cannot be reached, or holds no log. */
export async function openSharedRequests({ store }) {
    return (await driverOf(store)).openRequests(store);
}
//# sourceMappingURL=open-to-read.js.map