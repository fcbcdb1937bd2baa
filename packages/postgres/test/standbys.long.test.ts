/** Acknowledged events under faults of standbys and settings of replication. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import {
  type Candidate,
  CommitUnknown,
  NotCommitted,
} from '@clinical-events/collector/store/contract/events';
import { parseAddress } from '../src/address.js';
import { examineLog, migrateLog } from '../src/administration.js';
import { Connection, Lost } from '../src/connection.js';
import { PostgresStore } from '../src/postgres-store.js';
import { sequence } from '../src/sequencing.js';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { Relay } from './running/relay.js';
import { candidate, idOf } from '../../collector/test/store/candidate.js';

let primary: PostgresServer;
let standby: PostgresServer;
/** Of every server that a test has started. */
let servers: PostgresServer[];
/** The reports of stores on replication. */
let replicated: boolean[];

beforeEach(async () => {
  ({ primary, standby } = await PostgresServer.pair({ wal_retrieve_retry_interval: '100ms' }));
  servers = [primary, standby];
  replicated = [];
  await migrateLog(parseAddress(primary.url()), 'replicated');
});
afterEach(() => Promise.all(servers.map((server) => server.remove())));

/** Its schema is found by the name of the role, also where the settings of a connection are lost. */
async function open(user: string, ...ports: readonly number[]): Promise<PostgresStore> {
  const gauges = {
    committed: () => undefined,
    waits: () => undefined,
    replicated: (is: boolean) => replicated.push(is),
  };
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join();
  const store = await PostgresStore.open({
    address: parseAddress(`postgres://${user}@${hosts}/postgres`),
    ...{ sealKey: () => Promise.resolve(SEAL_KEY), gauges },
    ...{ lanes: 1, version: 'test', onTrouble: () => undefined, onLost: () => undefined },
  });
  onTestFinished(() => store.close());
  return store;
}

function failed(error: unknown): Error {
  if (error instanceof NotCommitted || error instanceof CommitUnknown) return error;
  throw error;
}

/** Like a sender: again until the outcome is known. */
async function stored(store: PostgresStore, batch: readonly Candidate[]): Promise<void> {
  while ((await store.append(batch).catch(failed)) instanceof Error) await sleep(50);
}

async function idsOn(server: PostgresServer): Promise<unknown[]> {
  const rows = await server.query('SELECT event_id::text AS id FROM collector.event_ids');
  return rows.map(({ id }) => id).toSorted();
}

async function until(server: PostgresServer, condition: string): Promise<void> {
  while ((await server.query(`SELECT 1 WHERE ${condition}`)).length === 0) await sleep(20);
}

async function commitWaits(): Promise<number> {
  const waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  for (;;) {
    const [row] = await primary.query(waiting);
    if (row !== undefined) return Number(row['pid']);
    await sleep(20);
  }
}

test('[R-1250] a standby whose replay is paused has every acknowledged event when it is promoted', async () => {
  const store = await open('postgres', primary.port, standby.port);
  await until(standby, `to_regclass('collector.event_ids') IS NOT NULL`);
  await standby.query('SELECT pg_wal_replay_pause()');
  await until(standby, `pg_get_wal_replay_pause_state() = 'paused'`);
  const batch = Array.from({ length: 50 }, () => candidate());
  for (const event of batch) expect(await store.append([event])).toEqual(['accepted']);
  expect(await idsOn(standby)).toEqual([]);
  await primary.stop('SIGKILL');
  await standby.promote();
  expect(await idsOn(standby)).toEqual(batch.map(idOf).toSorted());
});

test('[R-1250] a cascading standby is not written to, replaces the standby, and then the primary', async () => {
  const last = await PostgresServer.standbyOf(standby);
  servers.push(last);
  const store = await open('postgres', last.port, standby.port, primary.port);
  const batches = Array.from({ length: 3 }, () => Array.from({ length: 20 }, () => candidate()));
  const [first = [], second = [], third = []] = batches;
  await stored(store, first);
  await primary.stop('SIGKILL');
  await standby.promote();
  // Acknowledged as soon as the new primary waits for its standby.
  await stored(store, second);
  await standby.stop('SIGKILL');
  await last.promote();
  expect(await idsOn(last)).toEqual([...first, ...second].map(idOf).toSorted());
  await standby.rebuildFrom(last);
  await stored(store, third);
  expect(await idsOn(last)).toEqual(batches.flat().map(idOf).toSorted());
});

test('[R-1250] a weaker synchronous_commit of a role has no effect, because a connection sets its own', async () => {
  await primary.query(`CREATE ROLE collector LOGIN SUPERUSER;
    ALTER ROLE collector SET synchronous_commit = 'remote_write'; ALTER ROLE collector SET client_min_messages = 'error'`);
  const store = await open('collector', primary.port);
  standby.freeze();
  const appended = store.append([candidate()]);
  await commitWaits();
  standby.thaw();
  expect(await appended).toEqual(['accepted']);
});

