/** The promise over real servers: acknowledged events are stored once, whatever happens to the primary. */
import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { NotCommitted, CommitUnknown } from '@clinical-events/collector/store/contract/events';
import { parseAddress, type Address } from '../src/address.js';
import { Connection } from '../src/connection.js';
import { PostgresStore } from '../src/postgres-store.js';
import { MIGRATIONS, migrate } from '../src/schema.js';
import { uuidText } from '@clinical-events/collector/store/text';
import { run } from '../../collector/test/running/collector-process.js';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { scratch } from '../../collector/test/running/scratch.js';
import { random, runs } from '../../../test/property-runs.js';
import { candidate } from '../../collector/test/store/candidate.js';

const KILLED_COLLECTOR = fileURLToPath(new URL('killed-collector.mjs', import.meta.url));

let pair: { primary: PostgresServer; standby: PostgresServer };
let address: Address;

beforeEach(async () => {
  // A standby is rebuilt from all that there is, also of the write-ahead log.
  pair = await PostgresServer.pair({ max_wal_size: '64MB', min_wal_size: '32MB' });
  const { primary, standby } = pair;
  address = parseAddress(`postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`);
  const connection = await Connection.open(address, 'test');
  await migrate(connection, address.schema, 'replicated');
  await connection.close();
});
afterEach(async () => {
  await pair.primary.remove();
  await pair.standby.remove();
});

async function open(to: Address = address): Promise<PostgresStore> {
  return PostgresStore.open({
    address: to,
    sealKey: () => Promise.resolve(SEAL_KEY),
    lanes: 2,
    version: 'test',
    onTrouble: () => undefined,
    onLost: () => undefined,
  });
}

/** Its result within a while; `waits` without one. */
async function within(ms: number, promise: Promise<unknown>): Promise<unknown> {
  return Promise.race([promise, sleep(ms).then(() => 'waits')]);
}

