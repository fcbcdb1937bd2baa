/** What a server plans for the statements of a collector, whatever it knows of the tables. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type Address, parseAddress } from '../src/address.js';
import { migrateLog } from '../src/administration.js';
import { Connection } from '../src/connection.js';
import { PostgresVault } from '../src/postgres-vault.js';
import { PostgresKeys } from '../src/postgres-keys.js';
import { PostgresLog } from '../src/postgres-log.js';
import { PostgresStore } from '../src/postgres-store.js';
import { uuidText } from '@clinical-events/collector/store/text';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { candidate } from '../../collector/test/store/candidate.js';

let server: PostgresServer;
let address: Address;
let logs = 0;

beforeAll(async () => {
  // A plan of any cost would be compiled, and only the test collects statistics.
  server = await PostgresServer.start({ autovacuum: 'off', jit: 'on', jit_above_cost: '0' });
});
afterAll(() => server.remove());
beforeEach(async () => {
  address = parseAddress(`${server.url()}?schema=log_${logs++}`);
  await migrateLog(address, 'local');
});

async function sql(text: string): Promise<Record<string, unknown>[]> {
  return server.query(`SET search_path = ${address.schema}; SET jit = off; ${text}`);
}

async function open(): Promise<PostgresStore> {
  return PostgresStore.open({
    ...{ address, lanes: 1, version: 'test', onTrouble: () => undefined, onLost: () => undefined },
    sealKey: () => Promise.resolve({ ...SEAL_KEY, lostBefore: BATCHES + 10 }),
    gauges: { committed: () => undefined, waits: () => undefined, replicated: () => undefined },
  });
}

test('[R-1425] no session of a collector compiles its statements, and none restricts the planner', async () => {
  const connection = await Connection.open(address, 'test');
  onTestFinished(() => connection.close());
  expect((await connection.query('SHOW jit')).rows).toEqual([['off']]);
  const { rows } = await connection.query(
    "SELECT name FROM pg_settings WHERE category LIKE 'Query Tuning%' AND setting <> reset_val OR name LIKE 'enable%' AND setting <> boot_val",
  );
  expect(rows).toEqual([]);
});

const BATCHES = 20_000;
/** One event copied into many batches of closed lanes, each with its place, and as much in the other tables that grow. */
const FILL = `
INSERT INTO collectors (collector_id, host, pid, version) VALUES ('${randomUUID()}', 'gone', 1, 'test');
INSERT INTO lanes (lane, collector_id)
  SELECT 500000 + n, (SELECT collector_id FROM collectors WHERE host = 'gone') FROM generate_series(0, ${BATCHES / 10 - 1}) n;
CREATE TEMP TABLE copies AS SELECT n, 500000 + n / 10 AS lane, n % 10 + 1 AS batch FROM generate_series(0, ${BATCHES - 1}) n;
INSERT INTO batches (lane, batch, candidates, entries, bytes, leaves, closes)
  SELECT c.lane, c.batch, 1, 1, b.bytes, b.leaves, c.batch = 10 FROM copies c, (SELECT * FROM batches WHERE entries = 1 LIMIT 1) b;
INSERT INTO events (lane, batch, ord, payload_state, envelope, salted)
  SELECT c.lane, c.batch, 0, 0, e.envelope, e.salted FROM copies c, (SELECT * FROM events LIMIT 1) e;
INSERT INTO event_ids (event_id, organisation_id, lane, batch, ord)
  SELECT gen_random_uuid(), o.organisation_id, c.lane, c.batch, 0 FROM copies c, organisations o;
INSERT INTO sequenced (lane, batch, first_sequence, entries) SELECT lane, batch, size + 1 + n, 1 FROM copies, heads;
UPDATE heads SET size = size + ${BATCHES};
INSERT INTO tiles (level, tile, hashes) SELECT 0, n + 1, decode(repeat('00', 32), 'hex') FROM copies;
INSERT INTO checkpoints (size, note) SELECT n, 'note' FROM copies;
INSERT INTO access_lines (line, text) SELECT n + 1, 'line' FROM copies;
INSERT INTO encryption_keys (name, bytes, version) SELECT 'key ' || n, 'key', n + 1 FROM copies;`;
/** Tables that remain small, or are emptied again. */
const SMALL =
  "'heads', 'published', 'log', 'schema_migrations', 'periods', 'organisations', 'open_lanes', 'collectors', 'key_changes', 'seal_key', 'api_keys', 'encryption', 'requests', 'actions', 'log_keys', 'hold_records'";

/** How many rows were read by reading a table from end to end, table by table. */
async function scanned(): Promise<Map<string, number>> {
  // A session reports its counts when it ends.
  const sessions = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'collector/%'";
  while ((await server.query(sessions)).length > 0) await sleep(20);
  const rows = await server.query(
    `SELECT relname, seq_tup_read::int AS rows FROM pg_stat_user_tables WHERE schemaname = '${address.schema}' AND relname NOT IN (${SMALL})`,
  );
  return new Map(rows.map(({ relname, rows: count }) => [String(relname), Number(count)]));
}

/** All that a collector does by itself, with events and with readers. */
async function everything(): Promise<void> {
  const store = await open();
  const event = candidate();
  expect(await store.append([event])).toEqual(['accepted']);
  expect(await store.append([event])).toEqual(['duplicate']);
  await store.committed.sequence();
  await store.committed.sequence();
  const { entries } = store.committed;
  const leaves = [];
  for await (const batch of store.committed.pass({ sequence: entries, at: 0 })) leaves.push(...batch);
  expect(leaves).toHaveLength(1);
  await store.refreshActions();
  await store.requests.waiting();
  await store.isOnUs();
  await store.prove();
  const tiles = Math.floor((await store.tree.hashCount(0)) / 256);
  await store.tree.put(0, tiles * 256, Buffer.alloc(32));
  await store.tree.put(0, tiles * 256 + 1, Buffer.alloc(32));
  expect(await store.tree.hashes(0, tiles * 256, 2)).toHaveLength(64);
  await store.tree.swapHead(await store.tree.head(), 'note', 1_000_000 + entries);
  for await (const lines of store.accessLog.lines({ lines: BATCHES - 1, at: 0 }))
    expect(lines.length).toBeLessThan(100);
  await store.close();
  const keys = new PostgresKeys(address);
  await keys.version();
  await keys.close();
  const log = await PostgresLog.open(address);
  expect((await log.withId({ eventId: uuidText(event.eventId), known: [] })).entries).toHaveLength(1);
  for await (const rows of log.entries({ sequence: entries, at: 0 })) expect([...rows]).toHaveLength(1);
  await log.close();
}

describe('[R-1425] no statement scans a growing table from end to end', () => {
  test.each([
    ['never analyzed', '', ''],
    ['analyzed', '', 'ANALYZE'],
    ['analyzed while they were empty', 'VACUUM ANALYZE', ''],
  ])('of tables that were %s', async (_, before, after) => {
    const first = await open();
    await first.append([candidate()]);
    await first.committed.sequence();
    await first.close();
    const keys = await PostgresVault.open(address, 'another', { forWriting: true });
    await everything();
    if (before !== '') await server.query(before);
    await sql(FILL);
    if (after !== '') await server.query(after);
    await keys.refresh();
    await keys.close();
    const at = await scanned();
    const again = await PostgresVault.open(address, 'another');
    await everything();
    await again.refresh();
    await again.close();
    const read = [...(await scanned())].map(([table, rows]) => [table, rows - (at.get(table) ?? 0)]);
    expect(read.filter(([, rows]) => Number(rows) > 0)).toEqual([]);
  });
});
