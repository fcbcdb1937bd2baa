/**
 * The one place that names a driver. Everybody else opens a store here and knows its contracts; what is about a host that
 * keeps the store in files of its own stands below, and nothing else of them is known outside of the driver.
 */
import { nodeFiles } from '../files.js';
import type { AccessLogStore, EventLog, TreeReader, TreeStore } from './contract.js';
import { AccessLogFile } from './embedded/access-log-file.js';
import { EmbeddedStore, type EmbeddedStoreOptions } from './embedded/embedded-store.js';
import { LogReader } from './embedded/log-reader.js';
import { TreeFiles } from './embedded/tree-files.js';

/** What is stored in a data directory, for reading, beside a collector or without one. */
export interface OpenStore {
  /** To be closed by anyone who has read events or looked for some. */
  readonly events: EventLog;
  /** To be closed by anyone who has read hashes. */
  readonly tree: TreeReader;
  readonly accessLog: AccessLogStore;
}

/** Nothing is read before it is asked for, and nothing is written. */
export function openStore(dataDir: string): OpenStore {
  return {
    events: new LogReader(dataDir, nodeFiles),
    tree: TreeFiles.read(dataDir, nodeFiles),
    accessLog: new AccessLogFile(dataDir),
  };
}

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
  'opened' | 'committed' | 'newestOwn' | 'append' | 'look' | 'prove' | 'indexStats' | 'close'
>;
export type { Held, Opened } from './embedded/embedded-store.js';
export type { IdIndexStats } from './embedded/id-index/id-index.js';

/** The lock, the keys and the rights of a data directory. */
export {
  DirectoryInUse,
  isLocked,
  lockDirectory,
  lockFault,
  LockUnfit,
  type DirectoryLock,
} from './embedded/directory-lock.js';
export { exposureOf } from './embedded/directory-lock.js';
export { KeyDatabase, keyDatabasePath } from './embedded/key-database.js';
/** Where commands append their lines, and where checkpoints lie. */
export { accessLogPath } from './embedded/access-log-file.js';
export { checkpointDirectory } from './embedded/tree-files.js';

/** For a copy of the access log: its bytes up to the last whole line; undefined when there is none. */
export function copiedAccessLog(dataDir: string): ReturnType<AccessLogFile['copy']> {
  return new AccessLogFile(dataDir).copy();
}

/** For `doctor`, `verify` and back-ups. */
export { indexState, type IndexState } from './embedded/id-index/index-state.js';
export { LogReading as LogAudit } from './embedded/whole-log-audit.js';
export { copiedLog } from './embedded/log-copy.js';