/** On return a commit waits for the standby. */
async function commitWaits(): Promise<number> {
  for (;;) {
    const [row] = await pair.primary.query("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    if (row !== undefined) return Number(row['pid']);
    await sleep(10);
  }
}

/** Sends batches until a stop, each again until it is known to be stored. */
async function send(store: PostgresStore, acknowledged: Set<string>, stop: AbortSignal): Promise<void> {
  const isStopped = () => stop.aborted;
  while (!isStopped()) {
    const batch = Array.from({ length: 8 }, () => candidate());
    for (;;) {
      try {
        const outcomes = await store.append(batch);
        for (const [i, { eventId }] of batch.entries()) {
          if (outcomes[i] === 'accepted' || outcomes[i] === 'duplicate') acknowledged.add(uuidText(eventId));
        }
        break;
      } catch (error) {
        if (!(error instanceof NotCommitted || error instanceof CommitUnknown)) throw error;
        if (isStopped()) return;
        await sleep(20);
      }
    }
  }
}

async function storedOn(server: PostgresServer): Promise<Map<string, number>> {
  const rows = await server.query(
    `SELECT encode(substring(envelope FROM 15 FOR 16), 'hex')::uuid::text AS id, count(*)::int AS rows FROM collector.events GROUP BY 1`,
  );
  return new Map(rows.map(({ id, rows: count }) => [String(id), Number(count)]));
}

test('[R-1250] a cancelled wait for the standby is no answer: it comes when the standby has the event', async () => {
  const { primary, standby } = pair;
  const store = await open();
  await store.append([candidate()]);
  standby.freeze();
  const appended = store.append([candidate()]);
  const pid = await commitWaits();
  await primary.query(`SELECT pg_cancel_backend(${pid})`);
  expect(await within(500, appended)).toBe('waits');
  standby.thaw();
  expect(await appended).toEqual(['accepted']);
  await store.close();
});

test('[R-1250] a repeat of an event that only the primary has waits for the standby too', async () => {
  const { standby } = pair;
  const [one, other] = [await open(), await open()];
  await one.append([candidate()]);
  await other.append([candidate()]);
  standby.freeze();
  const event = candidate();
  const appended = one.append([event]).catch((error: unknown) => error);
  const pid = await commitWaits();
  await pair.primary.query(`SELECT pg_cancel_backend(${pid})`);
  expect(await within(300, other.append([event]))).toBe('waits');
  standby.thaw();
  expect(await appended).toEqual(['accepted']);
  await Promise.all([one.close(), other.close()]);
});

test('[R-1250] when replication is switched off during the wait nothing is acknowledged until it is on again', async () => {
  const { primary, standby } = pair;
  const store = await open();
  await store.append([candidate()]);
  standby.freeze();
  const appended = store.append([candidate()]).catch((error: unknown) => error);
  await commitWaits();
  await primary.query(`ALTER SYSTEM SET synchronous_standby_names = ''`);
  await primary.query('SELECT pg_reload_conf()');
  expect(await within(500, appended)).toBe('waits');
  await primary.query('ALTER SYSTEM RESET synchronous_standby_names');
  await primary.query('SELECT pg_reload_conf()');
  standby.thaw();
  expect(await appended).toEqual(['accepted']);
  await store.close();
});

test('[R-1250] a primary that was restarted alone acknowledges no event that it had not replicated', async () => {
  const { primary, standby } = pair;
  const store = await open();
  await store.append([candidate()]);
  await standby.stop('SIGKILL');
  const event = candidate();
  const lost = store.append([event]).catch((error: unknown) => error);
  await commitWaits();
  await primary.stop('SIGKILL');
  await primary.run();
  const again = store.append([event]).catch((error: unknown) => error);
  expect(await within(1500, Promise.race([lost, again]))).toBe('waits');
  await standby.run();
  for (;;) {
    const outcome = await store.append([event]).catch(() => undefined);
    if (outcome !== undefined) {
      expect(['accepted', 'duplicate']).toContain(outcome[0]);
      break;
    }
  }
  expect((await storedOn(primary)).get(uuidText(event.eventId))).toBe(1);
  await Promise.all([lost, again]);
  await store.close();
});

test('[R-1250] settings that weaken or hide replication are detected with each batch: nothing is acknowledged', async ({
  skip,
}) => {
  const { primary } = pair;
  const [version] = await primary.query(`SELECT current_setting('server_version_num')::int AS number`);
  skip(Number(version?.['number']) < 170_000, 'PostgreSQL has event triggers on login from 17 on');
  // As a pooler or an administrator does it, after the settings of the connection.
  await primary.query(`CREATE ROLE weak LOGIN SUPERUSER;
    CREATE FUNCTION weaken() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
      IF session_user = 'weak' THEN PERFORM set_config('synchronous_commit', 'remote_write', false); END IF;
      IF session_user = 'hidden' THEN PERFORM set_config('client_min_messages', 'error', false); END IF; END $$;
    CREATE EVENT TRIGGER weaken ON login EXECUTE FUNCTION weaken(); CREATE ROLE hidden LOGIN SUPERUSER`);
  const stores = await Promise.all(['weak', 'hidden'].map((user) => open({ ...address, user })));
  const outcomes = await Promise.allSettled(stores.map((store) => store.append([candidate()])));
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await Promise.all(stores.map((store) => store.close()));
});

test('[R-1250] a primary that returns while another one runs is not used', async () => {
  const { primary, standby } = pair;
  const store = await open();
  await store.append([candidate()]);
  await primary.stop('SIGKILL');
  await standby.promote();
  await standby.query(`ALTER SYSTEM SET synchronous_standby_names = ''`);
  await standby.query('SELECT pg_reload_conf()');
  const connection = await Connection.open(address, 'test');
  expect(connection.host.port).toBe(standby.port);
  await connection.close();
  await primary.run();
  for (let i = 0; i < 3; i++) {
    const again = await Connection.open(address, 'test');
    expect(again.host.port).toBe(standby.port);
    await again.close();
  }
  await standby.stop('SIGKILL');
  await expect(Connection.open(address, 'test')).rejects.toThrow(/was the primary before another took over/);
  await store.close();
});

test('[R-1250] acknowledged events are on the new primary, once, when the old one is killed and the standby promoted', async () => {
  const stores = await Promise.all([open(), open(), open()]);
  const acknowledged = new Set<string>();
  const stop = new AbortController();
  const senders = stores.flatMap((store) => [1, 2].map(() => send(store, acknowledged, stop.signal)));
  let { primary, standby } = pair;
  for (let failover = 0; failover < runs(30, 2); failover++) {
    const before = acknowledged.size;
    while (acknowledged.size < before + 200) await sleep(20);
    await primary.stop('SIGKILL');
    await standby.promote();
    await primary.rebuildFrom(standby);
    [primary, standby] = [standby, primary];
  }
  const before = acknowledged.size;
  while (acknowledged.size < before + 200) await sleep(20);
  stop.abort();
  await Promise.all(senders);
  await assertStored(acknowledged, primary);
  await Promise.all(stores.map((store) => store.close()));
});

/** A collector in its own process (killed-collector.mjs), one of three places. */
class Killable {
  readonly process: ChildProcess;
  /** Batches that it has acknowledged. */
  acknowledged = 0;
  complaints = '';

  constructor(directory: string, place: number, ids: Set<string>) {
    const args = [primaryAndStandby(), path.join(directory, String(place)), path.join(directory, 'keys')];
    this.process = spawn(process.execPath, [KILLED_COLLECTOR, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // A failed test must not leave one running.
    onTestFinished(() => {
      this.process.kill('SIGKILL');
    });
    let rest = '';
    this.process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) for (const id of line.split(' ')) ids.add(id);
      this.acknowledged += lines.length;
    });
    this.process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.complaints += text));
  }

  /** On return it has acknowledged something. */
  async stores(): Promise<void> {
    while (this.acknowledged === 0) {
      if (this.process.exitCode !== null) throw new Error(`it ended: ${this.complaints}`);
      await sleep(5);
    }
  }

  /** On return it has ended, and all that it wrote was read. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const closed = new Promise((resolve) => this.process.once('close', resolve));
    this.process.kill(signal);
    await closed;
  }
}

function primaryAndStandby(): string {
  const { primary, standby } = pair;
  return `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
}

/** What was acknowledged is on the primary, and nothing is there twice. */
async function assertStored(acknowledged: ReadonlySet<string>, on = pair.primary): Promise<void> {
  const stored = await storedOn(on);
  for (const id of acknowledged) expect(stored.get(id), id).toBe(1);
  expect([...stored.values()].filter((rows) => rows !== 1)).toEqual([]);
}

