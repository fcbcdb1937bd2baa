/** The PostgreSQL driver, which the collector loads for a log in a database. */
import type { SharedStoreOptions, StoreDriver } from '@clinical-events/collector/store/contract/driver';
import type { OpenSharedStore } from '@clinical-events/collector/store/contract/opened';
import type { SharedRequests } from '@clinical-events/collector/store/contract/requests';
import type { KeyPlaces } from '@clinical-events/collector/privacy/key-directories';
import { type Address, addressFault, parseAddress } from './address.js';
import { HoldRecordRows, RequestRows } from './action-rows.js';
import { examineLog } from './administration.js';
import { ReadingConnection } from './connection.js';
import { PostgresEvidence } from './evidence.js';
import { openWrittenKeys, ReadKeys } from './opened-keys.js';
import { PostgresAccessLog } from './postgres-access-log.js';
import { PostgresKeys } from './postgres-keys.js';
import { PostgresLog } from './postgres-log.js';
import { PostgresStore } from './postgres-store.js';
import { PostgresTree } from './postgres-tree.js';
import { PostgresLogKeys, readLog } from './schema.js';
import { openSealKey, publicKeysOf } from './shared-keys.js';
import { withView } from './shared-view.js';

const READING = { forWriting: false };

export const driver: StoreDriver = {
  addressFault,
  openToRead: (address, keys) => openForReading(parseAddress(address), keys),
  withView: async (address, keys, work) => withView(await openForReading(parseAddress(address), keys), work),
  openRequests: (address) => openRequests(parseAddress(address)),
  openToWrite: (address, options) => openForWriting(parseAddress(address), options),
  openKeys: (address) => new PostgresKeys(parseAddress(address)),
  examine: (address) => examineLog(parseAddress(address)),
};

/** @throws Unreachable, SchemaUnfit. */
async function openRequests(address: Address): Promise<SharedRequests> {
  const connection = new ReadingConnection(address, 'requests');
  const { ledgerId, systemId, encryptionKeys = '' } = await readLog(connection, READING);
  const [requests, holdRecords] = [new RequestRows(connection), new HoldRecordRows(connection)];
  return {
    ...{ ledgerId, requests, holdRecords },
    async openHoldKeys(given, kek) {
      const places = { directories: [given || encryptionKeys], kek };
      const { keys, vault } = await openWrittenKeys(
        { places, ledgerId, isNeeded: true, onTrouble: () => undefined, onOpened: () => Promise.resolve() },
        systemId,
      );
      return {
        newHoldKey: (action) => keys.newHoldKey(action),
        destroyHold: (action) => keys.destroyHold(action),
        close: () => vault.close(),
      };
    },
    close: () => connection.close(),
  };
}

/**
 * Opens a log to read, on one connection.
 * @param places of the payload keys; undefined leaves payloads encrypted.
 * @throws Unreachable, SchemaUnfit, KeysUnfit.
 */
export async function openForReading(address: Address, places?: KeyPlaces): Promise<OpenSharedStore> {
  const connection = new ReadingConnection(address, 'reading');
  const { systemId, encryptionKeys } = await readLog(connection, READING);
  const keys = places && (await ReadKeys.open(places, systemId));
  const events = await PostgresLog.open(address, connection, keys);
  const accessLog = new PostgresAccessLog(connection);
  const tree = new PostgresTree(connection);
  const publicKeys = publicKeysOf(new PostgresLogKeys(connection));
  return {
    ...{ events, tree, accessLog, publicKeys, encryptionKeys },
    async storedKeys() {
      await keys?.refresh();
      return keys?.stored;
    },
    holdRecords: new HoldRecordRows(connection),
    checkpoints: () => tree.checkpoints(),
    evidence: () => new PostgresEvidence(connection, keys),
    async close() {
      await connection.close();
      await keys?.close();
    },
  };
}

function openForWriting(
  address: Address,
  { signingKeys, keysOf, ...options }: SharedStoreOptions,
): Promise<PostgresStore> {
  return PostgresStore.open({
    ...{ ...options, address },
    sealKey: (ledgerId, shared, entries) => openSealKey(signingKeys, ledgerId, shared, entries),
    async openKeys(log) {
      const wanted = await keysOf(log);
      if (wanted === undefined) return undefined;
      const opened = await openWrittenKeys(wanted, log.cluster);
      await wanted.onOpened();
      const [keysAddress = ''] = wanted.places.directories;
      return { ...opened, address: keysAddress };
    },
  });
}
