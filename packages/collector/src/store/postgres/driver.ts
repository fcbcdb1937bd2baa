/** The door of the driver of PostgreSQL: what store/open.ts loads where a log is in a database. */
import type { OpenSharedStore } from '../contract.js';
import type { Address } from './address.js';
import { ReadingConnection } from './connection.js';
import { PostgresAccessLog } from './postgres-access-log.js';
import { PostgresAudit } from './postgres-audit.js';
import { PostgresLog } from './postgres-log.js';
import { PostgresTree } from './postgres-tree.js';
import { PostgresLogKeys } from './schema.js';

export { adoptLog, examineLog, maintainLog, migrateLog, rolesOf } from './administration.js';
export { PostgresKeys } from './postgres-keys.js';
export { PostgresStore } from './postgres-store.js';

/** All on one connection. @throws Unreachable, SchemaUnfit. */
export async function openForReading(address: Address): Promise<OpenSharedStore> {
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
