/**
 * One connection to the primary of a PostgreSQL log. Each statement is one round trip, has its own deadline,
 * and has one of three outcomes: it succeeded, and the server reported whether it is replicated; the server
 * refused it and stored nothing; or the outcome is unknown and the connection is closed.
 */
import type { EventEmitter } from 'node:events';
import { createRequire } from 'node:module';
import pg from 'pg';
import { type Address, type Encryption, type Host, isSocket } from './address.js';

/** Thrown if the server refused the statement, which wrote nothing. `code` is the SQLSTATE. */
export class Refused extends Error {
  override name = 'Refused';
  constructor(
    readonly code: string,
    message: string,
    readonly constraint: string | undefined,
  ) {
    super(message);
  }
}

/** Thrown if the outcome of the statement is unknown. The connection is closed. */
export class Lost extends Error {
  override name = 'Lost';
}

/** Thrown if no host of the address is a usable primary of the log. */
export class Unreachable extends Error {
  override name = 'Unreachable';
}

/** A row in text format; null for SQL's NULL. */
export type TextRow = readonly (string | null)[];

/** A row in binary format. The buffers are not reused. */
export type BinaryRow = readonly (Buffer | null)[];

export interface Answer {
  readonly rows: readonly TextRow[];
  /** Number of rows that it wrote or returned. */
  readonly count: number;
  /** Codes of the server's warnings for this statement, for example that a commit was not replicated. */
  readonly warnings: readonly string[];
}

/** A parameter of a statement. A `Buffer` is sent in binary format: a `bytea`, or an array of binary.ts. */
export type Parameter = string | number | boolean | null | Buffer;

/** Deadline of a connection attempt to one host, in milliseconds. */
const CONNECT_MS = 2000;
const STATEMENT_MS = 10_000;
const READ_MS = 60_000;
const NO_WARNING = '00000';
/** No line of pg_hba.conf permits the session, perhaps because it is not encrypted. */
const NOT_ENTITLED = '28000';
/** The server ends, or ends its connections. A pooler may stay connected to the client. */
const ENDED = /^(08|57P)/;
const require = createRequire(import.meta.url);
/** Calls back with the password for a connection in libpq's password file. The package has no types. */
const passwordFile = require('pgpass') as (
  wanted: object,
  found: (password: string | undefined) => void,
) => void;
/**
 * Applies if PGPASSWORD is not set. node-postgres reads the file too, but deprecates that. It calls this
 * function only if the server requires a password.
 */
pg.defaults.password = (async (wanted: { user: string; host: string; port: number }) => {
  const password = await new Promise<string | undefined>((found) => passwordFile(wanted, found));
  if (password !== undefined) return password;
  throw new Error(`no password for ${wanted.user}@${nameOf(wanted)} in PGPASSWORD or PGPASSFILE`);
}) as () => Promise<string>;
const TEXT = { getTypeParser: () => (value: unknown) => value };

type Done<Result> = (error: Error | undefined, result?: Result) => void;

/**
 * Limits on the server's side. A statement_timeout does not end the wait for a standby (measured on 15 and
 * 18), so the client's deadline decides.
 *
 * Plans. Statistics may be old or missing. So a look-up in a large table is a LATERAL with OFFSET 0 or LIMIT:
 * it stays one index search for each row, and never becomes a join of whole tables. Ranges have both bounds.
 */
const SETTINGS = [
  'client_min_messages=warning',
  'synchronous_commit=on',
  'lock_timeout=2s',
  'statement_timeout=30s',
  'idle_in_transaction_session_timeout=5s',
  // Each statement reads a few rows by an index: compiling it takes longer than running it.
  'jit=off',
  'tcp_keepalives_idle=5',
  'tcp_keepalives_interval=2',
  'tcp_keepalives_count=3',
];

