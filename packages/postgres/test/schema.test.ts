/** The tables of a log, and how a database comes to have them. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { examineLog, maintainLog, migrateLog, rolesOf } from '../src/administration.js';
import { type Address, parseAddress } from '../src/address.js';
import { Connection } from '../src/connection.js';
import { PostgresStore } from '../src/postgres-store.js';
import { NotCommitted } from '@clinical-events/collector/store/contract/events';
import { Unusable } from '@clinical-events/collector/unusable';
import { MIGRATIONS, makePeriods } from '../src/schema.js';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { candidate } from '../../collector/test/store/candidate.js';

let server: PostgresServer;
let address: Address;
let schemas = 0;

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.remove());
beforeEach(async () => {
  address = parseAddress(`${server.url()}?schema=log_${schemas++}`);
  await migrateLog(address, 'local');
});

function sql(text: string): Promise<Record<string, unknown>[]> {
  return server.query(text.replaceAll('LOG.', `${address.schema}.`));
}

async function stores(): Promise<void> {
  const store = await PostgresStore.open({
    ...{ address, version: 'test', onTrouble: () => undefined, onLost: () => undefined },
    sealKey: () => Promise.resolve(SEAL_KEY),
  });
  try {
    expect(await store.append([candidate()])).toEqual(['accepted']);
  } finally {
    await store.close();
  }
}

test('a migration can be run again, and the log keeps its id and durability', async () => {
  const [first] = await sql('SELECT ledger_id, durability FROM LOG.log');
  expect(await migrateLog(address, 'replicated')).toEqual({
    ...{ ledgerId: first?.['ledger_id'], durability: 'local', applied: [] },
  });
});

test('[R-2031] a log of an unreleased version is refused in one sentence, and remains unchanged', async () => {
  await stores();
  await sql(`UPDATE LOG.schema_migrations SET sha256 = 'x'`);
  const refusal = 'migration 1 was made by an unreleased version of the collector';
  await expect(stores()).rejects.toThrow(refusal);
  await expect(migrateLog(address)).rejects.toThrow(refusal);
  expect(await sql('SELECT sha256 FROM LOG.schema_migrations')).toEqual([{ sha256: 'x' }]);
});

test('[R-2057] a database that a newer collector has migrated is used, unless that one forbids it', async () => {
  const id = MIGRATIONS.length + 1;
  await sql(`INSERT INTO LOG.schema_migrations (id, name, sha256) VALUES (${id}, 'something new', 'x')`);
  await stores();
  await sql(`UPDATE LOG.schema_migrations SET older_may_run = false WHERE id = ${id}`);
  const refused = await stores().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Unusable);
  expect(String(refused)).toContain('a newer collector has migrated this database');
});

test('there are partitions for a year, more are made once a month, and events are stored without them too', async () => {
  const months = async () => Number((await sql('SELECT count(*)::int AS n FROM LOG.periods'))[0]?.['n']);
  expect(await months()).toBe(13);
  expect(await maintainLog(address)).toEqual({ months: 0, takenOut: 0 });
  const connection = await Connection.open(address, 'test');
  const now = new Date();
  // The first day: the 31st of a month may have no counterpart three months later.
  const later = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 3, 1));
  expect(await makePeriods(connection, later)).toBe(3);
  expect(await months()).toBe(16);
  await connection.close();
  await sql(`UPDATE LOG.periods SET begins = begins - interval '3 years'`);
  await stores();
  const findings = await examineLog(address);
  expect(findings.find(({ subject }) => subject === 'partitions')).toMatchObject({ severity: 'warning' });
});

test('[R-1251] while the table of the month is detached nothing is acknowledged, and it continues when it is attached', async () => {
  const store = await PostgresStore.open({
    ...{ address, lanes: 1, version: 'test', onTrouble: () => undefined, onLost: () => undefined },
    sealKey: () => Promise.resolve(SEAL_KEY),
  });
  expect(await store.append([candidate()])).toEqual(['accepted']);
  const event = candidate();
  await sql('ALTER TABLE LOG.events DETACH PARTITION LOG.events_0');
  await expect(store.append([event])).rejects.toThrow(NotCommitted);
  await sql('ALTER TABLE LOG.events ATTACH PARTITION LOG.events_0 FOR VALUES FROM (0) TO (1000000)');
  expect(await store.append([event])).toEqual(['accepted']);
  expect(await sql('SELECT count(*)::int AS n FROM LOG.event_ids')).toEqual([{ n: 2 }]);
  await store.close();
});

test('[R-1250] a warning belongs to the statement that it came with, also after its rows, and to no other', async () => {
  await sql(`CREATE TABLE LOG.warns (n int);
    CREATE FUNCTION LOG.warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'late'; RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON LOG.warns DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION LOG.warn()`);
  const connection = await Connection.open(address, 'test');
  for (let i = 0; i < 50; i++) {
    const warned = await connection.query('INSERT INTO warns VALUES (1) RETURNING n');
    const next = await connection.query('SELECT 1');
    expect([warned.warnings, next.warnings]).toEqual([['01000'], []]);
  }
  await connection.close();
});

/** Tables with columns, constraints, indexes, options and rights, functions, from the catalogues of the server. */
const DUMP = `
WITH relations AS (
  SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'SCHEMA' AND c.relkind IN ('r', 'p') AND NOT c.relispartition),
rights AS (
  SELECT c.oid, '' AS attribute, a.* FROM relations c CROSS JOIN LATERAL aclexplode(c.relacl) a
  UNION ALL SELECT c.oid, '(' || t.attname || ')', a.* FROM relations c
    JOIN pg_attribute t ON t.attrelid = c.oid AND t.attacl IS NOT NULL CROSS JOIN LATERAL aclexplode(t.attacl) a)
SELECT relname AS part, 0 AS kind, 'TABLE ' || relname || coalesce(' PARTITION BY ' || pg_get_partkeydef(oid), '')
    || coalesce(' WITH (' || array_to_string(reloptions, ', ') || ')', '') AS line FROM relations
UNION ALL
SELECT c.relname, 100 + t.attnum, '  ' || t.attname || ' ' || format_type(t.atttypid, t.atttypmod)
    || CASE WHEN l.collname = 'C' THEN ' COLLATE "C"' ELSE '' END || CASE WHEN t.attnotnull THEN ' NOT NULL' ELSE '' END
    || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') || CASE t.attidentity WHEN 'a' THEN ' IDENTITY' ELSE '' END
    || CASE t.attstorage WHEN 'e' THEN ' STORAGE EXTERNAL' ELSE '' END
  FROM relations c JOIN pg_attribute t ON t.attrelid = c.oid AND t.attnum > 0 AND NOT t.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = t.attnum LEFT JOIN pg_collation l ON l.oid = t.attcollation
UNION ALL
SELECT c.relname, 2000, '  CONSTRAINT ' || k.conname || ' ' || pg_get_constraintdef(k.oid)
  FROM relations c JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype <> 'n'
UNION ALL
SELECT c.relname, 3000, '  ' || pg_get_indexdef(i.indexrelid) FROM relations c JOIN pg_index i ON i.indrelid = c.oid
UNION ALL
SELECT c.relname, 4000, '  GRANT ' || privilege_type || string_agg(attribute, '' ORDER BY attribute) || ' TO '
    || grantee::regrole FROM relations c JOIN rights r USING (oid) WHERE grantee <> c.relowner
  GROUP BY c.relname, privilege_type, grantee
UNION ALL
SELECT 'functions', 5000, pg_get_functiondef(p.oid) || (
    SELECT coalesce(string_agg(E'\\nGRANT ' || privilege_type || ' TO ' || grantee::regrole, '' ORDER BY grantee::regrole::text), '')
    FROM aclexplode(p.proacl) WHERE grantee <> p.proowner)
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'SCHEMA'
ORDER BY 1, 2, 3`;

test('the tables, functions and rights are those of schema.sql beside this file', async () => {
  await server.query(rolesOf(address));
  const rows = await server.query(DUMP.replaceAll('SCHEMA', address.schema));
  const lines = rows.map(({ line }) => String(line).replaceAll(address.schema, 'log'));
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('schema.sql');
});

test('every index compares text by its bytes', async () => {
  const found = await sql(
    `SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL unnest(i.indcollation::oid[]) AS k (collation_id)
     JOIN pg_collation l ON l.oid = k.collation_id
     WHERE n.nspname = '${address.schema}' AND l.collname <> 'C'`,
  );
  expect(found).toEqual([]);
});
