/** Administration of the database of a log: migration, maintenance, roles, and findings for `store check`. */
import { counted } from '@clinical-events/collector/quantity';
import { messageOf } from '@clinical-events/collector/system-code';
import { damage, ok, type StoreFinding, warning } from '@clinical-events/collector/store/findings';
import { eventsOf } from '@clinical-events/collector/privacy/actions';
import { ActionRows, keptRows, type KeptRow } from './action-rows.js';
import { type Address, describeAddress, type Host, parseAddress } from './address.js';
import { int2Array, int4Array } from './binary.js';
import { Connection, missingSettings, nameOf, ReadingConnection } from './connection.js';
import { type LogRow, makePeriods, migrate, readLog } from './schema.js';
import { script, sql } from './sql.js';

/** Result of a migration. */
export interface Migrated {
  readonly ledgerId: string;
  readonly durability: LogRow['durability'];
  /** Names of the applied migrations. */
  readonly applied: readonly string[];
}

/** Required ratio of cache to the index of ids: an id that is not in memory costs a disk read. */
const MEMORY_SHARE = 1.3;
const FEW_MONTHS = 3;
/** The limit of /readyz. */
const MOST_UNSEQUENCED_S = 10;
const MOST_XID_AGE = 1_000_000_000;
const GIB = 2 ** 30;

export async function migrateLog(address: Address, durability?: LogRow['durability']): Promise<Migrated> {
  return connected(address, async (connection) => {
    const applied = await migrate(connection, address.schema, durability ?? 'replicated');
    // A log of an older version, restored elsewhere, can be adopted only after its migration.
    const log = await readLog(connection, { forWriting: false });
    return { ledgerId: log.ledgerId, durability: log.durability, applied };
  });
}

/** Result of `store maintain`. */
export interface Maintained {
  /** Number of added months. */
  readonly months: number;
  /** Number of removed payloads of erased events. */
  readonly takenOut: number;
}

/** On return there are partitions for a year, and payloads with destroyed keys have been removed. */
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

const TAKEN_TOGETHER = 1024;

/** Removes the payloads whose keys are destroyed. @returns their number. */
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
    taken += (await connection.query(sql('remove_payloads'), arrays)).count;
    rows = [];
  };
  for await (const row of keptRows(connection, gone)) {
    if (row.key !== undefined) rows.push(row);
    if (rows.length === TAKEN_TOGETHER) await flush();
  }
  if (rows.length > 0) await flush();
  return taken;
}

