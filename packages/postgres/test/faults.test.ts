/** What can go wrong between a collector and its database: nothing that was acknowledged is lost, nothing is stored twice. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest';
import {
  type Candidate,
  CommitUnknown,
  NotCommitted,
  type Outcome,
} from '@clinical-events/collector/store/contract/events';
import { type Address, parseAddress } from '../src/address.js';
import { Connection, Unreachable } from '../src/connection.js';
import { PostgresStore } from '../src/postgres-store.js';
import { migrate } from '../src/schema.js';
import { LaneBroken, sequence } from '../src/sequencing.js';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { Relay } from './running/relay.js';
import { candidate } from '../../collector/test/store/candidate.js';

let server: PostgresServer;
let relay: Relay;
let address: Address;
let troubles: string[];
let lost: string[];
let schemas = 0;
const opened: PostgresStore[] = [];

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.remove());
beforeEach(async () => {
  relay = await Relay.to(server.port);
  troubles = [];
  lost = [];
  address = await makeLog();
});
afterEach(async () => {
  relay.heal();
  await Promise.all(opened.splice(0).map((store) => store.close()));
  await relay.close();
});

/** Reached through the relay. */
async function makeLog(): Promise<Address> {
  const schema = `log_${schemas++}`;
  const made = parseAddress(`postgres://postgres@127.0.0.1:${relay.port}/postgres?schema=${schema}`);
  const connection = await Connection.open(made, 'test');
  await migrate(connection, schema, 'local');
  await connection.close();
  return made;
}

async function open(lanes = 1): Promise<PostgresStore> {
  const onTrouble = (what: string) => troubles.push(what);
  const store = await PostgresStore.open({
    address,
    lanes,
    sealKey: () => Promise.resolve(SEAL_KEY),
    version: 'test',
    onTrouble,
    onLost: (reason) => lost.push(reason),
  });
  opened.push(store);
  return store;
}

function sql(text: string): Promise<Record<string, unknown>[]> {
  return server.query(`SET search_path = ${address.schema}; ${text}`);
}

/** Of each id, in how many rows it stands: of the registry, of the payloads and of the leaves together. */
async function rows(): Promise<{ ids: number; events: number; entries: number }> {
  const [row] = await server.query(
    `SELECT (SELECT count(*) FROM ${address.schema}.event_ids)::int AS ids,
       (SELECT count(*) FROM ${address.schema}.events)::int AS events,
       (SELECT coalesce(sum(entries), 0) FROM ${address.schema}.batches)::int AS entries`,
  );
  return row as { ids: number; events: number; entries: number };
}

/** Like a sender: again until the outcome is known. */
async function stored(store: PostgresStore, batch: readonly Candidate[]): Promise<Outcome[]> {
  for (;;) {
    try {
      return await store.append(batch);
    } catch (error) {
      if (!(error instanceof NotCommitted || error instanceof CommitUnknown)) throw error;
      await sleep(20);
    }
  }
}

async function sequenced(): Promise<number> {
  const connection = await Connection.open(address, 'test');
  try {
    return (await sequence(connection, SEAL_KEY))?.entries ?? 0;
  } finally {
    await connection.close();
  }
}

test('[R-1251] an answer that is cut at any byte is resolved: each event is stored once, and reported as stored', async () => {
  const store = await open();
  await store.append([candidate()]);
  let sent = 1;
  for (let bytes = 1; bytes < 200; bytes += 13) {
    relay.cutAfter(bytes);
    const batch = [candidate(), candidate(), candidate()];
    const appended = stored(store, batch);
    await sleep(5);
    relay.heal();
    expect([...new Set(await appended)].every((each) => each === 'accepted' || each === 'duplicate')).toBe(
      true,
    );
    sent += batch.length;
    expect(await rows()).toEqual({ ids: sent, events: sent, entries: sent });
  }
  expect(await sequenced()).toBe(sent);
});

