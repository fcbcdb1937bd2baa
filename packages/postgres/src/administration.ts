/** What the people who look after the database of a log do with it, and what can be wrong with it. */
import { counted } from '@clinical-events/collector/quantity';
import { messageOf } from '@clinical-events/collector/system-code';
import type { StoreFinding } from '@clinical-events/collector/store/findings';
import { eventsOf } from '@clinical-events/collector/privacy/actions';
import { ActionRows, keptRows, type KeptRow } from './action-rows.js';
import { type Address, describeAddress, parseAddress } from './address.js';
import { int2Array, int4Array } from './binary.js';
import { Connection, missingSettings, nameOf, ReadingConnection } from './connection.js';
import { type LogRow, makePeriods, migrate, readLog } from './schema.js';
import { WAITING } from './sequencing.js';

/** What a migration has done. */
export interface Migrated {
  readonly ledgerId: string;
  readonly durability: LogRow['durability'];
  /** Names of the migrations that were applied. */
  readonly applied: readonly string[];
}

/** What inserts are slow without: an id that is not in memory is read from the disk. */
const MEMORY_SHARE = 1.3;
const FEW_MONTHS = 3;
/** As /readyz has it. */
const MOST_UNSEQUENCED_S = 10;
const MOST_XID_AGE = 1_000_000_000;
const GIB = 2 ** 30;

export async function migrateLog(address: Address, durability?: LogRow['durability']): Promise<Migrated> {
  return connected(address, async (connection) => {
    const applied = await migrate(connection, address.schema, durability ?? 'replicated');
    const log = await readLog(connection);
    return { ledgerId: log.ledgerId, durability: log.durability, applied };
  });
}

/** What was done for a log. */
export interface Maintained {
  /** Months that were added. */
  readonly months: number;
  /** Payloads of erased events that were taken out. */
  readonly takenOut: number;
}

/** On return there are partitions for a year, and no payload is left whose key is destroyed. */
export async function maintainLog(address: Address): Promise<Maintained> {
  const months = await connected(address, (connection) =>
    connection.transaction(() => makePeriods(connection)),
  );
  const connection = new ReadingConnection(address, 'store');
  try {
    return { months, takenOut: await takeOut(connection) };
  } finally {
    await connection.close();
  }
}

const TAKE_OUT = `
UPDATE events e SET payload_state = 2, salted = NULL
FROM unnest($1::int[], $2::int[], $3::smallint[]) AS t (lane, batch, ord)
WHERE e.lane = t.lane AND e.batch = t.batch AND e.ord = t.ord AND e.payload_state = 1`;
const TAKEN_TOGETHER = 1024;

/** Takes the payloads out whose keys are destroyed: nothing can open them. @returns how many. */
async function takeOut(connection: ReadingConnection): Promise<number> {
  const known = new ActionRows(connection);
  await known.refresh();
  const { actions } = known;
  const gone = actions.erased.without(eventsOf(actions.taken('undone')));
  let taken = 0;
  let rows: KeptRow[] = [];
  const flush = async () => {
    const arrays = [
      int4Array(rows.map(({ lane }) => lane)),
      int4Array(rows.map(({ batch }) => batch)),
      int2Array(rows.map(({ ord }) => ord)),
    ];
    taken += (await connection.query(TAKE_OUT, arrays)).count;
    rows = [];
  };
  for await (const row of keptRows(connection, gone)) {
    if (row.key !== undefined) rows.push(row);
    if (rows.length === TAKEN_TOGETHER) await flush();
  }
  if (rows.length > 0) await flush();
  return taken;
}

/** On return the log belongs to the database cluster that it is on now. */
export function adoptLog(address: Address): Promise<void> {
  return connected(address, async (connection) => {
    await readLog(connection, { forWriting: false });
    await connection.query('UPDATE log SET system_id = (SELECT system_identifier FROM pg_control_system())');
  });
}

async function connected<Result>(
  address: Address,
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  const connection = await Connection.open(address, 'store');
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}