/** Settings that the session lacks and that answers do not report, as `name = 'value'`. */
export async function missingSettings(connection: Connection): Promise<string[]> {
  const checked = SETTINGS.filter((setting) => /^(jit|\w+_timeout)=/.test(setting));
  const pairs = checked.map((setting) => setting.split('='));
  const { rows } = await connection.query(
    `SELECT ${pairs.map(([name = '']) => `current_setting('${name}')`).join()}`,
  );
  return pairs.flatMap(([name, value], i) => (rows[0]?.[i] === value ? [] : [`${name} = '${value}'`]));
}

/**
 * The reason why a commit under these settings proves nothing about the standby; undefined if it does. A
 * pooler may drop the settings that a connection requested.
 */
export function weaknessOf(commit?: string | null, messages?: string | null): string | undefined {
  if (messages && messages !== 'warning') return `client_min_messages is ${messages}`;
  if (commit && commit !== 'on' && commit !== 'remote_apply') return `synchronous_commit is ${commit}`;
  return undefined;
}

/** NULL on a standby. A promotion begins a new timeline. */
const TIMELINE = `
SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END`;

/** The last primary that this process used, by address. */
const PRIMARIES = new Map<string, { readonly host: Host; readonly timeline: number }>();

/** `host:port`, for messages. */
export function nameOf({ host, port }: Host): string {
  return `${host}:${port}`;
}

function keyOf({ hosts, database }: Address): string {
  return `${hosts.map(nameOf).join()}/${database}`;
}

export class Connection {
  readonly #client: pg.Client;
  #isOpen = true;
  #notices: string[] = [];

