/** Opens a log for the collector that writes it. */
import { nodeFiles } from '../files.js';
import { EmbeddedStore } from './embedded/embedded-store.js';
import { TreeFiles } from './embedded/tree-files.js';
import { driverOf } from './open.js';
/** For the one process that holds the directory's lock. */
export function openTree(dataDir) {
    return TreeFiles.open(dataDir, nodeFiles);
}
/**
 * For the one process that holds the directory's lock. On return the log is whole, and its index covers all of it.
 * @throws StoreDamaged when the log does not hold what was written to it.
 */
export function openForWriting(options) {
    return EmbeddedStore.open(options);
}
/** For a collector among others. Closing it closes its tree. */
export async function openSharedForWriting(store, options) {
    return (await driverOf(store)).openToWrite(store, options);
}
//# sourceMappingURL=open-to-write.js.map