/**
 * The tables of a PostgreSQL log, and how a database comes to have them. A migration is never edited once it was
 * released; it runs in a transaction of its own, by the role that owns the schema. `serve` never migrates.
 *
 * On the way of an event nothing is updated or deleted: no hot row, no queue, no dead tuples, and no right of the
 * collector's role to change an event. All text is compared by its bytes: the order of other collations changes with the
 * host's C library, and indexes with it.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { Connection } from './connection.js';
import type { SharedKeys } from './shared-keys.js';

/** A month's lanes: 2^20 a month last for 170 years of them in an `int`. */
const LANES_A_PERIOD = 1 << 20;
const PERIODS_AHEAD = 12;

const TABLES = `
CREATE TABLE log (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  ledger_id text COLLATE "C" NOT NULL CHECK (length(ledger_id) = 32),
  -- pg_control_system(): tells a database that was restored elsewhere from the original.
  system_id bigint NOT NULL,
  durability text COLLATE "C" NOT NULL CHECK (durability IN ('replicated', 'local')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE organisations (
  organisation_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE CHECK (length(name) <= 64));
-- One row a process. seen_at is for people, and for closing the lanes of one that is gone.
CREATE TABLE collectors (
  collector_id uuid PRIMARY KEY, host text NOT NULL, pid int NOT NULL, version text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp()) WITH (fillfactor = 50);
-- A range of lanes is a month: the tables of events are partitioned by lane.
CREATE TABLE periods (
  period int PRIMARY KEY, from_lane int NOT NULL UNIQUE, to_lane int NOT NULL, next_lane int NOT NULL,
  begins date NOT NULL, CHECK (next_lane BETWEEN from_lane AND to_lane + 1)) WITH (fillfactor = 50);
-- A lane has one writer for its whole life, which counts its batches 1, 2, 3 … and has one of them on its way.
CREATE TABLE lanes (
  lane int PRIMARY KEY, collector_id uuid NOT NULL REFERENCES collectors,
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp());
-- Those whose closing batch has no place yet: where the sequencer looks, however many lanes there ever were.
CREATE TABLE open_lanes (lane int PRIMARY KEY);
CREATE TABLE batches (
  lane int NOT NULL, batch int NOT NULL CHECK (batch > 0),
  committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  candidates smallint NOT NULL, entries smallint NOT NULL,
  -- Of the entries, how many are the log's own; bytes of all that is stored of them.
  own smallint NOT NULL DEFAULT 0, bytes int NOT NULL DEFAULT 0,
  -- 73 bytes for each accepted entry, in order: all that the tree needs, permanently.
  leaves bytea NOT NULL, closes boolean NOT NULL DEFAULT false,
  -- Of the other candidates, which were stored before: int16 place in the batch, 73 bytes. With the leaves, what is sealed.
  repeats bytea, seal bytea,
  PRIMARY KEY (lane, batch), CHECK (length(leaves) = 73 * entries)) PARTITION BY RANGE (lane);
ALTER TABLE batches ALTER leaves SET STORAGE EXTERNAL;
ALTER TABLE batches ALTER repeats SET STORAGE EXTERNAL;
-- Which events are stored, permanently. Narrow and not partitioned: it is unique over all time.
CREATE TABLE event_ids (
  event_id uuid NOT NULL, organisation_id int NOT NULL,
  lane int NOT NULL, batch int NOT NULL, ord smallint NOT NULL,
  PRIMARY KEY (event_id, organisation_id));
-- salted: 16 random bytes and the body as it was sent. NULL once it was erased.
CREATE TABLE events (
  lane int NOT NULL, batch int NOT NULL, ord smallint NOT NULL,
  payload_state smallint NOT NULL DEFAULT 0, envelope bytea NOT NULL, salted bytea,
  PRIMARY KEY (lane, batch, ord)) PARTITION BY RANGE (lane);
-- One row. Who holds its lock gives the next numbers.
CREATE TABLE heads (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), size bigint NOT NULL, own_entries bigint NOT NULL,
  bytes bigint NOT NULL, advanced_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The newest head of access_lines that was put into the log.
  access_lines bigint NOT NULL DEFAULT 0, access_head text NOT NULL DEFAULT '') WITH (fillfactor = 10);
CREATE TABLE sequenced (
  lane int, batch int, first_sequence bigint NOT NULL, entries smallint NOT NULL, PRIMARY KEY (lane, batch));
CREATE UNIQUE INDEX sequenced_first ON sequenced (first_sequence) WHERE entries > 0;
CREATE TABLE tiles (
  level smallint, tile bigint, hashes bytea NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192),
  PRIMARY KEY (level, tile));
ALTER TABLE tiles ALTER hashes SET STORAGE EXTERNAL;
CREATE TABLE published (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), note text NOT NULL,
  signed_at timestamptz NOT NULL DEFAULT clock_timestamp()) WITH (fillfactor = 10);
CREATE TABLE checkpoints (
  size bigint PRIMARY KEY, note text NOT NULL, kept_at timestamptz NOT NULL DEFAULT clock_timestamp());
-- The public keys of the log: its first, and each note that hands on to the next.
CREATE TABLE log_keys (place int PRIMARY KEY CHECK (place >= 0), text text NOT NULL);
-- What the collectors seal their batches with: of the secret key only a hash is here.
CREATE TABLE seal_key (one boolean PRIMARY KEY DEFAULT true CHECK (one), key_id text COLLATE "C" NOT NULL);
CREATE TABLE access_lines (
  line bigint PRIMARY KEY CHECK (line > 0), at timestamptz NOT NULL DEFAULT clock_timestamp(), text text NOT NULL);
CREATE TABLE api_keys (
  created_order bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key_id text COLLATE "C" NOT NULL UNIQUE, hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
  organisation text COLLATE "C" NOT NULL, permissions text NOT NULL, profile text, rate_per_second float8,
  rate_burst int, client_certificate text, note text NOT NULL, created_at bigint NOT NULL, expires_at bigint,
  revoked_at bigint, rotated_from text REFERENCES api_keys (key_id), replaced_by text REFERENCES api_keys (key_id),
  CHECK ((rate_per_second IS NULL) = (rate_burst IS NULL)));
CREATE TABLE key_changes (one boolean PRIMARY KEY DEFAULT true CHECK (one), version bigint NOT NULL);
INSERT INTO heads (size, own_entries, bytes) VALUES (0, 0, 0);
INSERT INTO key_changes (version) VALUES (1);
`;