/** Everything in the log is as it was stored and signed, in the database and in a mirror of it. */
async function assertIntact(directory: string): Promise<void> {
  const mirror = path.join(directory, 'mirror');
  for (const args of [
    ['verify', '--store', primaryAndStandby(), '--data-dir', path.join(directory, '0')],
    ['mirror', '--once', '--store', primaryAndStandby(), '--data-dir', mirror],
    ['verify', '--data-dir', mirror],
  ]) {
    const { code, stdout, stderr } = await run(args);
    expect(code, stdout + stderr).toBe(0);
  }
}

test('[R-1250] acknowledged events are stored once when collectors are killed at any moment, and others continue', async () => {
  const directory = scratch();
  const acknowledged = new Set<string>();
  const begin = (place: number) => new Killable(directory, place, acknowledged);
  const first = begin(0);
  await first.stores();
  const running = [first, begin(1), begin(2)];
  for (let kill = 0; kill < runs(300, 10); kill++) {
    const place = kill % running.length;
    await running[place]?.stores();
    // Somewhere in a batch, a sequencing, a signature or none of them.
    await sleep(random.below(50));
    await running[place]?.end('SIGKILL');
    expect(running[place]?.complaints).toBe('');
    running[place] = begin(place);
  }
  for (const each of running) await each.stores();
  await Promise.all(running.map((each) => each.end('SIGTERM')));
  await assertStored(acknowledged);
  await assertIntact(directory);
});

