/** The door of the driver of PostgreSQL: what store/open.ts loads where a log is in a database. */
import type { OpenSharedStore } from '../contract/opened.js';
import type { SharedRequests } from '../contract/requests.js';
import type { KeyPlaces } from '../../privacy/key-directory.js';
import type { Address } from './address.js';
import { HoldRecordRows, RequestRows } from './action-rows.js';
import { ReadingConnection } from './connection.js';
import { SharedKeyReader } from './key-rows.js';
import { PostgresAccessLog } from './postgres-access-log.js';
import { PostgresAudit } from './postgres-audit.js';
import { PostgresLog } from './postgres-log.js';
import { PostgresTree } from './postgres-tree.js';
import { PostgresLogKeys, readLog } from './schema.js';

const READING = { forWriting: false };

export { adoptLog, examineLog, maintainLog, migrateLog, rolesOf } from './administration.js';
export { quarantineLog } from './quarantine.js';
export { SharedKeyWriter } from './key-rows.js';
export { PostgresKeys } from './postgres-keys.js';
export { PostgresStore } from './postgres-store.js';

/** @throws Unreachable, SchemaUnfit. */
export async function openRequests(address: Address): Promise<SharedRequests> {
  const connection = new ReadingConnection(address, 'requests');
  const { ledgerId } = await readLog(connection, READING);
  const [requests, holdRecords] = [new RequestRows(connection), new HoldRecordRows(connection)];
  return { ledgerId, requests, holdRecords, close: () => connection.close() };
}

/**
 * All on one connection.
 * @param places where the keys of its payloads are, where these are to be opened.
 * @throws Unreachable, SchemaUnfit, KeysUnfit.
 */
export async function openForReading(address: Address, places?: KeyPlaces): Promise<OpenSharedStore> {
  const connection = new ReadingConnection(address, 'reading');
  const { systemId, encryptionKeys } = await readLog(connection, READING);
  const keys = places && (await SharedKeyReader.open(places, systemId));
  const events = await PostgresLog.open(address, connection, keys);
  const accessLog = new PostgresAccessLog(connection);
  const tree = new PostgresTree(connection);
  const publicKeys = new PostgresLogKeys(connection);
  return {
    ...{ events, tree, accessLog, publicKeys, encryptionKeys },
    namesKey: () => keys?.stored.namesKey(),
    holdRecords: new HoldRecordRows(connection),
    checkpoints: () => tree.checkpoints(),
    audit: (signed, heads, options) => new PostgresAudit(connection, tree, signed, heads, options, keys),
    async close() {
      await connection.close();
      await keys?.close();
    },
  };
}