test('[R-1250] where the settings of a connection are lost on the way, nothing is acknowledged or signed with weaker ones', async () => {
  await primary.query(
    `CREATE ROLE collector LOGIN SUPERUSER; ALTER ROLE collector SET client_min_messages = 'warning'`,
  );
  const relay = await Relay.to(primary.port);
  onTestFinished(() => relay.close());
  relay.toServer = withoutOptions;
  const store = await open('collector', relay.port);
  // By chance the role has all that is needed.
  expect(await store.append([candidate()])).toEqual(['accepted']);
  await primary.query(`ALTER ROLE collector SET synchronous_commit = 'local'`);
  standby.freeze();
  const appended = store.append([candidate()]).catch(failed);
  const pid = await commitWaits();
  // Its outcome is read on a connection with the weaker setting, and here it is committed.
  relay.refuse();
  relay.heal();
  await primary.query(`SELECT pg_cancel_backend(${pid})`);
  expect(await appended).toBeInstanceOf(CommitUnknown);
  const address = parseAddress(`postgres://collector@127.0.0.1:${relay.port}/postgres`);
  const connection = await Connection.open(address, 'test');
  await expect(sequence(connection, SEAL_KEY, 'replicated')).rejects.toThrow(Lost);
  await connection.close();
});

test('[R-1435] changes of the replication state are reported', async () => {
  const store = await open('postgres', primary.port, standby.port);
  await stored(store, [candidate()]);
  expect(replicated.at(-1)).toBe(true);
  const [before] = await primary.query("SELECT current_setting('synchronous_standby_names') AS names");
  const set = async (names: string) => {
    await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await primary.query('SELECT pg_reload_conf()');
  };
  await set('');
  await until(primary, "current_setting('synchronous_standby_names') = ''");
  const appended = stored(store, [candidate()]);
  while (replicated.at(-1) === true) await sleep(20);
  await set(String(before?.['names']));
  await appended;
  expect(replicated.at(-1)).toBe(true);
});

test('[R-1250] without replication a check of the store writes nothing, and an event writes one batch at most', async () => {
  const store = await open('postgres', primary.port, standby.port);
  await stored(store, [candidate()]);
  const batches = async () => {
    const [row] = await primary.query('SELECT count(*)::int AS n FROM collector.batches');
    return Number(row?.['n']);
  };
  const before = await batches();
  await primary.query(`ALTER SYSTEM SET synchronous_standby_names = ''`);
  await primary.query('SELECT pg_reload_conf()');
  await until(primary, "current_setting('synchronous_standby_names') = ''");
  for (let i = 0; i < 20; i++) await expect(store.prove()).rejects.toThrow(NotCommitted);
  expect(await batches()).toBe(before);
  await expect(store.append([candidate()])).rejects.toThrow(CommitUnknown);
  expect(await batches()).toBe(before + 1);
  for (let i = 0; i < 20; i++)
    await expect(store.prove()).rejects.toThrow('synchronous_standby_names is empty');
  expect(await batches()).toBe(before + 1);
  await primary.query('ALTER SYSTEM RESET synchronous_standby_names');
  await primary.query('SELECT pg_reload_conf()');
  const proved = async () => {
    while ((await store.prove().catch(failed)) instanceof Error) await sleep(50);
  };
  await proved();
  await standby.stop();
  await until(primary, 'NOT EXISTS (SELECT 1 FROM pg_stat_replication)');
  const alone = await batches();
  for (let i = 0; i < 20; i++)
    await expect(store.prove()).rejects.toThrow('no synchronous standby is connected');
  expect(await batches()).toBe(alone);
  await standby.run();
  await proved();
  expect(await store.append([candidate()])).toEqual(['accepted']);
});

test('[R-1430] store check names a server of the address that lacks its synchronous standbys, or cannot be asked', async () => {
  const findings = async (...ports: readonly number[]) => {
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join();
    const found = await examineLog(parseAddress(`postgres://postgres@${hosts}/postgres`));
    return found
      .filter(({ subject }) => subject === 'standbys')
      .map(({ severity, message }) => `${severity} ${message}`);
  };
  const { port } = standby;
  expect(await findings(primary.port)).toEqual([]);
  expect(await findings(port, primary.port)).toEqual([
    `ok 127.0.0.1:${port} has synchronous_standby_names standby`,
  ]);
  standby.configure({ synchronous_standby_names: '' });
  await standby.query('SELECT pg_reload_conf()');
  await until(standby, "current_setting('synchronous_standby_names') = ''");
  expect(await findings(primary.port, port)).toEqual([
    expect.stringContaining(`warning 127.0.0.1:${port} has no synchronous_standby_names`),
  ]);
  await standby.stop();
  expect(await findings(primary.port, port)).toEqual([
    expect.stringContaining(`warning 127.0.0.1:${port} could not be examined: `),
  ]);
});