/** Everything but rights: roles that log in are made by the people who look after the database. */
export function rolesOf({ schema }: Address): string {
  const [writer, keys, reader, eraser] = ['writer', 'keys', 'reader', 'eraser'].map(
    (role) => `${schema}_${role}`,
  );
  return `-- Roles of the log in schema ${schema}. Run it as the owner of the schema, who may create roles.
-- Grant one of them to each role that logs in:
--   ${writer}   for collector serve
--   ${keys}     for collector keys, besides
--   ${reader}   for collector events, verify, proof, doctor and mirror
--   ${eraser}   for collector erase, hold and retention on a mirror: it asks, and the collectors do it
-- None of them can change or delete an event. collector store quarantine and maintain are for the owner.
CREATE ROLE ${writer} NOLOGIN;
CREATE ROLE ${keys} NOLOGIN;
CREATE ROLE ${reader} NOLOGIN;
CREATE ROLE ${eraser} NOLOGIN;
GRANT USAGE ON SCHEMA ${schema} TO ${writer}, ${keys}, ${reader}, ${eraser};
GRANT SELECT ON ALL TABLES IN SCHEMA ${schema} TO ${writer}, ${reader};
REVOKE SELECT ON ${schema}.api_keys FROM ${reader};
-- What roles of versions before could do, and no one needs: lines of the access log are written by a function.
REVOKE INSERT ON ${tables(schema, ['access_lines', 'collectors', 'lanes', 'batches'])} FROM ${writer}, ${reader};
REVOKE DELETE ON ${schema}.open_lanes FROM ${writer};
GRANT EXECUTE ON FUNCTION ${schema}.append_access_line(text) TO ${writer}, ${keys}, ${reader};
GRANT EXECUTE ON FUNCTION ${schema}.close_lanes(int[]) TO ${writer};
GRANT INSERT ON ${tables(schema, ['organisations', 'event_ids', 'events', 'open_lanes', 'sequenced', 'tiles', 'published', 'checkpoints', 'log_keys', 'seal_key', 'encryption', 'actions', 'requests', 'api_keys'])} TO ${writer};
-- All but the times, which the server says.
GRANT INSERT (collector_id, host, pid, version) ON ${schema}.collectors TO ${writer};
GRANT INSERT (lane, collector_id) ON ${schema}.lanes TO ${writer};
GRANT INSERT (lane, batch, candidates, entries, own, bytes, leaves, closes, repeats, seal) ON ${schema}.batches TO ${writer};
GRANT UPDATE ON ${tables(schema, ['heads', 'tiles', 'published'])} TO ${writer};
GRANT DELETE ON ${schema}.requests TO ${writer}, ${eraser};
GRANT DELETE ON ${schema}.hold_records TO ${writer};
GRANT UPDATE (request, begun_at, answer, answered_at) ON ${schema}.requests TO ${writer};
GRANT UPDATE (next_lane) ON ${schema}.periods TO ${writer};
GRANT UPDATE (seen_at) ON ${schema}.collectors TO ${writer};
GRANT SELECT, UPDATE ON ${schema}.key_changes TO ${writer}, ${keys};
GRANT SELECT, INSERT, UPDATE ON ${schema}.api_keys TO ${keys};
GRANT SELECT ON ${tables(schema, ['log', 'schema_migrations'])} TO ${keys};
GRANT SELECT ON ${tables(schema, ['log', 'schema_migrations', 'encryption'])} TO ${eraser};
GRANT INSERT ON ${tables(schema, ['requests', 'hold_records'])} TO ${eraser};
GRANT SELECT (action, begun_at, answer) ON ${schema}.requests TO ${eraser};
-- Bodies of events are parameters of statements. A server that logs parameters would log patient data. For each role
-- that logs in, as a superuser:
--   ALTER ROLE name SET log_parameter_max_length = 0;
--   ALTER ROLE name SET log_parameter_max_length_on_error = 0;
`;
}