/** Of collectors in `collectors`, the process whose statement waits for a lock. */
async function waitsIn(statement: string): Promise<number> {
  for (;;) {
    const [row] = await pair.primary.query(`SELECT c.pid FROM pg_stat_activity a
      JOIN collector.collectors c ON a.application_name LIKE '% of ' || c.collector_id
      WHERE a.wait_event_type = 'Lock' AND a.query LIKE '%${statement}%'`);
    if (row !== undefined) return Number(row['pid']);
    await sleep(5);
  }
}

/** Where it pauses: a name, a table that is locked, and what waits for it. */
const MOMENTS = [
  ['an append', 'event_ids', 'INSERT INTO event_ids'],
  ['giving places', 'sequenced', 'INSERT INTO sequenced'],
  ['between giving places and signing', 'tiles', 'tiles'],
] as const;

test.each(MOMENTS.slice(0, runs(MOMENTS.length, 1)))(
  '[R-1254] a collector that pauses in %s until its lanes are closed blocks no other, and continues',
  async (_, table, statement) => {
    const { primary } = pair;
    const directory = scratch();
    const acknowledged = new Set<string>();
    const first = new Killable(directory, 0, acknowledged);
    await first.stores();
    const running = [first, new Killable(directory, 1, acknowledged)];
    await running[1]?.stores();
    const lock = new pg.Client({ connectionString: primary.url() });
    await lock.connect();
    await lock.query(`BEGIN; LOCK TABLE collector.${table} IN EXCLUSIVE MODE`);
    const pid = await waitsIn(statement);
    process.kill(pid, 'SIGSTOP');
    await lock.query('ROLLBACK');
    await lock.end();
    const stopped = `collector_id IN (SELECT collector_id FROM collector.collectors WHERE pid = ${pid})`;
    // As if it had paused for an hour.
    await primary.query(
      `UPDATE collector.collectors SET seen_at = seen_at - interval '2 hours' WHERE ${stopped}`,
    );
    const open = `SELECT 1 FROM collector.open_lanes JOIN collector.lanes USING (lane) WHERE ${stopped}`;
    while ((await primary.query(open)).length > 0) await sleep(50);
    const { acknowledged: before } = running.find(({ process: { pid: its } }) => its === pid) ?? {};
    expect(before).toBeGreaterThan(0);
    process.kill(pid, 'SIGCONT');
    const woken = running.find((each) => each.process.pid === pid);
    while ((woken?.acknowledged ?? 0) < (before ?? 0) + 10) await sleep(5);
    await Promise.all(running.map((each) => each.end('SIGTERM')));
    expect(running.map(({ complaints }) => complaints)).toEqual(['', '']);
    await assertStored(acknowledged);
    await assertIntact(directory);
  },
);

test('[R-1425] while a newer version changes the tables, collectors of the version before continue, and lose nothing', async () => {
  const directory = scratch();
  const acknowledged = new Set<string>();
  const old = new Killable(directory, 0, acknowledged);
  await old.stores();
  const another = new Killable(directory, 1, acknowledged);
  await another.stores();
  const connection = await Connection.open(address, 'test');
  for (let step = 1; step <= runs(20, 3); step++) {
    const sql = `ALTER TABLE batches ADD COLUMN later_${step} int;\nCREATE TABLE later_${step} (n int PRIMARY KEY);\n`;
    const later = Array.from({ length: step }, (_, i) => ({
      name: `step ${i + 1}`,
      sql: i + 1 === step ? sql : '',
      olderMayRun: true,
    }));
    await migrate(connection, address.schema, 'replicated', [...MIGRATIONS, ...later]);
    const before = [old.acknowledged, another.acknowledged];
    while (old.acknowledged <= (before[0] ?? 0) || another.acknowledged <= (before[1] ?? 0)) await sleep(5);
  }
  await connection.close();
  // One that is started now, or opens a lane, finds tables that it does not all know.
  const replaced = new Killable(directory, 2, acknowledged);
  await replaced.stores();
  await another.end('SIGKILL');
  await Promise.all([old, replaced].map((each) => each.end('SIGTERM')));
  expect([old, another, replaced].map(({ complaints }) => complaints)).toEqual(['', '', '']);
  await assertStored(acknowledged);
  await assertIntact(directory);
});
