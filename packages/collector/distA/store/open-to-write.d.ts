import type { SharedStore, SharedStoreOptions } from './contract/driver.js';
import type { Store } from './contract/events.js';
import type { TreeStore } from './contract/tree.js';
import { EmbeddedStore, type EmbeddedStoreOptions } from './embedded/embedded-store.js';
export type { Encryption, Held, Opened } from './embedded/embedded-store.js';
export type { IdIndexStats } from './embedded/id-index/id-index.js';
/** For the one process that holds the directory's lock. */
export declare function openTree(dataDir: string): TreeStore;
/**
 * For the one process that holds the directory's lock. On return the log is whole, and its index covers all of it.
 * @throws StoreDamaged when the log does not hold what was written to it.
 */
export declare function openForWriting(options: EmbeddedStoreOptions): Promise<WritableStore>;
/** With what it found when it was opened, and how its index fares. */
export type WritableStore = Pick<EmbeddedStore, keyof Store | 'opened' | 'committed' | 'newestOwn' | 'indexStats' | 'actions' | 'keys' | 'keysIn'>;
/** For a collector among others. Closing it closes its tree. */
export declare function openSharedForWriting(store: string, options: SharedStoreOptions): Promise<SharedStore>;