function tables(schema: string, names: readonly string[]): string {
  return names.map((name) => `${schema}.${name}`).join(', ');
}

/** All that can be seen of the database without reading the events. @throws Unreachable, SchemaUnfit. */
export function examineLog(address: Address): Promise<StoreFinding[]> {
  return connected(address, async (connection) => {
    const log = await readLog(connection, { forWriting: false });
    return [
      ...(await clusterFindings(connection, log)),
      { severity: 'ok', subject: 'database', message: `log ${log.ledgerId}, on ${nameOf(connection.host)}` },
      ...(await serverFindings(connection)),
      ...(await replicationFindings(connection, log)),
      ...(await standbyFindings(address, connection, log)),
      await sessionFinding(connection),
      await planningFinding(connection),
      await parameterFinding(connection),
      await periodFinding(connection),
      await memoryFinding(connection),
      await sequencingFinding(connection),
      await ageFinding(connection),
      ...(await keyFindings(log)),
    ];
  });
}

const KEY_SERVER = `
SELECT current_setting('fsync'), current_setting('synchronous_standby_names'),
  current_setting('synchronous_commit'), current_setting('archive_mode')`;

/** Of the database of the keys of payloads: what is lost with a key, and what a copy of one brings back. */
async function keyFindings({ encryptionKeys, durability }: LogRow): Promise<StoreFinding[]> {
  const subject = 'keys';
  if (encryptionKeys === undefined)
    return [{ severity: 'ok', subject, message: 'payloads are stored in the clear, as the log was begun' }];
  const address = parseAddress(encryptionKeys);
  const where = describeAddress(address);
  try {
    return await connected(address, async (connection) => {
      const [fsync, standbys, commit, archive] = (await connection.query(KEY_SERVER)).rows[0] ?? [];
      const findings: StoreFinding[] = [];
      const add = (severity: StoreFinding['severity'], message: string) =>
        findings.push({ severity, subject, message: `${where}: ${message}` });
      if (fsync !== 'on') add('damage', 'fsync is off: keys are lost with power, and events with them');
      if (durability === 'replicated' && (standbys === '' || commit === 'local' || commit === 'off'))
        add('warning', 'no commit waits for a standby: a failover can lose keys, and events with them');
      if (archive !== 'off')
        add(
          'warning',
          'the write-ahead log is archived: what is erased can be read from it, so keep it for a week at most',
        );
      if (findings.length === 0) add('ok', 'has the keys of payloads');
      return findings;
    });
  } catch (error) {
    const reason = messageOf(error);
    return [{ severity: 'warning', subject, message: `${where} was not looked at: ${reason}` }];
  }
}

async function clusterFindings(connection: Connection, { systemId }: LogRow): Promise<StoreFinding[]> {
  const { rows } = await connection.query('SELECT system_identifier::text FROM pg_control_system()');
  if (rows[0]?.[0] === systemId) return [];
  const message =
    'this log began on another database cluster, and was restored here: no collector starts. Hold it against the ' +
    'checkpoints that were given out, then see collector store check --adopt';
  return [{ severity: 'damage', subject: 'cluster', message }];
}

async function serverFindings(connection: Connection): Promise<StoreFinding[]> {
  const { rows } = await connection.query(`
SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('full_page_writes'),
  current_setting('data_checksums'), current_setting('server_version')`);
  const [number, fsync, pages, checksums, version] = rows[0] ?? [];
  const subject = 'server';
  const findings: StoreFinding[] = [];
  if (Number(number) < 150_000) {
    findings.push({
      ...{ severity: 'warning', subject },
      message: `PostgreSQL ${version ?? ''}, and 15 is the oldest that is tested`,
    });
  } else findings.push({ severity: 'ok', subject, message: `PostgreSQL ${version ?? ''}` });
  if (fsync !== 'on' || pages !== 'on') {
    findings.push({
      ...{ severity: 'damage', subject },
      message: 'fsync or full_page_writes is off: what was acknowledged is lost with power',
    });
  }
  if (checksums !== 'on') {
    const message = 'data_checksums is off: a fault of the disk shows later, or only in verify';
    findings.push({ severity: 'warning', subject, message });
  }
  return findings;
}