/** On return the log belongs to its current database cluster. */
export function adoptLog(address: Address): Promise<void> {
  return connected(address, async (connection) => {
    await readLog(connection, { forWriting: false });
    await connection.query(sql('adopt_log'));
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

/** The SQL of the roles. It creates no login role. */
export function rolesOf({ schema }: Address): string {
  return script('roles.sql').replace(/:(schema|writer|keys|reader|eraser)\b/g, (_, name: string) =>
    name === 'schema' ? schema : `${schema}_${name}`,
  );
}

/** Examines the database without reading events. @throws Unreachable, SchemaUnfit. */
export function examineLog(address: Address): Promise<StoreFinding[]> {
  return connected(address, async (connection) => {
    const log = await readLog(connection, { forWriting: false });
    return [
      ...(await clusterFindings(connection, log)),
      ok('database', `log ${log.ledgerId}, on ${nameOf(connection.host)}`),
      ...(await serverFindings(connection)),
      await replicationFinding(connection, log),
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

/** Examines the database of the payload keys: its durability, and copies of destroyed keys. */
async function keyFindings({ encryptionKeys, durability }: LogRow): Promise<StoreFinding[]> {
  const subject = 'keys';
  if (encryptionKeys === undefined) return [ok(subject, 'payloads are not encrypted')];
  const address = parseAddress(encryptionKeys);
  const where = describeAddress(address);
  try {
    return await connected(address, async (connection) => {
      const [fsync, standbys, commit, archive] = (await connection.query(sql('key_server'))).rows[0] ?? [];
      const isAlone = standbys === '' || commit === 'local' || commit === 'off';
      const findings = [
        fsync !== 'on' &&
          damage(subject, `${where}: fsync is off: a power failure can lose keys, and events with them`),
        durability === 'replicated' &&
          isAlone &&
          warning(
            subject,
            `${where}: no commit waits for a standby: a failover can lose keys, and events with them`,
          ),
        archive !== 'off' &&
          warning(
            subject,
            `${where}: the write-ahead log is archived with destroyed keys: keep it for a week at most`,
          ),
      ].filter((finding) => finding !== false);
      return findings.length > 0 ? findings : [ok(subject, `${where}: has the payload keys`)];
    });
  } catch (error) {
    return [warning(subject, `${where} could not be examined: ${messageOf(error)}`)];
  }
}

async function clusterFindings(connection: Connection, { systemId }: LogRow): Promise<StoreFinding[]> {
  const { rows } = await connection.query(sql('cluster'));
  if (rows[0]?.[0] === systemId) return [];
  const message =
    'this log began on another database cluster and was restored here: no collector starts. Compare it ' +
    'with the published checkpoints, then see collector store check --adopt';
  return [damage('cluster', message)];
}

async function serverFindings(connection: Connection): Promise<StoreFinding[]> {
  const [number, fsync, pages, checksums, version] = (await connection.query(sql('server'))).rows[0] ?? [];
  const subject = 'server';
  const name = `PostgreSQL ${version ?? ''}`;
  const findings = [
    Number(number) < 150_000
      ? warning(subject, `${name}; the oldest tested version is 15`)
      : ok(subject, name),
  ];
  if (fsync !== 'on' || pages !== 'on')
    findings.push(
      damage(subject, 'fsync or full_page_writes is off: a power failure can lose acknowledged events'),
    );
  if (checksums !== 'on')
    findings.push(warning(subject, 'data_checksums is off: disk damage is found later, or only by verify'));
  return findings;
}

async function replicationFinding(connection: Connection, { durability }: LogRow): Promise<StoreFinding> {
  const subject = 'replication';
  if (durability === 'local') return ok(subject, 'durability is local: an answer waits for this server only');
  const [names, commit, standbys, maySee] = (await connection.query(sql('standby_count'))).rows[0] ?? [];
  if (names === '')
    return damage(
      subject,
      'synchronous_standby_names is empty: no event is accepted until a standby is named',
    );
  if (commit !== 'on' && commit !== 'remote_apply')
    return damage(subject, `synchronous_commit is ${commit ?? ''}: no event is accepted until it is on`);
  if (standbys !== '0') {
    const count = counted(Number(standbys), 'synchronous standby', 'synchronous standbys');
    return ok(subject, `${count} of ${names ?? ''}`);
  }
  const away = `no standby of ${names ?? ''} is connected`;
  return maySee === 't'
    ? damage(subject, `${away}: no event is accepted until one is`)
    : warning(subject, `${away}, or this role cannot see it: GRANT pg_read_all_stats to it`);
}

/** Examines the other servers of the address, each of which may become the primary. */
async function standbyFindings(
  address: Address,
  { host: primary }: Connection,
  { durability }: LogRow,
): Promise<StoreFinding[]> {
  if (durability === 'local') return [];
  const findings: StoreFinding[] = [];
  for (const host of address.hosts.filter((each) => each !== primary))
    findings.push(await standbyFinding(address, host));
  return findings;
}

async function standbyFinding(address: Address, host: Host): Promise<StoreFinding> {
  const [subject, name] = ['standbys', nameOf(host)];
  try {
    const connection = await Connection.to(address, host, 'store');
    try {
      const [[names] = []] = (await connection.query(sql('standby_names'))).rows;
      if (names !== '') return ok(subject, `${name} has synchronous_standby_names ${names ?? ''}`);
      const message =
        `${name} has no synchronous_standby_names: after a failover to it, no event is accepted until it ` +
        'is set. Set it on every server, unless Patroni or an operator sets it at a failover';
      return warning(subject, message);
    } finally {
      await connection.close();
    }
  } catch (error) {
    return warning(subject, `${name} could not be examined: ${messageOf(error)}`);
  }
}

/** Examines the settings of the session. A pooler may drop them; then the role must have them. */
async function sessionFinding(connection: Connection): Promise<StoreFinding> {
  const subject = 'sessions';
  const missing = await missingSettings(connection);
  if (missing.length === 0) return ok(subject, 'jit is off, time-outs are set');
  const [[user] = []] = (await connection.query('SELECT current_user')).rows;
  const commands = missing.map((setting) => `ALTER ROLE ${user ?? ''} SET ${setting}`);
  return warning(
    subject,
    `a pooler drops settings of the session; set them for the role: ${commands.join('; ')}`,
  );
}

/**
 * Examines the plan types. A disabled one costs 10,000,000,000 more, so the server may compile statements or
 * scan whole tables.
 */
async function planningFinding(connection: Connection): Promise<StoreFinding> {
  const { rows } = await connection.query(sql('disabled_plans'));
  if (rows.length === 0) return ok('planner', 'no plan type is disabled');
  const names = rows.map(([name]) => name).join(', ');
  return warning(
    'planner',
    `${names} is off for the server, the database or the role: look-ups may scan whole tables`,
  );
}

/** Examines the settings of the current role. */
async function parameterFinding(connection: Connection): Promise<StoreFinding> {
  const { rows } = await connection.query(sql('logged_parameters'));
  const [length, onError, statement, duration, user] = rows[0] ?? [];
  const subject = 'server log';
  if (length === '0' && onError === '0') return ok(subject, 'statement parameters are not logged');
  const logs = (statement !== 'none' && statement !== 'ddl') || duration !== '-1' || onError !== '0';
  const advice = `ALTER ROLE ${user ?? ''} SET log_parameter_max_length = 0, as a superuser`;
  return logs
    ? damage(subject, `the server's log contains event bodies, which hold patient data: ${advice}`)
    : warning(subject, `the server's log would contain event bodies if it logged statements: ${advice}`);
}

async function periodFinding(connection: Connection): Promise<StoreFinding> {
  const ahead = Number((await connection.query(sql('months_ahead'))).rows[0]?.[0]);
  const message = `for ${counted(ahead, 'month')} ahead`;
  if (ahead >= FEW_MONTHS) return ok('partitions', message);
  const advice = 'run collector store maintain. Until then, events go into the last partition';
  return warning('partitions', `${message}; ${advice}`);
}

async function memoryFinding(connection: Connection): Promise<StoreFinding> {
  const { rows } = await connection.query(sql('index_and_cache'));
  const [index = 0, cache = 0] = (rows[0] ?? []).map(Number);
  const sizes = `the index of ids has ${gib(index)}, and effective_cache_size is ${gib(cache)}`;
  if (cache >= index * MEMORY_SHARE) return ok('memory', sizes);
  return warning(
    'memory',
    `${sizes}: if the index does not fit in memory, each new event reads from the disk`,
  );
}

async function sequencingFinding(connection: Connection): Promise<StoreFinding> {
  const [waiting = []] = (await connection.query(sql('waiting_batches'))).rows;
  const [batches = 0, oldestMs = 0] = waiting.map(Number);
  const seconds = oldestMs / 1000;
  const count = counted(batches, 'batch', 'batches');
  if (seconds < MOST_UNSEQUENCED_S) return ok('sequencing', `${count} not sequenced yet`);
  const message =
    `${count} not sequenced, the oldest for ${Math.round(seconds)} s: collector verify --store and the ` +
    'logs of the collectors show the reason';
  return warning('sequencing', message);
}

async function ageFinding(connection: Connection): Promise<StoreFinding> {
  const age = Number((await connection.query(sql('transaction_age'))).rows[0]?.[0]);
  const message = `the oldest transaction id is ${age} old`;
  if (age < MOST_XID_AGE) return ok('vacuum', message);
  return warning(
    'vacuum',
    `${message}: autovacuum is falling behind; at two billion the server refuses writes`,
  );
}

function gib(bytes: number): string {
  return `${(bytes / GIB).toFixed(1)} GiB`;
}