const ENCRYPTION = `
-- A row once payloads are encrypted: the database of their keys, as one collector names it.
CREATE TABLE encryption (
  one boolean PRIMARY KEY DEFAULT true CHECK (one), keys text NOT NULL,
  begun_at timestamptz NOT NULL DEFAULT clock_timestamp());
-- The entries of the log that are actions (privacy/actions.ts), each in a batch of its own. Who adds one knows all before.
CREATE TABLE actions (
  number int PRIMARY KEY CHECK (number > 0), lane int NOT NULL, batch int NOT NULL, UNIQUE (lane, batch));
-- What commands ask the collectors to do to stored events. NULL once it was taken.
CREATE TABLE requests (
  action uuid PRIMARY KEY, request text, asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  answer text, answered_at timestamptz);
-- What legal holds hold, subjects encrypted: the log has the SHA-256 of each.
CREATE TABLE hold_records (action uuid PRIMARY KEY, record text NOT NULL);
`;

/**
 * No role puts a line into the access log, or takes a lane out of those that are looked at, but by these functions. Lines
 * behind a gap, which no head of the log covers, get the numbers that follow: by its number one could stop the log for ever.
 */
const DOORS = `
WITH gone AS (
  DELETE FROM access_lines a USING (SELECT line, row_number() OVER (ORDER BY line) AS n FROM access_lines) r
  WHERE r.line = a.line AND r.n <> a.line RETURNING r.n, a.at, a.text)
INSERT INTO access_lines (line, at, text) SELECT n, at, text FROM gone ORDER BY n;
-- NULL of lines that were there before.
ALTER TABLE access_lines ADD COLUMN written_by text;
ALTER TABLE access_lines ALTER COLUMN written_by SET DEFAULT session_user;
-- False where the line is not of the form of docs/INTEGRITY.md, "The access log".
CREATE FUNCTION append_access_line(entry text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = SCHEMA_OF_LOG, pg_temp AS $$
DECLARE
  said jsonb;
  actor jsonb;
  fits boolean;
BEGIN
  IF octet_length(entry) > 65536 OR left(entry, 7) <> '{"at":"' OR right(entry, 1) <> '}'
    OR strpos(entry, chr(10)) > 0 THEN RETURN false; END IF;
  BEGIN
    said := entry::jsonb;
    actor := said->'actor';
    fits := said - ARRAY['at', 'reading', 'state', 'actor', 'reason', 'break_glass', 'uid', 'user', 'login_uid',
        'sudo_user', 'command', 'filter', 'events', 'complete', 'done'] = '{}'
      AND to_char((said->>'at')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') = said->>'at'
      AND jsonb_typeof(said->'reading') = 'string' AND jsonb_typeof(said->'command') = 'string'
      AND jsonb_typeof(said->'user') IN ('string', 'null')
      AND (actor->>'kind' IN ('os', 'oidc', 'proxy') AND jsonb_typeof(actor->'name') = 'string'
        AND coalesce(jsonb_typeof(actor->'role'), 'string') = 'string'
        AND coalesce(jsonb_typeof(actor->'stated'), 'string') = 'string'
        AND coalesce(jsonb_typeof(actor->'proven'), 'boolean') = 'boolean')
      AND coalesce(jsonb_typeof(said->'reason'), 'string') = 'string'
      AND coalesce(jsonb_typeof(said->'break_glass'), 'boolean') = 'boolean'
      AND coalesce(jsonb_typeof(said->'sudo_user'), 'string') = 'string'
      AND (SELECT count(*) FROM unnest(ARRAY['uid', 'login_uid', 'events']) AS n WHERE NOT CASE
        WHEN said ? n THEN jsonb_typeof(said->n) = 'number' AND (said->>n)::bigint BETWEEN -1 AND 9007199254740991
        ELSE n = 'login_uid' OR (n = 'events' AND said->>'state' = 'begun') END) = 0
      AND CASE said->>'state'
        WHEN 'begun' THEN jsonb_typeof(said->'filter') = 'object' AND NOT said ?| ARRAY['events', 'complete', 'done']
        WHEN 'ended' THEN jsonb_typeof(said->'complete') = 'boolean'
          AND coalesce(jsonb_typeof(said->'done'), 'object') = 'object' AND NOT said ? 'filter' END;
  EXCEPTION WHEN OTHERS THEN RETURN false;
  END;
  IF fits IS NOT TRUE THEN RETURN false; END IF;
  INSERT INTO access_lines (line, text) SELECT coalesce(max(line), 0) + 1,
    left(entry, -1) || ',"database_user":' || to_json(session_user::text) || '}' FROM access_lines;
  RETURN true;
END $$;
REVOKE ALL ON FUNCTION append_access_line(text) FROM PUBLIC;
-- Only a lane whose closing batch has its place.
CREATE FUNCTION close_lanes(those int[]) RETURNS void LANGUAGE sql SECURITY DEFINER
SET search_path = SCHEMA_OF_LOG, pg_temp AS $$
  DELETE FROM open_lanes o WHERE o.lane = ANY (those) AND EXISTS (
    SELECT 1 FROM batches b JOIN sequenced s USING (lane, batch) WHERE b.lane = o.lane AND b.closes)
$$;
REVOKE ALL ON FUNCTION close_lanes(int[]) FROM PUBLIC;
-- What collector store quarantine has moved, by the action that says so in the log.
CREATE TABLE quarantined_batches (
  action uuid NOT NULL, LIKE batches, PRIMARY KEY (action, lane, batch));
CREATE TABLE quarantined_ids (
  action uuid NOT NULL, LIKE event_ids, PRIMARY KEY (action, event_id, organisation_id));
CREATE TABLE quarantined_events (
  action uuid NOT NULL, LIKE events, PRIMARY KEY (action, lane, batch, ord));
CREATE TABLE quarantined_places (action uuid NOT NULL, LIKE sequenced, PRIMARY KEY (action, lane, batch));
`;