  private constructor(
    client: pg.Client,
    readonly host: Host,
  ) {
    this.#client = client;
    client.on('error', () => (this.#isOpen = false));
    client.on('end', () => (this.#isOpen = false));
    // The code identifies warnings: the severity may be in another language.
    client.on('notice', ({ code = 'none' }) => {
      if (code !== NO_WARNING) this.#notices.push(code);
    });
  }

  /**
   * Tries the hosts in order, the last used primary first, and takes the first primary. A former primary that
   * comes back has an older timeline and is never used again. The first call asks all hosts, and takes the
   * primary with the newest timeline.
   * @param purpose for `application_name`, which administrators see.
   * @throws Unreachable with the reason for each host.
   */
  static async open(address: Address, purpose: string): Promise<Connection> {
    const reasons: string[] = [];
    const known = PRIMARIES.get(keyOf(address));
    const isFirst = ({ host, port }: Host) => host === known?.host.host && port === known.host.port;
    let found: { connection: Connection; timeline: number } | undefined;
    for (const host of address.hosts.toSorted((a, b) => Number(isFirst(b)) - Number(isFirst(a)))) {
      const name = nameOf(host);
      try {
        const connection = await Connection.to(address, host, purpose);
        const [[standing = null] = []] = (await connection.query(TIMELINE)).rows;
        const timeline = standing === null ? 0 : Number.parseInt(standing, 16);
        const least = Math.max(known?.timeline ?? 0, (found?.timeline ?? 0) + 1);
        if (timeline >= least) {
          found?.connection.destroy();
          found = { connection, timeline };
          if (known !== undefined) break;
          continue;
        }
        connection.destroy();
        reasons.push(
          `${name} ${timeline === 0 ? 'is a standby' : 'was the primary before another took over'}`,
        );
      } catch (error) {
        reasons.push(`${name}: ${(error as Error).message}`);
      }
    }
    if (found === undefined) throw new Unreachable(`no primary can be reached: ${reasons.join('; ')}`);
    PRIMARIES.set(keyOf(address), { host: found.connection.host, timeline: found.timeline });
    return found.connection;
  }

  /** Connects to one host, which may be a standby. @throws the error of the attempt. */
  static async to(address: Address, host: Host, purpose: string): Promise<Connection> {
    return new Connection(await connected(address, host, purpose), host);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * @param sql one statement. Resolves when the server is ready for the next statement, so that a warning is
   *   not attributed to another one.
   * @throws Refused, Lost.
   */
  query(sql: string, values: readonly Parameter[] = [], deadlineMs = STATEMENT_MS): Promise<Answer> {
    const query = { text: sql, values: [...values], rowMode: 'array', types: TEXT, queryMode: 'extended' };
    return this.#answered<Omit<Answer, 'warnings'>>(deadlineMs, (done) => {
      // node-postgres calls back when the server is ready again; its promise settles after the next query
      // began.
      this.#client.query(query as pg.QueryArrayConfig, (error: Error | null | undefined, result) => {
        if (error) done(error);
        else done(undefined, { rows: result.rows as TextRow[], count: result.rowCount ?? 0 });
      });
    }).then((result) => ({ ...result, warnings: this.#notices }));
  }

  /**
   * Reads all rows of a query in binary format, for rows of many bytes: a third of the cost of text (ADR 20).
   * @param sql without parameters.
   * @throws Refused, Lost.
   */
  copy(sql: string, deadlineMs: number): Promise<readonly BinaryRow[]> {
    return this.#answered(deadlineMs, (done) => {
      this.#client.query(new CopyOut(`COPY (${sql}) TO STDOUT (FORMAT binary)`, done));
    });
  }

  #answered<Result>(deadlineMs: number, ask: (done: Done<Result>) => void): Promise<Result> {
    if (!this.#isOpen) return Promise.reject(new Lost('the connection is closed'));
    this.#notices = [];
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.destroy();
        reject(new Lost(`no answer within ${Number((deadlineMs / 1000).toFixed(1))} s`));
      }, deadlineMs);
      ask((error, result) => {
        if (error === undefined) {
          clearTimeout(timer);
          resolve(result as Result);
          return;
        }
        this.#settle(error, (fault) => {
          clearTimeout(timer);
          reject(fault);
        });
      });
    });
  }

  /**
   * On return all writes of `work` are committed; after an error nothing is, except that {@link Lost} leaves
   * it unknown.
   */
  async transaction<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    await this.query('BEGIN');
    try {
      const result = await work(this);
      const { warnings } = await this.query('COMMIT');
      if (warnings.length > 0)
        throw new Lost(`the commit is not known to be replicated (${warnings.join(', ')})`);
      return result;
    } catch (error) {
      if (this.#isOpen) await this.query('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    const timer = setTimeout(() => this.destroy(), CONNECT_MS);
    await this.#client.end().catch(() => undefined);
    clearTimeout(timer);
  }

  /** Closes the connection immediately; a running statement fails with {@link Lost}. */
  destroy(): void {
    this.#isOpen = false;
    this.#client.connection.stream.destroy();
  }

  /**
   * An error after which the server is ready again wrote nothing. An error that ends the session may follow a
   * commit. The message does not distinguish them, because it is in the server's language.
   */
  #settle(error: Error, settle: (fault: Refused | Lost) => void): void {
    const { code, severity, constraint } = error as { [name in 'code' | 'severity' | 'constraint']?: string };
    const server: EventEmitter = this.#client.connection;
    const onEnd = () => {
      server.off('readyForQuery', onReady);
      this.destroy();
      settle(new Lost(error.message, { cause: error }));
    };
    const onReady = () => {
      this.#client.off('end', onEnd);
      settle(new Refused(code ?? '', error.message, constraint));
    };
    if (severity === undefined || code === undefined || ENDED.test(code) || !this.#isOpen) {
      onEnd();
      return;
    }
    server.once('readyForQuery', onReady);
    this.#client.once('end', onEnd);
  }
}

/**
 * A connection that is opened when it is needed, for statements that may be repeated. It runs one statement
 * at a time.
 */