test('[R-1251] a batch without an answer is stored once, also when it is committed after the collector has asked', async () => {
  const store = await open();
  await store.append([candidate()]);
  const blocker = await Connection.open(address, 'blocker');
  const batch = [candidate()];
  const id = Buffer.from(batch[0]?.eventId ?? []).toString('hex');
  await blocker.query('BEGIN');
  // The append waits for this row, with all its own rows uncommitted.
  await blocker.query(
    `INSERT INTO event_ids SELECT '${id}'::uuid, organisation_id, 1000, 1, 0 FROM organisations`,
  );
  const appended = stored(store, batch);
  await sleep(100);
  relay.cutAfter(0);
  await sleep(50);
  relay.heal();
  await blocker.query('ROLLBACK').catch(() => undefined);
  blocker.destroy();
  await appended;
  expect(await rows()).toEqual({ ids: 2, events: 2, entries: 2 });
  expect(await sequenced()).toBe(2);
});

test('[R-1251] while a database does not answer, a batch is refused within its deadline, and stored later', async () => {
  const store = await open();
  await store.append([candidate()]);
  relay.stall();
  const batch = [candidate()];
  await expect(store.append(batch)).rejects.toThrow(CommitUnknown);
  relay.heal();
  expect(await stored(store, batch)).toEqual(['accepted']);
  expect(await rows()).toEqual({ ids: 2, events: 2, entries: 2 });
});

test('[R-1251] while no host can be reached nothing is stored, and events are stored again afterwards', async () => {
  const store = await open();
  await store.append([candidate()]);
  relay.refuse();
  const batch = [candidate()];
  await expect(store.append(batch)).rejects.toThrow(/cannot be reached|no answer/);
  relay.heal();
  expect(await stored(store, batch)).toEqual(['accepted']);
});

test('a host that does not answer is skipped, and a standby or an unreachable host is named', async () => {
  const silent = await Relay.to(server.port);
  silent.stall();
  const two = parseAddress(`postgres://postgres@127.0.0.1:${silent.port},127.0.0.1:${server.port}/postgres`);
  const connection = await Connection.open(two, 'test');
  expect(connection.host.port).toBe(server.port);
  await connection.close();
  await silent.close();
  const gone = parseAddress(`postgres://postgres@127.0.0.1:${silent.port}/postgres`);
  await expect(Connection.open(gone, 'test')).rejects.toThrow(Unreachable);
});

