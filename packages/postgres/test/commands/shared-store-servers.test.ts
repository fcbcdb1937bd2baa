/** Collectors on a database whose server fills up, changes its login, or is another one than yesterday. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import {
  keyFrom,
  outcomeEvent,
  postEvent,
  run,
  type Running,
  start,
} from '../../../collector/test/running/collector-process.js';
import { DEBIAN_15, PostgresServer, signed as signedIn } from '../running/postgres-server.js';
import { scratch } from '../../../collector/test/running/scratch.js';
import { SmallDisk, whyNoSmallDisk } from '../running/small-disk.js';
import { succeeds } from './shared-log.js';

async function post(to: Running, key: string, event: object): Promise<number> {
  const response = await postEvent(to, key, event);
  if (response.status === 503) expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  await response.arrayBuffer();
  return response.status;
}

/** On return the newest checkpoint covers so many events. */
const signed = (server: PostgresServer, entries: number) => signedIn(server, 'collector', entries);

async function serverOf(...kind: Parameters<typeof PostgresServer.start>): Promise<PostgresServer> {
  const server = await PostgresServer.start(...kind);
  onTestFinished(() => server.remove());
  return server;
}

const OF_SENDERS = `SELECT count(*)::int AS events FROM collector.event_ids JOIN collector.organisations USING (organisation_id) WHERE name <> ''`;
const FULL = whyNoSmallDisk();
if (FULL !== undefined) console.warn(`\n*** THE DISK OF A SERVER IS NOT FILLED HERE: ${FULL}\n`);

test.skipIf(FULL !== undefined)(
  '[R-1251] on a full disk of the database a collector answers 503, loses nothing, and goes on when there is room',
  async () => {
    const server = await serverOf();
    await server.stop();
    const disk = await SmallDisk.under(server, 'base', 96);
    onTestFinished(() => disk.remove());
    await server.run();
    const store = server.url();
    await succeeds('store', 'migrate', '--store', store, '--durability', 'local');
    const collector = await start(scratch(), ['--store', store]);
    const key = await keyFrom(collector);
    const large = () => outcomeEvent({ system_metadata: { note: 'x'.repeat(100_000) } });
    disk.fill();
    let refused = large();
    let acknowledged = 0;
    for (; (await post(collector, key, refused)) === 201; refused = large()) acknowledged++;
    for (let i = 0; i < 5; i++) expect(await post(collector, key, refused)).toBe(503);
    disk.relieve();
    while ((await post(collector, key, refused)) !== 201) await sleep(50);
    await signed(server, acknowledged + 1);
    expect(await succeeds('verify', '--store', store)).toMatch(/INTACT/);
    const [row] = await server.query(OF_SENDERS);
    expect(row).toEqual({ events: acknowledged + 1 });
    expect(await collector.stop()).toBe(0);
  },
);

test('[R-1251] when the password of its role changes a collector answers 503 until its file has the new one, and goes on signing', async () => {
  const server = await serverOf();
  const file = path.join(scratch(), 'pgpass');
  const has = (password: string) => fs.writeFileSync(file, `*:*:*:app:${password}\n`, { mode: 0o600 });
  await server.query(`CREATE ROLE app LOGIN SUPERUSER PASSWORD 'first'`);
  await succeeds('store', 'migrate', '--store', server.url(), '--durability', 'local');
  server.write(
    'pg_hba.conf',
    'host all app 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n',
  );
  await server.query('SELECT pg_reload_conf()');
  has('first');
  const store = ['--store', server.url('postgres', 'app')];
  const collector = await start(scratch(), store, [], { PGPASSFILE: file });
  const key = await keyFrom(collector);
  expect(await post(collector, key, outcomeEvent())).toBe(201);
  expect(collector.output.stderr).not.toContain('Warning');
  await server.query(`ALTER ROLE app PASSWORD 'second'`);
  // The sessions that are open would go on.
  await server.query(
    `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE 'collector/%'`,
  );
  const event = outcomeEvent();
  for (let i = 0; i < 3; i++) expect(await post(collector, key, event)).toBe(503);
  has('second');
  while ((await post(collector, key, event)) !== 201) await sleep(50);
  await signed(server, 2);
  expect(await collector.stop()).toBe(0);
});