const BEGUN = `
-- When a collector has begun it: who asked can withdraw it until then.
ALTER TABLE requests ADD COLUMN begun_at timestamptz;
`;

/** Nothing of the tables changes. A collector from before would refuse the envelopes, and this one refuses those of before. */
const ENVELOPE = `
DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM events WHERE get_byte(envelope, 0) <> 1) THEN
    RAISE EXCEPTION 'this log was written by an earlier, unfinished version of the collector (its envelopes have another version), and this one reads envelopes of version 1 only';
  END IF;
END $$;
`;

interface Migration {
  readonly name: string;
  /** With SCHEMA_OF_LOG where it names the schema. */
  readonly sql: string;
  /** Whether collectors that do not know it may go on beside those that do. */
  readonly olderMayRun: boolean;
}

/** In their order. Add to the end; never edit one that was released. */
export const MIGRATIONS: readonly Migration[] = [
  { name: 'the tables of a log', sql: TABLES, olderMayRun: true },
  { name: 'encrypted payloads, and what is done to them', sql: ENCRYPTION, olderMayRun: false },
  { name: 'the doors of the access log and of lanes, and the quarantine', sql: DOORS, olderMayRun: false },
  { name: 'requests that are withdrawn', sql: BEGUN, olderMayRun: false },
  { name: 'the door in the envelope', sql: ENVELOPE, olderMayRun: false },
];