test('[R-1251] an error between the answer and the end of the transaction is not a success', async () => {
  await sql(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
    CREATE CONSTRAINT TRIGGER late AFTER INSERT ON event_ids DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refuse()`);
  const store = await open();
  await expect(store.append([candidate()])).rejects.toThrow(NotCommitted);
  expect(await rows()).toEqual({ ids: 0, events: 0, entries: 0 });
});

test('[R-1251] a number of a lane that is in use is an error, and no event is dropped as a repeat', async () => {
  const store = await open();
  await store.append([candidate()]);
  await sql(
    `INSERT INTO batches (lane, batch, candidates, entries, leaves, closes) SELECT max(lane), 2, 0, 0, '', true FROM lanes`,
  );
  const batch = [candidate(), candidate()];
  expect(await store.append(batch)).toEqual(['accepted', 'accepted']);
  expect(await rows()).toEqual({ ids: 3, events: 3, entries: 3 });
  expect(await sequenced()).toBe(3);
});

test('[R-1251] of one id in two batches that overlap in opposite orders, one is stored and nothing is blocked', async () => {
  const [one, other] = [await open(2), await open(2)];
  const ids = Array.from({ length: 40 }, () => randomUUID());
  const forth = () => ids.map((eventId) => candidate({ eventId }));
  const back = () => forth().reverse();
  const outcomes = await Promise.all([
    ...[1, 2, 3].flatMap(() => [stored(one, forth()), stored(other, back())]),
    ...[1, 2, 3].flatMap(() => [stored(other, forth()), stored(one, back())]),
  ]);
  expect(outcomes.flat().filter((outcome) => outcome === 'accepted')).toHaveLength(ids.length);
  expect(outcomes.flat().every((outcome) => outcome === 'accepted' || outcome === 'duplicate')).toBe(true);
  expect(await rows()).toEqual({ ids: ids.length, events: ids.length, entries: ids.length });
});

test('the same id twice in a batch, across lanes and organisations, equal and different', async () => {
  const store = await open(2);
  const eventId = randomUUID();
  const a = candidate({ eventId, body: { n: 1 } });
  const b = candidate({ eventId, body: { n: 2 } });
  const elsewhere = candidate({ eventId, organisation: 'other', body: { n: 2 } });
  const otherKind = candidate({ eventId, kind: 'user-feedback', body: { n: 1 } });
  expect(await store.append([a, a, b, elsewhere, otherKind])).toEqual([
    ...['accepted', 'duplicate', 'conflict', 'accepted', 'conflict'],
  ]);
  expect(await Promise.all([store.append([a]), store.append([b])])).toEqual([['duplicate'], ['conflict']]);
});

test('an event that the database always refuses is the only one that is not stored', async () => {
  await sql(`ALTER TABLE event_ids ADD CHECK (event_id <> 'eeeeeeee-0000-4000-8000-000000000000')`);
  const store = await open();
  const batch = Array.from({ length: 100 }, () => candidate());
  batch[50] = candidate({ eventId: 'eeeeeeee-0000-4000-8000-000000000000' });
  const outcomes = await store.append(batch);
  expect(outcomes[50]).toBe('unreadable');
  expect(outcomes.filter((outcome) => outcome === 'accepted')).toHaveLength(99);
  expect(troubles).toContain('the database refuses an event that passed every check');
});

test('many repeats of one event are stored once and leave no dead rows', async () => {
  const store = await open(4);
  const one = candidate();
  const outcomes = await Promise.all(Array.from({ length: 50 }, () => store.append(Array(20).fill(one))));
  expect(outcomes.flat().filter((outcome) => outcome === 'accepted')).toHaveLength(1);
  const [row] = await server.query(
    `SELECT n_dead_tup::int AS dead FROM pg_stat_user_tables WHERE schemaname = '${address.schema}' AND relname = 'event_ids'`,
  );
  expect(row).toEqual({ dead: 0 });
});

test('limits of the server for all its sessions cause no false answer, and lanes are not opened repeatedly', async () => {
  await server.query(
    `ALTER ROLE postgres SET idle_session_timeout = '1s'; ALTER ROLE postgres SET statement_timeout = '1s'`,
  );
  try {
    const store = await open();
    for (let i = 0; i < 3; i++) {
      await stored(store, [candidate()]);
      await sleep(1200);
    }
    await stored(store, [candidate()]);
    expect(await rows()).toEqual({ ids: 4, events: 4, entries: 4 });
    const [row] = await server.query(`SELECT count(*)::int AS n FROM ${address.schema}.lanes`);
    expect(Number(row?.['n'])).toBeLessThan(10);
  } finally {
    await server.query('ALTER ROLE postgres RESET ALL');
  }
});

test('[R-1265] a body is never in the log of the server, also when it logs every statement', async () => {
  await server.query(`CREATE ROLE quiet LOGIN SUPERUSER; ALTER ROLE quiet SET log_min_duration_statement = 0;
    ALTER ROLE quiet SET log_parameter_max_length = 0; ALTER ROLE quiet SET log_parameter_max_length_on_error = 0`);
  address = { ...address, user: 'quiet' };
  const store = await open();
  await store.append([candidate({ body: { text: 'the patient has a secret' } })]);
  expect(server.log).toContain('INSERT INTO event_ids');
  expect(server.log).not.toContain(Buffer.from('the patient has a secret').toString('hex'));
  expect(server.log).not.toContain('the patient has a secret');
});

test('[R-1254] a database that has lost its end is reported with the lost batches, and the log continues', async () => {
  const store = await open();
  for (let i = 0; i < 5; i++) await store.append([candidate()]);
  await sql(
    `DELETE FROM events WHERE batch > 3; DELETE FROM event_ids WHERE batch > 3; DELETE FROM batches WHERE batch > 3`,
  );
  relay.refuse();
  relay.heal();
  const batch = [candidate()];
  expect(await stored(store, batch)).toEqual(['accepted']);
  expect(lost).toEqual([expect.stringMatching(/^batches 4 to 5 of lane \d+$/)]);
  expect(await sequenced()).toBe(4);
});

describe('sequencing', () => {
  test('[R-1254] a missing batch stops it, and is named', async () => {
    const store = await open();
    await store.append([candidate()]);
    await store.append([candidate()]);
    await sql('DELETE FROM batches WHERE batch = 1');
    await expect(sequenced()).rejects.toThrow(LaneBroken);
    await expect(sequenced()).rejects.toThrow(/batch 1 of lane \d+ is gone/);
    await store.append([candidate()]);
  });

  test('[R-1268] batches that a collector has stored are sealed, also with repeats among them', async () => {
    const store = await open();
    const [first, second, third] = [candidate(), candidate(), candidate()];
    await store.append([first]);
    await store.append([second, first, third, second]);
    await store.append([first, first]);
    expect(await sequenced()).toBe(3);
  });

  test.each([
    [
      'is inserted',
      `INSERT INTO batches SELECT lane, 3, committed_at, candidates, entries, own, bytes, leaves,
       closes, repeats, seal FROM batches WHERE batch = 2`,
    ],
    [
      'gets another leaf',
      'UPDATE batches SET leaves = set_byte(leaves, 40, get_byte(leaves, 40) # 1) WHERE batch = 2',
    ],
    [
      'gets one leaf more',
      `UPDATE batches SET leaves = leaves || leaves, entries = 2, candidates = 2 WHERE batch = 2`,
    ],
    ['loses its seal', 'UPDATE batches SET seal = NULL WHERE batch = 2'],
  ])('[R-1268] a batch that %s by another writer never becomes a leaf', async (_, change) => {
    const store = await open();
    await store.append([candidate()]);
    expect(await sequenced()).toBe(1);
    await store.append([candidate()]);
    await sql(change);
    await expect(sequenced()).rejects.toThrow(
      /batch [23] of lane \d+ has no valid seal of a collector of this log/,
    );
    const [head] = await server.query(`SELECT size::int FROM ${address.schema}.heads`);
    expect(head).toEqual({ size: 1 });
  });

  test('[R-1254] of several that try at once one does it, and no batch is sequenced twice', async () => {
    const store = await open(4);
    await Promise.all(Array.from({ length: 20 }, () => store.append([candidate(), candidate()])));
    const found = await Promise.all(Array.from({ length: 8 }, sequenced));
    expect(Math.max(...found)).toBe(40);
    const [row] = await server.query(
      `SELECT count(*)::int AS batches, sum(entries)::int AS entries, max(first_sequence + entries)::int - 1 AS last
       FROM ${address.schema}.sequenced`,
    );
    expect(row).toMatchObject({ entries: 40, last: 40 });
  });

  test('lanes of an absent collector are closed after an hour, and it continues in another if it returns', async () => {
    const [frozen, other] = [await open(), await open()];
    await frozen.append([candidate()]);
    await other.append([candidate()]);
    await sql(`UPDATE collectors SET seen_at = seen_at - interval '2 hours' WHERE collector_id =
      (SELECT collector_id FROM lanes ORDER BY lane LIMIT 1)`);
    await other.committed.sequence();
    await other.committed.sequence();
    const [still] = await server.query(`SELECT count(*)::int AS n FROM ${address.schema}.open_lanes`);
    expect(still).toEqual({ n: 1 });
    expect(await frozen.append([candidate()])).toEqual(['accepted']);
    expect(await other.append([candidate()])).toEqual(['accepted']);
    expect(await sequenced()).toBe(4);
  });

  test('[R-1430] a collector reports once that the clock of the database was set, with direction and amount', async () => {
    const reasons: string[] = [];
    const store = await PostgresStore.open({
      ...{ address, lanes: 1, version: 'test', onLost: () => undefined },
      sealKey: () => Promise.resolve(SEAL_KEY),
      onTrouble: (what, error) => reasons.push(`${what} ${(error as Error).message}`),
    });
    opened.push(store);
    const now = performance.now.bind(performance);
    let ahead = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now() + ahead);
    onTestFinished(() => void vi.restoreAllMocks());
    await store.committed.sequence();
    // By the clock of this process an hour passes, and by that of the database no time.
    ahead += 3_600_000;
    await store.committed.sequence();
    expect(reasons).toEqual([expect.stringMatching(/^the database's clock was set back by 3600 s, to 20/)]);
    await store.committed.sequence();
    expect(reasons).toHaveLength(1);
  });

  test('a jump of the clock of the server by a day closes no lane of a running collector', async () => {
    const [one, other] = [await open(), await open()];
    await one.append([candidate()]);
    await other.append([candidate()]);
    await sql(`UPDATE collectors SET seen_at = seen_at - interval '1 day'`);
    await one.committed.sequence();
    const [still] = await server.query(`SELECT count(*)::int AS n FROM ${address.schema}.open_lanes`);
    expect(still).toEqual({ n: 2 });
  });
});
