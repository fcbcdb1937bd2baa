/** What people and the network change around a database while collectors run: logins, certificates, names. */
import dns from 'node:dns';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { CommitUnknown, NotCommitted } from '@clinical-events/collector/store/contract/events';
import { parseAddress } from '../src/address.js';
import { migrateLog } from '../src/administration.js';
import { Connection } from '../src/connection.js';
import { PostgresStore } from '../src/postgres-store.js';
import { Authority, type Issued } from '../../collector/test/running/certificates.js';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { Relay } from './running/relay.js';
import { scratch } from '../../collector/test/running/scratch.js';
import { candidate, idOf } from '../../collector/test/store/candidate.js';

let server: PostgresServer;
let schema: string;
let logs = 0;

beforeAll(async () => {
  server = await PostgresServer.start();
  await server.query('CREATE ROLE app LOGIN SUPERUSER');
});
afterAll(() => server.remove());
beforeEach(async () => {
  schema = `log_${logs++}`;
  await migrateLog(parseAddress(`${server.url()}?schema=${schema}`), 'local');
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

/** @param options of the address, after the schema. */
async function open({
  user = 'postgres',
  host = '127.0.0.1',
  port = server.port,
  lanes = 1,
  options = '',
} = {}) {
  const store = await PostgresStore.open({
    address: parseAddress(`postgres://${user}@${host}:${port}/postgres?schema=${schema}${options}`),
    sealKey: () => Promise.resolve(SEAL_KEY),
    ...{ lanes, version: 'test', onTrouble: () => undefined, onLost: () => undefined },
  });
  onTestFinished(() => store.close());
  return store;
}

/** The result of an event on a new connection: an outcome, or why there is none. */
async function outcome(store: PostgresStore): Promise<string> {
  await server.query(
    `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE 'collector/%'`,
  );
  try {
    return (await store.append([candidate()])).join();
  } catch (error) {
    if (!(error instanceof NotCommitted || error instanceof CommitUnknown)) throw error;
    return String((error.cause as Error | undefined)?.message);
  }
}

/** The server reads its files some time after the signal. */
async function comesTo(store: PostgresStore, wanted: RegExp | string): Promise<void> {
  await server.query('SELECT pg_reload_conf()');
  await expect.poll(() => outcome(store)).toMatch(wanted);
}

test('[R-1251] while the password of its role is another one a collector refuses, and continues with the new one', async () => {
  const file = path.join(scratch(), 'pgpass');
  const setPassword = (password: string) => {
    fs.writeFileSync(file, `*:*:*:app:${password}\n`, { mode: 0o600 });
  };
  server.write(
    'pg_hba.conf',
    'host all app 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n',
  );
  await server.query(`ALTER ROLE app PASSWORD 'first'; SELECT pg_reload_conf()`);
  vi.stubEnv('PGPASSFILE', file);
  setPassword('first');
  const store = await open({ user: 'app' });
  await comesTo(store, 'accepted');
  await server.query(`ALTER ROLE app PASSWORD 'second'`);
  // Open sessions remain logged in.
  expect(await store.append([candidate()])).toEqual(['accepted']);
  expect(await outcome(store)).toMatch('password authentication failed');
  expect(await outcome(store)).toMatch('password authentication failed');
  setPassword('second');
  expect(await outcome(store)).toBe('accepted');
  await server.query(`ALTER ROLE app VALID UNTIL 'yesterday'`);
  expect(await outcome(store)).toMatch('password authentication failed');
  await server.query(`ALTER ROLE app VALID UNTIL 'infinity'`);
  expect(await outcome(store)).toBe('accepted');
});

test('[R-1251] an invalid certificate of the server or of the collector is refused, and one that replaces it is used', async () => {
  const directory = scratch();
  const [authority, successor] = [new Authority(), new Authority('Next CA')];
  const has = ({ certificate, key }: Issued) => {
    server.write('server.crt', certificate);
    server.write('server.key', key);
  };
  const place = (name: string, text: string) => {
    fs.writeFileSync(path.join(directory, name), text, { mode: 0o600 });
    return path.join(directory, name);
  };
  const shows = ({ certificate, key }: Issued) => [place('app.crt', certificate), place('app.key', key)];
  const names = ['dns:localhost'];
  has(authority.issue({ names }));
  server.write('ca.crt', authority.certificate);
  server.write('pg_hba.conf', 'hostssl all app 127.0.0.1/32 cert\nhost all postgres 127.0.0.1/32 trust\n');
  server.configure({
    ssl: 'on',
    ssl_cert_file: 'server.crt',
    ssl_key_file: 'server.key',
    ssl_ca_file: 'ca.crt',
  });
  await server.query('SELECT pg_reload_conf()');
  const [cert, key] = shows(authority.issue({ commonName: 'app' }));
  const root = place('root.crt', authority.certificate);
  await expect.poll(() => server.query("SELECT current_setting('ssl') AS ssl")).toEqual([{ ssl: 'on' }]);
  const store = await open({
    ...{ user: 'app', host: 'localhost' },
    options: `&sslmode=verify-full&sslrootcert=${root}&sslcert=${cert}&sslkey=${key}`,
  });
  await comesTo(store, 'accepted');
  has(authority.issue({ names, days: -1 }));
  await comesTo(store, 'certificate has expired');
  has(authority.issue({ names: ['dns:elsewhere.example'] }));
  await comesTo(store, "does not match certificate's altnames");
  has(successor.issue({ names }));
  await comesTo(store, 'unable to verify the first certificate');
  place('root.crt', authority.certificate + successor.certificate);
  expect(await outcome(store)).toBe('accepted');
  shows(authority.issue({ commonName: 'app', days: -1 }));
  expect(await outcome(store)).toMatch(/certificate expired/);
  shows(authority.issue({ commonName: 'app' }));
  expect(await outcome(store)).toBe('accepted');
});

test('[R-1430] each sslmode means the same as for psql on this machine', async () => {
  const authority = new Authority();
  const { certificate, key } = authority.issue({ names: ['dns:localhost', 'ip:127.0.0.1'] });
  server.write('server.crt', certificate);
  server.write('server.key', key);
  const root = path.join(scratch(), 'root.crt');
  fs.writeFileSync(root, authority.certificate);
  const socket = fs.mkdtempSync('/tmp/collector-socket-');
  fs.chmodSync(socket, 0o777);
  onTestFinished(() => fs.rmSync(socket, { recursive: true, force: true }));
  server.configure({ ssl: 'on', ssl_cert_file: 'server.crt', ssl_key_file: 'server.key', ssl_ca_file: '' });
  server.configure({ unix_socket_directories: socket });
  const hasLines = (...lines: string[]) =>
    server.write('pg_hba.conf', [...lines, 'host all postgres 127.0.0.1/32 trust', ''].join('\n'));
  hasLines('hostssl all app all trust', 'local all app trust');
  await server.stop();
  await server.run();
  const seen = async (options: string, host = 'localhost') => {
    const at = parseAddress(`postgres://app@${host}:${server.port}/postgres?schema=${schema}${options}`);
    try {
      const connection = await Connection.open(at, 'test');
      const { rows } = await connection.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()');
      await connection.close();
      return rows[0]?.[0] === 't' ? 'encrypted' : 'plain';
    } catch (error) {
      return (error as Error).message;
    }
  };
  const trusted = `&sslrootcert=${root}`;
  for (const [options, host] of [
    ...['', '&sslmode=allow', '&sslmode=prefer', '&sslmode=require'].map((each) => [each]),
    ...[`&sslmode=require${trusted}`, `&sslmode=verify-ca${trusted}`].map((each) => [each]),
    ...[`&sslmode=verify-full${trusted}`].flatMap((each) => [[each], [each, '127.0.0.1']]),
  ] as [string, string?][])
    expect(await seen(options, host), `${options} ${host ?? ''}`).toBe('encrypted');
  expect(await seen('&sslmode=disable')).toMatch(/no pg_hba\.conf entry .* no encryption/);
  expect(await seen(`&sslmode=verify-full`)).toMatch('unable to verify the first certificate');
  expect(await seen(`&sslmode=require&sslrootcert=${root}`, '127.0.0.1')).toBe('encrypted');
  const encoded = encodeURIComponent(socket);
  for (const mode of ['', '&sslmode=require', '&sslmode=verify-full'])
    expect(await seen(mode, encoded), mode).toBe('plain');

  hasLines('hostnossl all app all trust');
  await server.query('SELECT pg_reload_conf()');
  await expect.poll(() => seen('')).toBe('plain');
  expect(await seen('&sslmode=require')).toMatch(/no pg_hba\.conf entry .* SSL encryption/);
  hasLines();
  await server.query('SELECT pg_reload_conf()');
  await expect.poll(() => seen('')).toMatch(/no pg_hba\.conf entry/);

  for (const mode of ['disable', 'allow', 'prefer', 'require'])
    for (const host of ['db1', 'localhost,db1', '127.example.org', '%2Frun,db1'])
      expect(() => parseAddress(`postgres://${host}/db?sslmode=${mode}`), `${mode} ${host}`).toThrow(
        `sslmode=${mode}`,
      );
  expect(parseAddress(`postgres://db1/db?sslmode=require${trusted}`).ssl).toHaveLength(1);
  expect(() => parseAddress('postgres:///db')).toThrow('%2Fvar%2Frun%2Fpostgresql');
});

test('[R-1251] a host name is resolved for each connection, and while it cannot be, events are refused', async () => {
  const before = await Relay.to(server.port, '127.0.0.2');
  const after = await Relay.to(server.port, '127.0.0.3', before.port);
  onTestFinished(async () => {
    await before.close();
    await after.close();
  });
  let answer: string | Error | undefined = '127.0.0.2';
  const lookup = (
    _: string,
    __: unknown,
    done: (error: Error | null, found?: dns.LookupAddress[]) => void,
  ) => {
    if (answer instanceof Error) done(answer);
    else if (answer !== undefined) done(null, [{ address: answer, family: 4 }]);
  };
  vi.spyOn(dns, 'lookup').mockImplementation(lookup as never);
  // No other name is taken without TLS.
  const store = await open({ host: 'localhost', port: before.port });
  expect(await outcome(store)).toBe('accepted');
  answer = '127.0.0.3';
  before.refuse();
  expect(await outcome(store)).toBe('accepted');
  answer = Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' });
  expect(await outcome(store)).toMatch('ENOTFOUND');
  answer = undefined;
  expect(await outcome(store)).toMatch('timeout');
  answer = '127.0.0.3';
  expect(await outcome(store)).toBe('accepted');
});

test('[R-1430] a missing password and an unknown authority are named', async () => {
  const { certificate, key } = new Authority().issue({ names: ['dns:localhost'] });
  server.write('server.crt', certificate);
  server.write('server.key', key);
  server.configure({ ssl: 'on', ssl_cert_file: 'server.crt', ssl_key_file: 'server.key', ssl_ca_file: '' });
  server.configure({ unix_socket_directories: '' });
  server.write('pg_hba.conf', 'host all app all scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n');
  await server.stop();
  await server.run();
  await server.query("ALTER ROLE app PASSWORD 'secret'");
  vi.stubEnv('PGPASSFILE', path.join(scratch(), 'none'));
  onTestFinished(() => void vi.unstubAllEnvs());
  const reason = (options: string) =>
    Connection.open(
      parseAddress(`postgres://app@localhost:${server.port}/postgres?schema=${schema}${options}`),
      'test',
    ).then(
      () => '',
      (error: unknown) => (error as Error).message,
    );
  expect(await reason('')).toContain(
    `no password for app@localhost:${server.port} in PGPASSWORD or PGPASSFILE`,
  );
  expect(await reason('&sslmode=verify-full')).toContain('sslrootcert');
});

test('[R-1425] errors of a server with another language are refusals as in English', async () => {
  const relay = await Relay.to(server.port);
  onTestFinished(() => relay.close());
  // The word for the severity: the package of the server has no other language.
  relay.toClient = (bytes) =>
    Buffer.from(bytes.toString('latin1').replaceAll('SERROR\0', 'SFEHLR\0'), 'latin1');
  const poison = candidate();
  await server.query(`ALTER TABLE ${schema}.event_ids ADD CHECK (event_id <> '${idOf(poison)}')`);
  const store = await open({ port: relay.port });
  const batch = [candidate(), poison, candidate()];
  expect(await store.append(batch)).toEqual(['accepted', 'unreadable', 'accepted']);
  const [row] = await server.query(`SELECT count(*)::int AS lanes FROM ${schema}.lanes`);
  expect(row).toEqual({ lanes: 1 });
});

test('[R-1251] one event sent to two collectors 256 times at once, and 20,000 times in batches, is stored once', async () => {
  const stores = [await open({ lanes: 4 }), await open({ lanes: 4 })];
  const event = candidate();
  const alone = Array.from({ length: 128 }, () => stores.map((store) => store.append([event])));
  const batches = Array.from({ length: 20 }, () =>
    stores.map((store) => store.append(Array(500).fill(event))),
  );
  const outcomes = (await Promise.all([...alone, ...batches].flat())).flat();
  expect(outcomes).toHaveLength(256 + 20_000);
  expect(outcomes.filter((each) => each === 'accepted')).toHaveLength(1);
  expect(outcomes.filter((each) => each !== 'accepted' && each !== 'duplicate')).toEqual([]);
  const [row] = await server.query(
    `SELECT (SELECT count(*)::int FROM ${schema}.events) AS events, (SELECT count(*)::int FROM ${schema}.event_ids) AS ids,
       (SELECT sum(entries)::int FROM ${schema}.batches) AS leaves`,
  );
  expect(row).toEqual({ events: 1, ids: 1, leaves: 1 });
});