async function replicationFindings(connection: Connection, { durability }: LogRow): Promise<StoreFinding[]> {
  const subject = 'replication';
  if (durability === 'local') {
    const message = 'the log was begun with --durability local: an answer waits for this server alone';
    return [{ severity: 'ok', subject, message }];
  }
  const { rows } = await connection.query(`
SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
  (SELECT count(*) FROM pg_stat_get_wal_senders() WHERE sync_state IN ('sync', 'quorum')),
  pg_has_role('pg_read_all_stats', 'USAGE')`);
  const [names, commit, standbys, maySee] = rows[0] ?? [];
  if (names === '') {
    const message = 'synchronous_standby_names is empty: no event is accepted until a standby is named';
    return [{ severity: 'damage', subject, message }];
  }
  if (commit !== 'on' && commit !== 'remote_apply') {
    const message = `synchronous_commit is ${commit ?? ''}: no event is accepted until it is on`;
    return [{ severity: 'damage', subject, message }];
  }
  if (standbys === '0') {
    const away = `no standby of ${names ?? ''} is connected`;
    return [
      maySee === 't'
        ? { severity: 'damage', subject, message: `${away}: no event is accepted until one is` }
        : {
            ...{ severity: 'warning', subject },
            message: `${away}, as far as this role may see: GRANT pg_read_all_stats to it`,
          },
    ];
  }
  const message = `${counted(Number(standbys), 'synchronous standby', 'synchronous standbys')} of ${names ?? ''}`;
  return [{ severity: 'ok', subject, message }];
}

/** Of the other servers of the address: each may become the primary. */
async function standbyFindings(
  address: Address,
  { host: primary }: Connection,
  { durability }: LogRow,
): Promise<StoreFinding[]> {
  if (durability === 'local') return [];
  const findings: StoreFinding[] = [];
  for (const host of address.hosts.filter((each) => each !== primary)) {
    const name = nameOf(host);
    const add = (severity: StoreFinding['severity'], message: string) =>
      findings.push({ severity, subject: 'standbys', message: `${name} ${message}` });
    try {
      const connection = await Connection.to(address, host, 'store');
      try {
        const [[names] = []] = (await connection.query("SELECT current_setting('synchronous_standby_names')"))
          .rows;
        if (names === '')
          add(
            'warning',
            'has no synchronous_standby_names: after a failover to it no event is accepted until it is set. ' +
              'Set it on every server, unless Patroni or an operator does so at a failover',
          );
        else add('ok', `has synchronous_standby_names ${names ?? ''}`);
      } finally {
        await connection.close();
      }
    } catch (error) {
      add('warning', `was not looked at: ${(error as Error).message}`);
    }
  }
  return findings;
}

/** A pooler may drop what a session asks for; the role then has to have it. */
async function sessionFinding(connection: Connection): Promise<StoreFinding> {
  const subject = 'sessions';
  const missing = await missingSettings(connection);
  if (missing.length === 0) return { severity: 'ok', subject, message: 'jit is off, time-outs are set' };
  const [[user] = []] = (await connection.query('SELECT current_user')).rows;
  const commands = missing.map((setting) => `ALTER ROLE ${user ?? ''} SET ${setting}`);
  const message = `a pooler drops settings that a session asks for; give them to the role: ${commands.join('; ')}`;
  return { severity: 'warning', subject, message };
}

/** A kind of plan that a server was forbidden makes others cost 10,000,000,000, with jit or whole tables behind it. */
async function planningFinding(connection: Connection): Promise<StoreFinding> {
  const { rows } = await connection.query(
    "SELECT name FROM pg_settings WHERE name LIKE 'enable\\_%' AND setting = 'off' AND boot_val = 'on' ORDER BY name",
  );
  const subject = 'planner';
  if (rows.length === 0) return { severity: 'ok', subject, message: 'no kind of plan is turned off' };
  const names = rows.map(([name]) => name).join(', ');
  const message = `${names} off, for the server, the database or the role: look-ups may read whole tables`;
  return { severity: 'warning', subject, message };
}

