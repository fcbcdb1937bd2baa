/**
 * The one place that names a driver. Everybody else opens a store here and knows its contracts; what is about a host that
 * keeps the store in files of its own stands below, and nothing else of them is known outside of the driver.
 */
import { nodeFiles } from '../files.js';
import type {
  KeyStore,
  LocalAccessLog,
  OpenSharedStore,
  OpenStore,
  Quarantine,
  Requests,
  SharedRequests,
  Store,
  StoreFinding,
  TreeStore,
} from './contract.js';
import { AccessLogFile, readingsLogPath } from './embedded/access-log-file.js';
import { EmbeddedStore, type EmbeddedStoreOptions } from './embedded/embedded-store.js';
import { Inbox } from './embedded/inbox.js';
import { LogReader } from './embedded/log-reader.js';
import { KeyDatabase } from './embedded/key-database.js';
import { notesKeys, readKeyPlaces } from './embedded/key-places.js';
import type { KeyPlaces, KeyWriterOptions } from '../privacy/key-directory.js';
import { TreeFiles } from './embedded/tree-files.js';
import { AddressFault, describeAddress, isPostgres, parseAddress } from './postgres/address.js';
import type { Maintained, Migrated } from './postgres/administration.js';
import type { SharedKeyWriter } from './postgres/key-rows.js';
import type { QuarantineOptions } from './postgres/quarantine.js';
import type { PostgresStore, PostgresStoreOptions } from './postgres/postgres-store.js';

/** Loaded where a log is in a database: its library takes longer to load than most commands run. */
const postgres = () => import('./postgres/driver.js');

export interface OpenDirectory extends OpenStore {
  readonly accessLog: LocalAccessLog;
  readonly requests: Requests;
}

/** Nothing is read before it is asked for, and nothing is written. */
export function openStore(dataDir: string): OpenDirectory {
  return {
    events: new LogReader(dataDir, nodeFiles),
    tree: TreeFiles.read(dataDir, nodeFiles),
    accessLog: new AccessLogFile(dataDir),
    requests: new Inbox(dataDir),
  };
}

/** Where a log is: in a data directory, or in a database where `store` is not empty. */
export interface StoreSettings {
  readonly dataDir: string;
  readonly store: string;
}

/** Why this is no place of a log; undefined when it is one, or empty. */
export function storeFault(store: string): string | undefined {
  if (store === '') return undefined;
  try {
    parseAddress(store);
    return undefined;
  } catch (error) {
    if (!(error instanceof AddressFault)) throw error;
    return error.message;
  }
}

/** For messages: where the log is. */
export function describeStore({ dataDir, store }: StoreSettings): string {
  return store === '' ? dataDir : describeAddress(parseAddress(store));
}

/** Whether the log is in a database, and its data directory holds only what one collector keeps for itself. */
export function isShared({ store }: Pick<StoreSettings, 'store'>): boolean {
  return isPostgres(store);
}

/**
 * @param keys where those of its payloads are; without them what is encrypted stays closed.
 * @throws when the database cannot be reached, or holds no log that this collector can read; KeysUnfit, KekFault.
 */
export async function openSharedStore(
  { store }: Pick<StoreSettings, 'store'>,
  keys?: KeyPlaces,
): Promise<OpenSharedStore> {
  return (await postgres()).openForReading(parseAddress(store), keys);
}

/** Where the keys of a log in a database are, as a collector has noted in its data directory; undefined where none has. */
export function sharedKeyPlaces(dataDir: string): KeyPlaces | undefined {
  if (!notesKeys(dataDir)) return undefined;
  const places = readKeyPlaces(dataDir);
  return places.directories.some(isPostgres) ? places : undefined;
}

/** What a mirror asks of the collectors of its log. @throws when the database cannot be reached, or holds no log. */
export async function openSharedRequests({ store }: Pick<StoreSettings, 'store'>): Promise<SharedRequests> {
  return (await postgres()).openRequests(parseAddress(store));
}

/** As KeyWriter.open, of keys in a database. */
export async function openSharedKeys(
  options: Omit<KeyWriterOptions, 'files'>,
  logCluster: string,
): Promise<SharedKeyWriter> {
  return (await postgres()).SharedKeyWriter.open(options, logCluster);
}

export type { FoundLog, KeysOfLog, OpenedKeys } from './postgres/postgres-store.js';

export type { OpenSharedStore } from './contract.js';

export interface StoreAdministration {
  /** @param durability of a log that is begun. */
  migrate(durability?: 'replicated' | 'local'): Promise<Migrated>;
  /** The SQL of the roles. */
  roles(): Promise<string>;
  /** On return there are partitions for a year, and no payload is left whose key is destroyed. */
  maintain(): Promise<Maintained>;
  /** On return the log belongs to the database cluster that it is on now. */
  adopt(): Promise<void>;
  examine(): Promise<StoreFinding[]>;
  /** On return what no collector has stored is moved out of the way, unless that is only to be said. */
  quarantine(options: QuarantineOptions): Promise<Quarantine>;
}

/** For the people who look after the database. */
export function storeAdministration(store: string): StoreAdministration {
  const address = parseAddress(store);
  return {
    migrate: async (durability) => (await postgres()).migrateLog(address, durability),
    roles: async () => (await postgres()).rolesOf(address),
    maintain: async () => (await postgres()).maintainLog(address),
    adopt: async () => (await postgres()).adoptLog(address),
    examine: async () => (await postgres()).examineLog(address),
    quarantine: async (options) => (await postgres()).quarantineLog(address, options),
  };
}

/** For a collector among others. Closing it closes its tree. */
export async function openSharedForWriting(
  options: Omit<PostgresStoreOptions, 'address'> & Pick<StoreSettings, 'store'>,
): Promise<PostgresStore> {
  return (await postgres()).PostgresStore.open({ ...options, address: parseAddress(options.store) });
}

/** API keys, for writing. */
export async function openKeys(settings: StoreSettings): Promise<KeyStore> {
  if (!isShared(settings)) return KeyDatabase.open(settings.dataDir);
  const { PostgresKeys } = await postgres();
  return new PostgresKeys(parseAddress(settings.store));
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
  keyof Store | 'opened' | 'committed' | 'newestOwn' | 'indexStats' | 'actions' | 'keys' | 'keysIn'
>;
export type { Encryption, Held, Opened } from './embedded/embedded-store.js';
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
export { accessLogPath, readingsLogPath } from './embedded/access-log-file.js';
export { checkpointDirectory } from './embedded/tree-files.js';
/** Where the keys of its payloads are. */
export { begunKeys, noteBegunKeys, noteKeyPlaces, notesKeys, readKeyPlaces } from './embedded/key-places.js';

/** Where a mirror logs who reads on it: its access log is a copy. */
export function openReadingsLog(dataDir: string): LocalAccessLog {
  return new AccessLogFile(dataDir, readingsLogPath(dataDir));
}

/** For a copy of the access log: its bytes up to the last whole line; undefined when there is none. */
export function copiedAccessLog(dataDir: string): ReturnType<AccessLogFile['copy']> {
  return new AccessLogFile(dataDir).copy();
}

/** For `doctor`, `verify` and back-ups. */
export { indexState, type IndexState } from './embedded/id-index/index-state.js';
export { LogReading as LogAudit } from './embedded/whole-log-audit.js';
export { compactLog, type Compacted } from './embedded/compacted-segment.js';
export { copiedLog } from './embedded/log-copy.js';
