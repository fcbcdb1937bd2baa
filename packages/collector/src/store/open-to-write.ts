/** Opens a log for the collector that writes it. */
import { nodeFiles } from '../files.js';
import type { SharedStore, SharedStoreOptions } from './contract/driver.js';
import type { Store } from './contract/events.js';
import type { TreeStore } from './contract/tree.js';
import { EmbeddedStore, type EmbeddedStoreOptions } from './embedded/embedded-store.js';
import { TreeFiles } from './embedded/tree-files.js';
import { driverOf } from './open.js';

export type { Encryption, Held, Opened } from './embedded/embedded-store.js';
export { BackgroundCompaction } from './embedded/background-compaction.js';
export type { IdIndexStats } from './embedded/id-index/id-index.js';

/** For the one process that holds the directory's lock. */
export function openTree(dataDir: string): TreeStore {
  return TreeFiles.open(dataDir, nodeFiles);
}

/**
 * For the one process that holds the directory's lock. On return the log is whole, and its index covers all of it.
 * @throws StoreDamaged when the log does not hold what was written to it.
 */
export function openForWriting(options: EmbeddedStoreOptions): Promise<WritableStore> {
  return EmbeddedStore.open(options);
}

/** With what it found when it was opened, and how its index fares. */
export type WritableStore = Pick<
  EmbeddedStore,
  | keyof Store
  | ('opened' | 'committed' | 'newestOwn' | 'indexStats' | 'actions' | 'keys' | 'keysIn' | 'endSegmentOf')
>;

/** For a collector among others. Closing it closes its tree. */
export async function openSharedForWriting(store: string, options: SharedStoreOptions): Promise<SharedStore> {
  return (await driverOf(store)).openToWrite(store, options);
}
