/** Opens a log for the collector that writes it. */
import { nodeFiles } from '../files.js';
import type { KeyWriterOptions } from '../privacy/key-directory.js';
import type { Store } from './contract/events.js';
import type { TreeStore } from './contract/tree.js';
import { EmbeddedStore, type EmbeddedStoreOptions } from './embedded/embedded-store.js';
import { TreeFiles } from './embedded/tree-files.js';
import { postgres, type StoreSettings } from './open.js';
import { parseAddress } from './postgres/address.js';
import type { SharedKeyWriter } from './postgres/key-rows.js';
import type { PostgresStore, PostgresStoreOptions } from './postgres/postgres-store.js';

export type { FoundLog, KeysOfLog, OpenedKeys } from './postgres/postgres-store.js';
export type { Encryption, Held, Opened } from './embedded/embedded-store.js';
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
  keyof Store | 'opened' | 'committed' | 'newestOwn' | 'indexStats' | 'actions' | 'keys' | 'keysIn'
>;

/** For a collector among others. Closing it closes its tree. */
export async function openSharedForWriting(
  options: Omit<PostgresStoreOptions, 'address'> & Pick<StoreSettings, 'store'>,
): Promise<PostgresStore> {
  return (await postgres()).PostgresStore.open({ ...options, address: parseAddress(options.store) });
}

/** As KeyWriter.open, of keys in a database. */
export async function openSharedKeys(
  options: Omit<KeyWriterOptions, 'files'>,
  logCluster: string,
): Promise<SharedKeyWriter> {
  return (await postgres()).SharedKeyWriter.open(options, logCluster);
}
