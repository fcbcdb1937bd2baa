import { afterAll, beforeAll } from 'vitest';
import { parseAddress, type Address } from '../../../src/store/postgres/address.js';
import { Connection, ReadingConnection } from '../../../src/store/postgres/connection.js';
import { PostgresCommitted, PostgresLog } from '../../../src/store/postgres/postgres-log.js';
import { PostgresStore } from '../../../src/store/postgres/postgres-store.js';
import { migrate } from '../../../src/store/postgres/schema.js';
import { sequence } from '../../../src/store/postgres/sequencing.js';
import type { Candidate, Store } from '../../../src/store/contract.js';
import { PostgresServer } from '../../running/postgres-server.js';
import { PostgresTree } from '../../../src/store/postgres/postgres-tree.js';
import { storeConformance } from '../store-conformance.js';
import { committedConformance, treeConformance } from '../tree-conformance.js';

let server: PostgresServer;
let places = 0;

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.remove());

/** A log of its own, in a schema of its own. */
async function makeLog(): Promise<Address> {
  const address = parseAddress(`${server.url()}?schema=log_${places++}`);
  const connection = await Connection.open(address, 'test');
  await migrate(connection, address.schema, 'local');
  await connection.close();
  return address;
}

async function dropLog({ schema }: Address): Promise<void> {
  await server.query(`DROP SCHEMA ${schema} CASCADE`);
}

/** As the suite wants it: what was appended has its place at once. */
async function openStore(
  address: Address,
  onSequenced: (entries: number) => void = () => undefined,
): Promise<Store> {
  const store = await PostgresStore.open({
    ...{ address, lanes: 1, version: 'test' },
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
      onSequenced((await sequence(connection))?.entries ?? 0);
      return outcomes;
    },
    look: () => store.look(),
    prove: () => store.prove(),
    close: async () => {
      await store.close();
      await connection.close();
    },
  };
}

function treeOf(address: Address): PostgresTree {
  return new PostgresTree(new ReadingConnection(address, 'test'));
}

/** Changes a byte of the payload of an entry, as a superuser can. */
async function spoil({ schema }: Address, at: number): Promise<() => Promise<void>> {
  const flip = async () => {
    await server.query(
      `SET search_path = ${schema}; UPDATE events e SET salted = set_byte(salted, 20, get_byte(salted, 20) # 1)
       FROM sequenced s WHERE s.lane = e.lane AND s.batch = e.batch AND s.first_sequence + e.ord = ${at}`,
    );
  };
  await flip();
  return flip;
}

storeConformance({
  name: 'the PostgreSQL store',
  async makePlace() {
    const address = await makeLog();
    return {
      open: () => openStore(address),
      read: () => PostgresLog.open(address),
      spoil: (at) => spoil(address, at),
      loseIndex: () => undefined,
      remove: () => dropLog(address),
    };
  },
});

committedConformance({
  name: 'what the PostgreSQL store has committed',
  async open() {
    const address = await makeLog();
    const connection = new ReadingConnection(address, 'test');
    const committed = new PostgresCommitted(connection, { durability: 'local' });
    const store = await openStore(address, (entries) => (committed.entries = entries));
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
    const address = await makeLog();
    return {
      open: () => Promise.resolve(treeOf(address)),
      read: () => treeOf(address),
      remove: () => dropLog(address),
    };
  },
});
