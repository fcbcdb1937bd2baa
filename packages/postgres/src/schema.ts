/**
 * The tables of a PostgreSQL log (`sql/schema.sql`) and its migrations. A migration runs in one transaction,
 * by the role that owns the schema, and is never edited after a release. `serve` never migrates.
 */
import { createHash, randomBytes } from 'node:crypto';
import { Unusable } from '@clinical-events/collector/unusable';
import type { Connection } from './connection.js';
import type { SharedKeys } from './shared-keys.js';
import { script, sql } from './sql.js';

/** Number of lanes of a month: an `int` is enough for 170 years. */
const LANES_A_PERIOD = 1 << 20;
const PERIODS_AHEAD = 12;

interface Migration {
  readonly name: string;
  /** `:schema` is replaced by the schema of the log. */
  readonly sql: string;
  /** Whether collectors that do not know this migration may run alongside collectors that do. */
  readonly olderMayRun: boolean;
}

/** The migrations in order. Add to the end; never edit a released migration. */
export const MIGRATIONS: readonly Migration[] = [
  { name: 'the tables of a log', sql: script('schema.sql'), olderMayRun: false },
];

/** Thrown if this collector cannot use the database. The message says what to do. */
class SchemaUnfit extends Error {
  override name = 'SchemaUnfit';
}

export interface LogRow {
  readonly ledgerId: string;
  readonly systemId: string;
  readonly durability: 'replicated' | 'local';
  /**
   * Address of the payload keys' database, as a collector named it; undefined if payloads are not encrypted.
   */
  readonly encryptionKeys: string | undefined;
}

/**
 * Migrates the schema to the newest version, and begins a log if there is none. Concurrent calls take turns.
 * @param schema a name that `parseAddress` accepted.
 * @returns the names of the migrations that were applied.
 */
export async function migrate(
  connection: Connection,
  schema: string,
  durability: LogRow['durability'],
  migrations = MIGRATIONS,
): Promise<string[]> {
  await connection.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  const applied: string[] = [];
  await connection.transaction(async () => {
    await connection.query(sql('lock_migration'), [schema]);
    await connection.query(sql('create_migrations'));
    const version = await versionOf(connection);
    for (const [i, { name, sql: text, olderMayRun }] of migrations.entries()) {
      if (i < version) continue;
      for (const statement of statementsOf(text))
        await connection.query(statement.replaceAll(':schema', schema));
      await connection.query(sql('note_migration'), [i + 1, name, sha256(text), olderMayRun]);
      applied.push(name);
    }
    await connection.query(sql('begin_log'), [randomBytes(16).toString('hex'), durability]);
    await makePeriods(connection);
  });
  return applied;
}

/** Makes the missing partitions of this month and the following ones. @returns the number of added months. */
export async function makePeriods(connection: Connection, now = new Date()): Promise<number> {
  const [[newest, last] = []] = (await connection.query(sql('periods'), [now.toISOString()])).rows;
  const from = Number(newest) + 1;
  const to = Math.max(Number(last), 0) + PERIODS_AHEAD;
  for (let period = from; period <= to; period++) {
    const [first, end] = [period * LANES_A_PERIOD, (period + 1) * LANES_A_PERIOD];
    for (const table of ['batches', 'events']) {
      const options =
        'autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_freeze_min_age = 0, ' +
        'toast.autovacuum_freeze_min_age = 0';
      await connection.query(
        `CREATE TABLE ${table}_${period} (LIKE ${table} INCLUDING ALL) WITH (${options})`,
      );
      await connection.query(
        `ALTER TABLE ${table} ATTACH PARTITION ${table}_${period} FOR VALUES FROM (${first}) TO (${end})`,
      );
    }
    const values = [period, first, end - 1, Math.max(first, 1), now.toISOString()];
    await connection.query(sql('add_period'), values);
  }
  return Math.max(0, to - from + 1);
}

/** @throws SchemaUnfit, Unusable if the database holds no log that this collector can use. */
export async function readLog(
  connection: Pick<Connection, 'query'>,
  { forWriting = true } = {},
): Promise<LogRow> {
  const there = await connection.query(sql('has_migrations'));
  if (there.rows[0]?.[0] !== 't') {
    throw new SchemaUnfit('there is no log in this database; make one with collector store migrate');
  }
  const version = await versionOf(connection);
  if (version < MIGRATIONS.length) {
    throw new SchemaUnfit(
      `its schema has version ${version}, and this collector needs ${MIGRATIONS.length}; see collector ` +
        'store migrate',
    );
  }
  const { rows } = await connection.query(sql('log_row'));
  const [ledgerId, systemId, durability, here, keys] = rows[0] ?? [];
  if (typeof ledgerId !== 'string' || typeof systemId !== 'string')
    throw new SchemaUnfit('the table log is empty');
  // Protects a copy that was made for a test from an accidental write.
  if (forWriting && systemId !== here) {
    throw new SchemaUnfit(
      'this log began on another database cluster and was restored here; see collector store check --adopt',
    );
  }
  return {
    ...{ ledgerId, systemId, durability: durability === 'local' ? 'local' : 'replicated' },
    encryptionKeys: keys ?? undefined,
  };
}

/** The public keys of the log in its database. */
export class PostgresLogKeys implements SharedKeys {
  constructor(private readonly connection: Pick<Connection, 'query'>) {}

  async texts(): Promise<string[]> {
    const { rows } = await this.connection.query(sql('log_keys'));
    return rows.map(([text]) => text ?? '');
  }

  async mayAdd(): Promise<boolean> {
    return (await this.connection.query(sql('may_add_log_key'))).rows[0]?.[0] === 't';
  }

  async add(place: number, text: string): Promise<boolean> {
    const { count } = await this.connection.query(sql('add_log_key'), [place, text]);
    return count > 0 || (await this.texts())[place] === text;
  }

  async sealKeyId(first?: string): Promise<string | undefined> {
    if (first !== undefined) await this.connection.query(sql('set_seal_key'), [first]);
    const { rows } = await this.connection.query(sql('seal_key'));
    return rows[0]?.[0] ?? undefined;
  }
}

/** @throws Unusable for another version: `serve` ends with 2, and systemd does not start it again. */
async function versionOf(connection: Pick<Connection, 'query'>): Promise<number> {
  const { rows } = await connection.query(sql('migrations'));
  for (const [id, name, digest, olderMayRun] of rows) {
    const known = MIGRATIONS[Number(id) - 1];
    if (known === undefined ? olderMayRun === 't' : sha256(known.sql) === digest) continue;
    throw new Unusable(
      known === undefined
        ? `a newer collector has migrated this database (${JSON.stringify(name)}); this one cannot use it`
        : `migration ${Number(id)} was made by an unreleased version of the collector; use a new database`,
    );
  }
  return rows.length;
}

function statementsOf(sql: string): string[] {
  const statements = sql.match(/(?:\$\$[^$]*\$\$|[^;$]|;(?!\s*\n))+/g) ?? [];
  return statements.filter((statement) => statement.trim() !== '');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
