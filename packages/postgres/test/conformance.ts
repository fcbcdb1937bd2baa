/** The suites of stores, trees, access logs and keys, over PostgreSQL. */
import { randomBytes, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { newKekFile } from '../../collector/src/privacy/key-encryption-key.js';
import { parseAddress, type Address } from '../src/address.js';
import { Connection, ReadingConnection } from '../src/connection.js';
import { PostgresAccessLog } from '../src/postgres-access-log.js';
import { PostgresKeys } from '../src/postgres-keys.js';
import { PostgresCommitted, PostgresLog } from '../src/postgres-log.js';
import { PostgresStore, type PostgresStoreOptions } from '../src/postgres-store.js';
import { migrate } from '../src/schema.js';
import { sequence } from '../src/sequencing.js';
import type { ApiKey } from '@clinical-events/collector/store/contract/keys';
import type { Candidate, Store } from '@clinical-events/collector/store/contract/events';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { PostgresTree } from '../src/postgres-tree.js';
import { accessLogConformance } from '../../collector/test/store/access-log-conformance.js';
import { storeConformance } from '../../collector/test/store/store-conformance.js';
import { committedConformance, treeConformance } from '../../collector/test/store/tree-conformance.js';

/** The requirements of the suites on a database. */
export interface Database {
  readonly server: PostgresServer;
  /** Of loopback, by which stores reach it. */
  readonly port: number;
  remove(): Promise<void>;
}

/** A new log in a new schema, which a role of that name finds with any settings of its connection. */
export async function makeLog({ server, port }: Database, name: string): Promise<Address> {
  await server.query(`CREATE ROLE ${name} LOGIN SUPERUSER`);
  const address = parseAddress(`postgres://${name}@127.0.0.1:${port}/postgres?schema=${name}`);
  const connection = await Connection.open(address, 'test');
  await migrate(connection, address.schema, 'local');
  await connection.close();
  return address;
}

/** For the suite of stores: an appended event has its place immediately. */
export async function openSequencedStore(
  address: Address,
  {
    onSequenced = () => undefined,
    ...more
  }: { readonly onSequenced?: (entries: number) => void } & Partial<
    Pick<PostgresStoreOptions, 'openKeys'>
  > = {},
): Promise<Store> {
  const store = await PostgresStore.open({
    sealKey: () => Promise.resolve(SEAL_KEY),
    ...{ address, lanes: 1, version: 'test', onLost: () => undefined, ...more },
    onTrouble: (what, error) => {
      throw new Error(what, { cause: error });
    },
  });
  const connection = await Connection.open(address, 'test');
  return {
    concurrency: 1,
    outlivesDoubt: true,
    append: async (batch: readonly Candidate[]) => {
      const outcomes = await store.append(batch);
      onSequenced((await sequence(connection, SEAL_KEY))?.entries ?? 0);
      return outcomes;
    },
    look: () => store.look(),
    prove: () => store.prove(),
    proveKeys: () => store.proveKeys(),
    close: async () => {
      await store.close();
      await connection.close();
    },
  };
}

/** Changes a byte of the payload of an entry, as a superuser can. @returns a function that restores it. */
export async function spoil(
  server: PostgresServer,
  { schema }: Address,
  at: number,
): Promise<() => Promise<void>> {
  const flip = async () => {
    await server.query(
      `SET search_path = ${schema}; UPDATE events e SET salted = set_byte(salted, length(salted) - 3, get_byte(salted, length(salted) - 3) # 1)
       FROM sequenced s WHERE s.lane = e.lane AND s.batch = e.batch AND s.first_sequence + e.ord = ${at}`,
    );
  };
  await flip();
  return flip;
}

/** Every suite that a driver must pass, over a database. Call it at the top of a test file, or in a `describe`. */
export function postgresConformance(start: () => Promise<Database>): void {
  let database: Database;
  let server: PostgresServer;
  let places = 0;

  beforeAll(async () => {
    database = await start();
    ({ server } = database);
  });
  afterAll(() => database.remove());

  const newLog = () => makeLog(database, `log_${places++}`);

  async function dropLog({ schema }: Address): Promise<void> {
    await server.query(`DROP SCHEMA ${schema} CASCADE`);
  }

  function treeOf(address: Address): PostgresTree {
    return new PostgresTree(new ReadingConnection(address, 'test'));
  }

  storeConformance({
    name: 'the PostgreSQL store',
    async makePlace() {
      const address = await newLog();
      return {
        open: () => openSequencedStore(address),
        read: () => PostgresLog.open(address),
        spoil: (at) => spoil(server, address, at),
        loseIndex: () => undefined,
        remove: () => dropLog(address),
      };
    },
  });

  committedConformance({
    name: 'what the PostgreSQL store has committed',
    async open() {
      const address = await newLog();
      const connection = new ReadingConnection(address, 'test');
      const committed = new PostgresCommitted(connection, {
        ...{ durability: 'local', collectorId: randomUUID(), sealKey: SEAL_KEY },
      });
      const store = await openSequencedStore(address, {
        onSequenced: (entries) => (committed.entries = entries),
      });
      return {
        ...{ store, committed },
        async close() {
          await store.close();
          await connection.close();
          await dropLog(address);
        },
      };
    },
  });

  treeConformance({
    name: 'the tree in PostgreSQL',
    async makePlace() {
      const address = await newLog();
      return {
        open: () => Promise.resolve(treeOf(address)),
        read: () => treeOf(address),
        remove: () => dropLog(address),
      };
    },
  });

  accessLogConformance({
    name: 'the access log in PostgreSQL',
    as: (line) => `${line.slice(0, -1)},"database_user":"log_${places - 1}"}`,
    async makePlace() {
      const address = await newLog();
      const connections: ReadingConnection[] = [];
      return {
        open() {
          const connection = new ReadingConnection(address, 'test');
          connections.push(connection);
          return new PostgresAccessLog(connection);
        },
        async remove() {
          await Promise.all(connections.map((connection) => connection.close()));
          await dropLog(address);
        },
      };
    },
  });

  describe('API keys in PostgreSQL', () => {
    const key = (keyId: string, more: Partial<ApiKey> = {}): ApiKey => ({
      ...{ keyId, hash: randomBytes(32), organisation: 'ward-7', permissions: ['outcome', 'user-feedback'] },
      ...{ profile: 'full', rateLimit: { perSecond: 0.5, burst: 3 }, clientCertificate: 'dns:a.example' },
      ...{ note: 'für Station 7', createdAt: 1, expiresAt: 100, revokedAt: undefined },
      ...{ rotatedFrom: undefined, replacedBy: undefined, ...more },
    });
    let address: Address;
    let keys: PostgresKeys;
    beforeEach(async () => {
      address = await newLog();
      keys = new PostgresKeys(address);
    });
    afterEach(async () => {
      await keys.close();
      await dropLog(address);
    });

    test('stored keys are read back the same, in the order of creation', async () => {
      const plain = { permissions: 'all', profile: undefined, rateLimit: undefined } as const;
      const all = [key('b'), key('a', { ...plain, clientCertificate: undefined, expiresAt: undefined })];
      for (const each of all) await keys.insert(each);
      expect(await keys.list()).toEqual(all);
    });

    test('a first key is stored once, and only where there is none', async () => {
      const others = new PostgresKeys(address);
      const stored = await Promise.all([keys.insertFirst(key('a')), others.insertFirst(key('b'))]);
      expect(stored.toSorted()).toEqual([false, true]);
      expect(await keys.list()).toHaveLength(1);
      await others.close();
    });

    test('the version changes with every change, by any process', async () => {
      const others = new PostgresKeys(address);
      const versions = [await keys.version()];
      await others.insert(key('a'));
      versions.push(await keys.version());
      expect(await others.revoke('a', 7)).toBe(true);
      versions.push(await keys.version());
      expect(new Set(versions).size).toBe(3);
      expect((await keys.list())[0]?.revokedAt).toBe(7);
      await others.revoke('a', 9);
      expect((await keys.list())[0]?.revokedAt).toBe(7);
      expect(await keys.revoke('x', 9)).toBe(false);
      await others.close();
    });

    test('a rotation changes both keys or none', async () => {
      await keys.insert(key('a'));
      const successor = key('b', { rotatedFrom: 'a' });
      expect(await keys.rotate(successor, 50, 10)).toBeUndefined();
      expect((await keys.list()).map(({ expiresAt, replacedBy }) => [expiresAt, replacedBy])).toEqual([
        [50, 'b'],
        [100, undefined],
      ]);
      expect(await keys.rotate(key('c', { rotatedFrom: 'a' }), 50, 10)).toBe('replaced');
      expect(await keys.rotate(key('c', { rotatedFrom: 'b' }), 50, 100)).toBe('expired');
      expect(await keys.rotate(key('c', { rotatedFrom: 'x' }), 50, 10)).toBe('unknown');
      await keys.revoke('b', 5);
      expect(await keys.rotate(key('c', { rotatedFrom: 'b' }), 50, 10)).toBe('revoked');
      expect(await keys.list()).toHaveLength(2);
    });
  });
}

/** A server of logs, one of keys, and the key that wraps these. */
export interface KeyedServers {
  readonly server: PostgresServer;
  readonly keyServer: PostgresServer;
  readonly database: Database;
  /** As `--kek` has it. */
  readonly kek: string;
  remove(): Promise<void>;
}

export async function startKeyed(): Promise<KeyedServers> {
  const [server, keyServer] = await Promise.all([PostgresServer.start(), PostgresServer.start()]);
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-kek-'));
  fs.writeFileSync(path.join(directory, 'kek'), newKekFile(), { mode: 0o600 });
  return {
    ...{ server, keyServer, kek: `file:${path.join(directory, 'kek')}` },
    database: { server, port: server.port, remove: () => server.remove() },
    async remove() {
      await Promise.all([server.remove(), keyServer.remove()]);
      fs.rmSync(directory, { recursive: true });
    },
  };
}