const BOOKKEEPING = `CREATE TABLE IF NOT EXISTS schema_migrations (
  id int PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL,
  -- Whether collectors that do not know it go on beside newer ones.
  older_may_run boolean NOT NULL DEFAULT true,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`;

/** The database is not one that this collector can use. The message says what to do. */
class SchemaUnfit extends Error {
  override name = 'SchemaUnfit';
}

export interface LogRow {
  readonly ledgerId: string;
  readonly systemId: string;
  readonly durability: 'replicated' | 'local';
  /** The database of the keys of its payloads, as a collector has named it; undefined where they are not encrypted. */
  readonly encryptionKeys: string | undefined;
}

/**
 * Brings the schema to the newest version, and begins a log where there is none. One process at a time does it.
 * @param schema a name that `parseAddress` has let through.
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
    await connection.query(`SELECT pg_advisory_xact_lock(hashtext('collector ' || $1))`, [schema]);
    await connection.query(BOOKKEEPING);
    const version = await versionOf(connection);
    for (const [i, { name, sql, olderMayRun }] of migrations.entries()) {
      if (i < version) continue;
      for (const statement of statementsOf(sql))
        await connection.query(statement.replaceAll('SCHEMA_OF_LOG', schema));
      const values = [i + 1, name, sha256(sql), olderMayRun];
      await connection.query(
        'INSERT INTO schema_migrations (id, name, sha256, older_may_run) VALUES ($1, $2, $3, $4)',
        values,
      );
      applied.push(name);
    }
    await connection.query(
      `INSERT INTO log (ledger_id, system_id, durability)
       SELECT $1, system_identifier, $2 FROM pg_control_system() ON CONFLICT DO NOTHING`,
      [randomBytes(16).toString('hex'), durability],
    );
    await makePeriods(connection);
  });
  return applied;
}

/** Makes the partitions of this month and of those to come, where they are missing. @returns how many it made. */
export async function makePeriods(connection: Connection, now = new Date()): Promise<number> {
  const [[newest] = []] = (await connection.query('SELECT coalesce(max(period), -1) FROM periods')).rows;
  const [[last] = []] = (
    await connection.query(
      `SELECT coalesce((SELECT max(period) FROM periods WHERE begins <= date_trunc('month', $1::timestamptz)::date), 0)`,
      [now.toISOString()],
    )
  ).rows;
  const from = Number(newest) + 1;
  const to = Math.max(Number(last), 0) + PERIODS_AHEAD;
  for (let period = from; period <= to; period++) {
    const [first, end] = [period * LANES_A_PERIOD, (period + 1) * LANES_A_PERIOD];
    for (const table of ['batches', 'events']) {
      const options =
        'autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_freeze_min_age = 0, toast.autovacuum_freeze_min_age = 0';
      await connection.query(
        `CREATE TABLE ${table}_${period} (LIKE ${table} INCLUDING ALL) WITH (${options})`,
      );
      await connection.query(
        `ALTER TABLE ${table} ATTACH PARTITION ${table}_${period} FOR VALUES FROM (${first}) TO (${end})`,
      );
    }
    await connection.query(
      `INSERT INTO periods (period, from_lane, to_lane, next_lane, begins)
       SELECT $1::int, $2::int, $3::int, $4::int, coalesce(
         (SELECT max(begins) + interval '1 month' FROM periods), date_trunc('month', $5::timestamptz))::date`,
      [period, first, end - 1, Math.max(first, 1), now.toISOString()],
    );
  }
  return Math.max(0, to - from + 1);
}