test('[R-1435] while no standby is connected, store check reports damage, and a collector without senders refuses', async () => {
  const store = await open('postgres', primary.port, standby.port);
  await primary.query(`CREATE ROLE blind LOGIN; GRANT USAGE ON SCHEMA collector TO blind;
    GRANT SELECT ON ALL TABLES IN SCHEMA collector TO blind`);
  const finding = async (user: string) => {
    const found = await examineLog(parseAddress(`postgres://${user}@127.0.0.1:${primary.port}/postgres`));
    const { severity, message } = found.find(({ subject }) => subject === 'replication') ?? {};
    return `${severity} ${message}`;
  };
  const refusal = () => {
    try {
      store.look();
      return '';
    } catch (error) {
      return failed(error).message;
    }
  };
  const count = async () =>
    Number((await primary.query('SELECT count(*)::int AS n FROM collector.batches'))[0]?.['n']);
  expect(refusal()).toBe('');
  expect(await finding('postgres')).toMatch(/^ok 1 synchronous standby/);
  const before = await count();
  await standby.stop();
  await until(primary, 'NOT EXISTS (SELECT 1 FROM pg_stat_replication)');
  expect(await finding('postgres')).toBe(
    'damage no standby of standby is connected: no event is accepted until one is',
  );
  expect(await finding('blind')).toMatch(/^warning .* this role cannot see it/);
  while (refusal() === '') await sleep(50);
  expect(refusal()).toBe('nothing would be replicated: no synchronous standby is connected');
  expect(replicated.at(-1)).toBe(false);
  expect(await count()).toBe(before);
  await standby.run();
  while (refusal() !== '') await sleep(50);
  while ((await store.prove().catch(failed)) instanceof Error) await sleep(50);
  expect(replicated.at(-1)).toBe(true);
  await primary.stop('SIGKILL');
  while (refusal() === '') await sleep(50);
  expect(refusal()).toBe('the database does not answer');
});

test('[R-1430] a lock timeout while no standby is connected is reported as the wait for the standby', async () => {
  const store = await open('postgres', primary.port, standby.port);
  await standby.stop();
  await until(primary, 'NOT EXISTS (SELECT 1 FROM pg_stat_replication)');
  const holder = await Connection.open(parseAddress(primary.url()), 'test');
  onTestFinished(() => holder.destroy());
  await holder.query('BEGIN');
  await holder.query('SELECT 1 FROM collectors FOR UPDATE');
  await expect(store.committed.sequence()).rejects.toThrow(
    'nothing would be replicated: no synchronous standby is connected',
  );
});

test('[R-1430] store check reports batches that wait longer for their place than signing ever takes', async () => {
  const store = await open('postgres', primary.port, standby.port);
  const finding = async () => {
    const found = await examineLog(parseAddress(primary.url()));
    const { severity, message } = found.find(({ subject }) => subject === 'sequencing') ?? {};
    return `${severity} ${message}`;
  };
  await stored(store, [candidate()]);
  const committed = (ago: string) =>
    primary.query(`UPDATE collector.batches SET committed_at = clock_timestamp() - interval '${ago}'`);
  await committed('0 seconds');
  expect(await finding()).toMatch(/^ok /);
  await committed('15 seconds');
  // A commit whose outcome was unknown is sent again, and leaves a batch without events.
  expect(await finding()).toMatch(/^warning \d+ batch(es)? not sequenced, the oldest for \d+ s/);
});

test('[R-1430] store check names settings that do not reach a session, and disabled plan types', async () => {
  const relay = await Relay.to(primary.port);
  onTestFinished(() => relay.close());
  const findings = async (user: string) => {
    const found = await examineLog(parseAddress(`postgres://${user}@127.0.0.1:${relay.port}/postgres`));
    return found
      .filter(({ subject }) => subject === 'sessions' || subject === 'planner')
      .map(({ severity, message }) => `${severity} ${message}`);
  };
  await primary.query('CREATE ROLE collector LOGIN SUPERUSER');
  expect(await findings('collector')).toEqual([
    'ok jit is off, time-outs are set',
    'ok no plan type is disabled',
  ]);
  relay.toServer = withoutOptions;
  await primary.query(`ALTER ROLE collector SET enable_seqscan = off; ALTER ROLE collector SET jit = on;
    ALTER ROLE collector SET statement_timeout = '30s'`);
  const [sessions = '', planner] = await findings('collector');
  expect(sessions).toMatch(/^warning /);
  for (const setting of ["jit = 'off'", "lock_timeout = '2s'", "idle_in_transaction_session_timeout = '5s'"])
    expect(sessions).toContain(`ALTER ROLE collector SET ${setting}`);
  expect(sessions).not.toContain('statement_timeout');
  expect(planner).toMatch(/^warning enable_seqscan is off/);
});

/** Of the message that begins a session, what a pooler keeps that ignores the settings in it. */
function withoutOptions(bytes: Buffer): Buffer {
  const at = bytes.indexOf('\0options\0');
  if (at < 0 || bytes.readInt32BE(0) !== bytes.length) return bytes;
  const end = bytes.indexOf(0, at + '\0options\0'.length);
  const kept = Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)]);
  kept.writeInt32BE(kept.length, 0);
  return kept;
}