/** As it is for the role that asks. */
async function parameterFinding(connection: Connection): Promise<StoreFinding> {
  const { rows } = await connection.query(`
SELECT current_setting('log_parameter_max_length'), current_setting('log_parameter_max_length_on_error'),
  current_setting('log_statement'), current_setting('log_min_duration_statement'), current_user`);
  const [length, onError, statement, duration, user] = rows[0] ?? [];
  const subject = 'server log';
  if (length === '0' && onError === '0') {
    return { severity: 'ok', subject, message: 'parameters of statements are not logged' };
  }
  const logs = (statement !== 'none' && statement !== 'ddl') || duration !== '-1' || onError !== '0';
  const advice = `ALTER ROLE ${user ?? ''} SET log_parameter_max_length = 0, as a superuser`;
  return logs
    ? {
        ...{ severity: 'damage', subject },
        message: `bodies of events, which hold patient data, are written to the server's log: ${advice}`,
      }
    : {
        ...{ severity: 'warning', subject },
        message: `bodies of events would be written to the server's log as soon as it logs statements: ${advice}`,
      };
}

async function periodFinding(connection: Connection): Promise<StoreFinding> {
  const { rows } = await connection.query(
    "SELECT count(*) FROM periods WHERE begins > date_trunc('month', clock_timestamp())",
  );
  const ahead = Number(rows[0]?.[0]);
  const message = `for ${counted(ahead, 'month')} ahead`;
  if (ahead >= FEW_MONTHS) return { severity: 'ok', subject: 'partitions', message };
  return {
    ...{ severity: 'warning', subject: 'partitions' },
    message: `${message}; run collector store maintain. Events go on into the last one`,
  };
}

async function memoryFinding(connection: Connection): Promise<StoreFinding> {
  const { rows } = await connection.query(`
SELECT pg_relation_size('event_ids_pkey'), pg_size_bytes(current_setting('effective_cache_size'))`);
  const [index = 0, cache = 0] = (rows[0] ?? []).map(Number);
  const sizes = `the index of ids has ${gib(index)}, and effective_cache_size is ${gib(cache)}`;
  if (cache >= index * MEMORY_SHARE) return { severity: 'ok', subject: 'memory', message: sizes };
  return {
    ...{ severity: 'warning', subject: 'memory' },
    message: `${sizes}: where it does not fit in memory each new event reads from the disk`,
  };
}

async function sequencingFinding(connection: Connection): Promise<StoreFinding> {
  const [waiting = []] = (await connection.query(WAITING)).rows;
  const [batches = 0, oldestMs = 0] = waiting.map(Number);
  const seconds = oldestMs / 1000;
  const subject = 'sequencing';
  if (seconds < MOST_UNSEQUENCED_S) {
    return { severity: 'ok', subject, message: `${counted(batches, 'batch', 'batches')} not sequenced yet` };
  }
  const message =
    `${counted(batches, 'batch', 'batches')} not sequenced, the oldest for ${Math.round(seconds)} s: ` +
    'see collector verify --store, and the logs of the collectors, for what keeps them from signing';
  return { severity: 'warning', subject, message };
}

async function ageFinding(connection: Connection): Promise<StoreFinding> {
  const { rows } = await connection.query('SELECT max(age(datfrozenxid)) FROM pg_database');
  const age = Number(rows[0]?.[0]);
  const message = `the oldest transaction id is ${age} old`;
  if (age < MOST_XID_AGE) return { severity: 'ok', subject: 'vacuum', message };
  return {
    ...{ severity: 'warning', subject: 'vacuum' },
    message: `${message}: autovacuum does not keep up, and at two billion the server stops taking writes`,
  };
}

function gib(bytes: number): string {
  return `${(bytes / GIB).toFixed(1)} GiB`;
}
