/**
 * The one place that names a driver. Everybody else opens a store here and knows its contracts; what is about a host that
 * keeps the store in files of its own stands below, and nothing else of them is known outside of the driver.
 */
import { nodeFiles } from '../files.js';
import type {
  AccessLogStore,
  EventLog,
  KeyStore,
  LocalAccessLog,
  SharedKeys,
  Store,
  StoreFinding,
  TreeReader,
  TreeStore,
} from './contract.js';
import type { AuditedLog, AuditedRoots, AuditOptions, FindingList, HeadListener } from './log-audit.js';
import { AccessLogFile, readingsLogPath } from './embedded/access-log-file.js';
import { EmbeddedStore, type EmbeddedStoreOptions } from './embedded/embedded-store.js';
import { LogReader } from './embedded/log-reader.js';
import { KeyDatabase } from './embedded/key-database.js';
import { TreeFiles } from './embedded/tree-files.js';
import { AddressFault, describeAddress, isPostgres, parseAddress } from './postgres/address.js';
import { ReadingConnection } from './postgres/connection.js';
import {
  adoptLog,
  examineLog,
  maintainLog,
  migrateLog,
  type Migrated,
  rolesOf,
} from './postgres/administration.js';
import { PostgresAccessLog } from './postgres/postgres-access-log.js';
import { PostgresAudit } from './postgres/postgres-audit.js';
import { PostgresKeys } from './postgres/postgres-keys.js';
import { PostgresLog } from './postgres/postgres-log.js';
import { PostgresStore, type PostgresStoreOptions } from './postgres/postgres-store.js';
import { PostgresTree } from './postgres/postgres-tree.js';
import { PostgresLogKeys } from './postgres/schema.js';

/** Batches of one collector that are on their way at a time: more than one hide the round trips of the others. */
const LANES = 4;

/** What is stored in a data directory, for reading, beside a collector or without one. */
export interface OpenStore {
  /** To be closed by anyone who has read events or looked for some. */
  readonly events: EventLog;
  /** To be closed by anyone who has read hashes. */
  readonly tree: TreeReader;
  readonly accessLog: AccessLogStore;
}

export interface OpenDirectory extends OpenStore {
  readonly accessLog: LocalAccessLog;
}

/** Nothing is read before it is asked for, and nothing is written. */
export function openStore(dataDir: string): OpenDirectory {
  return {
    events: new LogReader(dataDir, nodeFiles),
    tree: TreeFiles.read(dataDir, nodeFiles),
    accessLog: new AccessLogFile(dataDir),
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

/** Of a log that several collectors write to. */
export interface OpenSharedStore extends OpenStore {
  readonly publicKeys: SharedKeys;
  /** Checkpoints that stay when newer ones come, by their size. */
  checkpoints(): Promise<{ readonly size: number; readonly note: string }[]>;
  /** The reading of the whole log for `verify`. @param onProgress see AuditOptions. */
  audit(
    signed: AuditedRoots,
    accessLog: HeadListener,
    onProgress: AuditOptions['onProgress'],
  ): { tell(findings: FindingList): Promise<AuditedLog> };
  /** To be called once. */
  close(): Promise<void>;
}

/** @throws when the database cannot be reached, or holds no log that this collector can read. */
export async function openSharedStore({ store }: Pick<StoreSettings, 'store'>): Promise<OpenSharedStore> {
  const address = parseAddress(store);
  const connection = new ReadingConnection(address, 'reading');
  const events = await PostgresLog.open(address, connection);
  const accessLog = new PostgresAccessLog(connection);
  const tree = new PostgresTree(connection);
  const publicKeys = new PostgresLogKeys(connection);
  return {
    ...{ events, tree, accessLog, publicKeys },
    checkpoints: () => tree.checkpoints(),
    audit: (signed, heads, onProgress) => new PostgresAudit(connection, tree, signed, heads, onProgress),
    close: () => connection.close(),
  };
}

export type { FoundLog } from './postgres/postgres-store.js';

export interface StoreAdministration {
  /** @param durability of a log that is begun. */
  migrate(durability?: 'replicated' | 'local'): Promise<Migrated>;
  /** The SQL of the roles. */
  roles(): string;
  /** On return there are partitions for a year. @returns how many months were added. */
  maintain(): Promise<number>;
  /** On return the log belongs to the database cluster that it is on now. */
  adopt(): Promise<void>;
  examine(): Promise<StoreFinding[]>;
}

/** For the people who look after the database. */
export function storeAdministration(store: string): StoreAdministration {
  const address = parseAddress(store);
  return {
    migrate: (durability) => migrateLog(address, durability),
    roles: () => rolesOf(address),
    maintain: () => maintainLog(address),
    adopt: () => adoptLog(address),
    examine: () => examineLog(address),
  };
}

/** For a collector among others. Closing it closes its tree. */
export async function openSharedForWriting(
  options: Omit<PostgresStoreOptions, 'address' | 'lanes'> & Pick<StoreSettings, 'store'>,
): Promise<PostgresStore> {
  return PostgresStore.open({ ...options, address: parseAddress(options.store), lanes: LANES });
}

/** API keys, for writing. */
export function openKeys(settings: StoreSettings): KeyStore {
  return isShared(settings)
    ? new PostgresKeys(parseAddress(settings.store))
    : KeyDatabase.open(settings.dataDir);
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
  keyof Store | 'opened' | 'committed' | 'newestOwn' | 'indexStats'
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
export { accessLogPath, readingsLogPath } from './embedded/access-log-file.js';
export { checkpointDirectory } from './embedded/tree-files.js';

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
export { copiedLog } from './embedded/log-copy.js';