/** Brings the log of one server to another. */
type Copy = (from: PostgresServer, to: PostgresServer) => Promise<void>;

const dumped: Copy = async (from, to) => {
  const reach = ({ port }: PostgresServer) => ['-h', '127.0.0.1', '-p', String(port), '-U', 'postgres', '-X'];
  const program = (name: string) => path.join(DEBIAN_15, name);
  const dump = execFileSync(program('pg_dump'), [...reach(from).slice(0, -1), '-n', 'collector', 'postgres']);
  const restore = [...reach(to), '-q', '-v', 'ON_ERROR_STOP=1', 'postgres'];
  execFileSync(program('psql'), restore, { input: dump, stdio: ['pipe', 'ignore', 'inherit'] });
  return Promise.resolve();
};

/** The rows of every table: what logical replication brings over. */
const rowByRow: Copy = async (from, to) => {
  await succeeds('store', 'migrate', '--store', to.url(), '--durability', 'local');
  const tables = await from.query(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = 'collector'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`,
  );
  for (const { name } of tables) {
    const table = `collector.${String(name)}`;
    const [row] = await from.query(`SELECT coalesce(json_agg(t), '[]')::text AS rows FROM ${table} AS t`);
    const rows = String(row?.['rows']).replaceAll("'", "''");
    await to.query(`SET session_replication_role = replica; DELETE FROM ${table};
      INSERT INTO ${table} OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::${table}, '${rows}')`);
  }
  // As the guide has it.
  await to.query(
    `SELECT setval(pg_get_serial_sequence('collector.organisations', 'organisation_id'), max(organisation_id)) FROM collector.organisations;
     SELECT setval(pg_get_serial_sequence('collector.api_keys', 'created_order'), max(created_order)) FROM collector.api_keys`,
  );
};

/** By a real dump where there are programs for it; those of one version take no newer server. */
const [WAY, COPY, KIND] = fs.existsSync(path.join(DEBIAN_15, 'pg_dump'))
  ? (['a dump', dumped, { programs: DEBIAN_15 }] as const)
  : (['copies of its rows', rowByRow, {}] as const);

test(`[R-1262] a log that was restored from ${WAY} is not written to until it was adopted, and is whole`, async () => {
  const [from, to] = [await serverOf({}, KIND), await serverOf({}, KIND)];
  const directory = scratch();
  const sink = path.join(directory, 'sink');
  const options = ['--checkpoint-sink', `file:${sink}`];
  await succeeds('store', 'migrate', '--store', from.url(), '--durability', 'local');
  const before = await start(directory, ['--store', from.url(), ...options]);
  const key = await keyFrom(before);
  const events = Array.from({ length: 20 }, () => outcomeEvent());
  for (const event of events) expect(await post(before, key, event)).toBe(201);
  await signed(from, events.length);
  expect(await before.stop()).toBe(0);
  await COPY(from, to);

  const store = to.url();
  const refused = await run(['serve', '--store', store, '--data-dir', directory, '--port', '0', ...options]);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('collector store check --adopt');
  expect((await run(['store', 'check', '--store', store])).code).toBe(3);
  // Reading is how it is held against what was given out.
  expect(await succeeds('verify', '--store', store, '--against', sink)).toContain('INTACT');

  await succeeds('store', 'check', '--store', store, '--adopt');
  const after = await start(directory, ['--store', store, ...options]);
  for (const event of [...events, outcomeEvent()]) expect(await post(after, key, event)).toBe(201);
  const changed = { ...events[0], outcome: { outcome_type: 'contradicted' } };
  expect(await post(after, key, changed)).toBe(409);
  await signed(to, events.length + 1);
  expect(await after.stop()).toBe(0);
  expect(await succeeds('verify', '--store', store, '--against', sink)).toContain('INTACT');
  const [row] = await to.query(OF_SENDERS);
  expect(row).toEqual({ events: events.length + 1 });
});