/** @throws SchemaUnfit when there is no log here, or one that this collector does not know. */
export async function readLog(
  connection: Pick<Connection, 'query'>,
  { forWriting = true } = {},
): Promise<LogRow> {
  const there = await connection.query("SELECT to_regclass('schema_migrations') IS NOT NULL");
  if (there.rows[0]?.[0] !== 't') {
    throw new SchemaUnfit('there is no log in this database; make one with collector store migrate');
  }
  const version = await versionOf(connection);
  if (version < MIGRATIONS.length) {
    throw new SchemaUnfit(
      `its schema is of version ${version}, and this collector needs ${MIGRATIONS.length}; see collector store migrate`,
    );
  }
  const { rows } = await connection.query(
    `SELECT ledger_id, log.system_id::text, durability, control.system_identifier::text,
       (SELECT keys FROM encryption)
     FROM log, pg_control_system() AS control`,
  );
  const [ledgerId, systemId, durability, here, keys] = rows[0] ?? [];
  if (typeof ledgerId !== 'string' || typeof systemId !== 'string')
    throw new SchemaUnfit('the table log is empty');
  // A copy that was made for a test must not be written to by accident.
  if (forWriting && systemId !== here) {
    throw new SchemaUnfit(
      'this log began on another database cluster, and was restored here; see collector store check --adopt',
    );
  }
  return {
    ...{ ledgerId, systemId, durability: durability === 'local' ? 'local' : 'replicated' },
    encryptionKeys: keys ?? undefined,
  };
}

const SEALED_FIRST = 'INSERT INTO seal_key (key_id) VALUES ($1) ON CONFLICT DO NOTHING';
const MAY_ADD = "SELECT has_table_privilege('log_keys', 'INSERT')";
const ADD_KEY = 'INSERT INTO log_keys (place, text) VALUES ($1, $2) ON CONFLICT DO NOTHING';

/** The public keys of the log, as its database has them. */
export class PostgresLogKeys implements SharedKeys {
  constructor(private readonly connection: Pick<Connection, 'query'>) {}

  async texts(): Promise<string[]> {
    const { rows } = await this.connection.query('SELECT text FROM log_keys ORDER BY place');
    return rows.map(([text]) => text ?? '');
  }

  async mayAdd(): Promise<boolean> {
    return (await this.connection.query(MAY_ADD)).rows[0]?.[0] === 't';
  }

  async add(place: number, text: string): Promise<boolean> {
    const { count } = await this.connection.query(ADD_KEY, [place, text]);
    return count > 0 || (await this.texts())[place] === text;
  }

  async sealKeyId(first?: string): Promise<string | undefined> {
    if (first !== undefined) await this.connection.query(SEALED_FIRST, [first]);
    const { rows } = await this.connection.query('SELECT key_id FROM seal_key');
    return rows[0]?.[0] ?? undefined;
  }
}

async function versionOf(connection: Pick<Connection, 'query'>): Promise<number> {
  const { rows } = await connection.query(
    'SELECT id, name, sha256, older_may_run FROM schema_migrations ORDER BY id',
  );
  for (const [id, name, digest, olderMayRun] of rows) {
    const known = MIGRATIONS[Number(id) - 1];
    if (known === undefined ? olderMayRun === 't' : sha256(known.sql) === digest) continue;
    throw new SchemaUnfit(
      known === undefined
        ? `a newer collector has migrated this database (${JSON.stringify(name)}), and this one can no longer use it`
        : `migration ${Number(id)} is not the one that this collector knows`,
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