export class ReadingConnection {
  /** Number of connections that it has opened. */
  opened = 0;
  #connection: Connection | undefined;
  #asked: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly address: Address,
    private readonly purpose: string,
  ) {}

  query(sql: string, values: readonly Parameter[] = []): Promise<Answer> {
    return this.#inTurn((connection) => connection.query(sql, values, READ_MS));
  }

  /** See Connection.copy. */
  copy(sql: string): Promise<readonly BinaryRow[]> {
    return this.#inTurn((connection) => connection.copy(sql, READ_MS));
  }

  /** See Connection.transaction. Other statements wait until it ends. */
  transaction<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    return this.#inTurn((connection) => connection.transaction(work));
  }

  async close(): Promise<void> {
    await this.#asked;
    await this.#connection?.close();
    this.#connection = undefined;
  }

  #inTurn<Result>(ask: (connection: Connection) => Promise<Result>): Promise<Result> {
    const answer = this.#asked.then(async () => {
      if (this.#connection?.isOpen !== true) {
        this.#connection = await Connection.open(this.address, this.purpose);
        this.opened++;
      }
      return ask(this.#connection);
    });
    this.#asked = answer.catch(() => undefined);
    return answer;
  }
}

/** Tries each way of encryption. @throws the error of the last attempt that the server answered. */
async function connected(address: Address, host: Host, purpose: string): Promise<pg.Client> {
  const errors: Error[] = [];
  for (const ssl of isSocket(host) ? [false as const] : address.ssl) {
    try {
      return await connectedBy(ssl, address, host, purpose);
    } catch (error) {
      errors.push(error as Error);
      if ((error as { code?: string }).code !== NOT_ENTITLED) break;
    }
  }
  throw errors.findLast((error) => 'code' in error) ?? errors[0] ?? new Error('no way to connect');
}

async function connectedBy(
  ssl: Encryption,
  { database, user, schema }: Address,
  { host, port }: Host,
  purpose: string,
): Promise<pg.Client> {
  const client = new pg.Client({
    ...{ host, port, database, user, ssl: ssl === false ? false : { ...ssl(), host } },
    application_name: `collector/${purpose}`,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    options: [...SETTINGS, `search_path=${schema}`].map((setting) => `-c ${setting}`).join(' '),
  });
  // An error of a session that ends immediately must not end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    if (UNKNOWN_AUTHORITY.test((error as { code?: string }).code ?? ''))
      (error as Error).message += HINT_OF_AUTHORITY;
    throw error;
  }
  return client;
}

const UNKNOWN_AUTHORITY = /^(UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT\w*)|\w*SELF_SIGNED_CERT\w*)$/;
const HINT_OF_AUTHORITY =
  "; name the file of the server's certificate authority by sslrootcert in the address";

/** A query of node-postgres, which passes it the server's messages. */
class CopyOut {
  readonly #rows: BinaryRow[] = [];
  #error: Error | undefined;
  #hasBegun = false;

  constructor(
    private readonly sql: string,
    private readonly done: Done<readonly BinaryRow[]>,
  ) {}

  submit(connection: pg.Connection): void {
    connection.query(this.sql);
  }

  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    // node-postgres reuses the buffer of the chunk.
    const bytes = Buffer.from(this.#hasBegun ? chunk : chunk.subarray(COPY_HEADER_BYTES));
    this.#hasBegun = true;
    const row = bytes.length < 2 ? undefined : rowIn(bytes);
    if (row !== undefined) this.#rows.push(row);
  }

  handleError(error: Error): void {
    this.#error = error;
    this.done(error);
  }

  handleReadyForQuery(): void {
    if (this.#error === undefined) this.done(undefined, this.#rows);
  }

  handleCommandComplete(): void {
    return;
  }
}

/** The signature of eleven bytes, flags, and the length of an extension, which is zero. */
const COPY_HEADER_BYTES = 19;

/**
 * A row of COPY's binary format: int16 number of columns, then for each column an int32 length, -1 for NULL,
 * and its bytes.
 */
function rowIn(bytes: Buffer): BinaryRow | undefined {
  const columns = bytes.readInt16BE(0);
  // The trailer.
  if (columns < 0) return undefined;
  const row: (Buffer | null)[] = [];
  let at = 2;
  for (let i = 0; i < columns; i++) {
    const length = bytes.readInt32BE(at);
    at += 4;
    row.push(length < 0 ? null : bytes.subarray(at, (at += length)));
  }
  return row;
}
