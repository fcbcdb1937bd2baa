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

/** Opens the tree. The caller holds the lock of the data directory. */
export function openTree(dataDir: string): TreeStore {
  return TreeFiles.open(dataDir, nodeFiles);
}

/**
 * Opens the log. The caller holds the lock of the data directory. On return the log is whole, and its index
 * covers it.
 * @throws StoreDamaged if the log is damaged.
 */
export function openForWriting(options: EmbeddedStoreOptions): Promise<WritableStore> {
  return EmbeddedStore.open(options);
}

/** The store of a data directory, with the result of opening it and the statistics of its index. */
export type WritableStore = Pick<
  EmbeddedStore,
  | keyof Store
  | ('opened' | 'committed' | 'newestOwn' | 'indexStats' | 'actions' | 'keys' | 'keysIn' | 'endSegmentOf')
>;

/** Opens a log for a collector among others. Closing it closes its tree. */
export async function openSharedForWriting(store: string, options: SharedStoreOptions): Promise<SharedStore> {
  return (await driverOf(store)).openToWrite(store, options);
}
