/**
 * A vault of keys in a PostgreSQL database (privacy/key-vault.ts): a row for each record. All of them are in memory, some
 * hundred bytes a bucket, so that no event waits for a question. Rows of removed records stay, empty, so that others see it.
 *
 * It is never the cluster of the log: whoever has a copy of its files, or its write-ahead log, would have the keys too.
 */
import { randomBytes } from 'node:crypto';
import { epochIn, epochName, epochOf, generationOf } from '@clinical-events/collector/privacy/key-record';
import {
  KeysUnfit,
  type KeyVault,
  type RecordName,
  VaultAway,
} from '@clinical-events/collector/privacy/key-vault';
import { type Address, describeAddress } from './address.js';
import { bytesOf } from './binary.js';
import {
  type Connection,
  Lost,
  ReadingConnection,
  Refused,
  type TextRow,
  Unreachable,
} from './connection.js';

/**
 * Replaced bytes stay in their page until it is vacuumed, so it is vacuumed at once; what is left then is under the key of an
 * epoch that ends.
 */
const TABLE = `
CREATE TABLE IF NOT EXISTS encryption_keys (
  name text COLLATE "C" PRIMARY KEY, bytes bytea, version bigint NOT NULL UNIQUE)
WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)`;
/** Writers come one after the other: an epoch cannot end while a state is written under it, and versions become visible in order. */
const LOCK = 'LOCK TABLE encryption_keys IN SHARE ROW EXCLUSIVE MODE';
/** The newest row is always among them. It is that of the marks: every write ends with it. */
const NEWER = `
SELECT name, bytes, version FROM encryption_keys
WHERE version BETWEEN least($1::bigint + 1, (SELECT max(version) FROM encryption_keys))
  AND (SELECT max(version) FROM encryption_keys) ORDER BY version`;
const PUT = `
INSERT INTO encryption_keys (name, bytes, version) VALUES ($1, $2::bytea, $5::bigint + 1), ($3, $4::bytea, $5::bigint + 2)
ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes, version = excluded.version`;
/**
 * A row that is no record: the marks of the last writes, 16 random bytes each, the newest at the end. Where the last write that
 * this process knows is not among them, the database is of an older state, which others may have written to since.
 */
const MARKS = 'marks';
const MARK_BYTES = 16;
/** A process that is more writes behind reads all rows again, which does no harm. */
const MOST_MARKS = 64;
/** A write that changes nothing: it needs all that a write of a record does. */
const TRIAL = `UPDATE encryption_keys SET bytes = bytes WHERE name = '${MARKS}'`;
const CLUSTER = 'SELECT system_identifier::text FROM pg_control_system()';
const NO_MARKS: Buffer = Buffer.alloc(0);
const NOTHING_LOST: ReadonlyMap<RecordName, Buffer> = new Map();

interface Row {
  readonly name: string;
  /** Undefined for a record that was removed. */
  readonly bytes: Buffer | undefined;
  readonly version: number;
}

interface News {
  /** The database is of an older state than what is known here: then these are all of its rows. */
  readonly isOlder: boolean;
  readonly rows: readonly Row[];
}

export class PostgresVault implements KeyVault {
  readonly copies: readonly string[];
  readonly unwritten = new Map<string, unknown>();
  readonly #connection: ReadingConnection;
  readonly #records = new Map<RecordName, Buffer>();
  #marks = NO_MARKS;
  /** Of the newest row that is known. */
  version = 0;
  /** Records whose last write may be committed and not be replicated: it is repeated also where its bytes are there. */
  readonly #inDoubt = new Set<RecordName>();

  private constructor(private readonly address: Address) {
    this.#connection = new ReadingConnection(address, 'encryption keys');
    this.copies = [describeAddress(address)];
  }

  /**
   * @param logCluster the system identifier of the cluster of the log.
   * @throws KeysUnfit when the database cannot be reached, or is on the cluster of the log.
   */
  static async open(
    address: Address,
    logCluster: string,
    { forWriting = false } = {},
  ): Promise<PostgresVault> {
    const vault = new PostgresVault(address);
    const [where = ''] = vault.copies;
    try {
      const [[cluster] = []] = (await vault.#connection.query(CLUSTER)).rows;
      if (cluster === logCluster)
        throw new KeysUnfit(
          `${where} is on the database cluster of the log: whoever has a copy of that would have the keys too`,
        );
      if (forWriting) await vault.#connection.transaction((connection) => makeTable(connection, address));
      await vault.refresh();
      return vault;
    } catch (error) {
      await vault.close();
      if (error instanceof KeysUnfit) throw error;
      throw new KeysUnfit(`the keys of payloads in ${where} cannot be read`, { cause: error });
    }
  }

  async refresh(): Promise<ReadonlyMap<RecordName, Buffer>> {
    const news = this.#news(this.#connection);
    const { isOlder, rows } = await news.catch((error: unknown) => Promise.reject(this.#away(error)));
    if (!isOlder) {
      this.#take(rows);
      return NOTHING_LOST;
    }
    const before = new Map(this.#records);
    this.#records.clear();
    [this.version, this.#marks] = [0, NO_MARKS];
    this.#take(rows);
    // The row of a removed record is still there: that one is not lost.
    for (const { name, bytes } of rows)
      if (bytes === undefined || before.get(name)?.equals(bytes) === true) before.delete(name);
    return before;
  }

  list(within: string): RecordName[] {
    return [...this.#records.keys()].filter((name) => name.startsWith(`${within}/`)).sort();
  }

  read(name: RecordName): Buffer[] {
    const bytes = this.#records.get(name);
    return bytes !== undefined && generationOf(name, bytes) > 0 ? [bytes] : [];
  }

  /** @param bytes undefined removes the record. */
  async write(name: RecordName, bytes: Buffer | undefined, after: number): Promise<'written' | 'stale'> {
    const isInDoubt = this.#inDoubt.has(name);
    if (this.#has(name, bytes) && !isInDoubt) return 'written';
    this.#inDoubt.add(name);
    const written = await this.#change(async (connection) => {
      const news = await this.#news(connection);
      // `refresh` finds it too, and says what the database has lost.
      if (news.isOlder) return 'stale';
      this.#take(news.rows);
      if (!this.#has(name, bytes) && this.#isStale(name, bytes, after)) return 'stale';
      const marks = Buffer.concat([this.#marks, randomBytes(MARK_BYTES)]).subarray(-MOST_MARKS * MARK_BYTES);
      const version = this.version;
      await connection.query(PUT, [name, bytes ?? null, MARKS, marks, version]);
      return [
        { name, bytes, version: version + 1 },
        { name: MARKS, bytes: marks, version: version + 2 },
      ];
    });
    this.#inDoubt.delete(name);
    if (written === 'stale') return 'stale';
    this.#take(written);
    return 'written';
  }

  erase(name: RecordName, bytes: Buffer | undefined, after: number): Promise<readonly string[] | 'stale'> {
    return this.write(name, bytes, after).then(
      (outcome) => (outcome === 'stale' ? 'stale' : []),
      (error: unknown) => {
        if (error instanceof VaultAway) return this.copies;
        throw error;
      },
    );
  }

  async prove(): Promise<void> {
    await this.#change(async (connection) => {
      await connection.query(TRIAL);
    });
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Whether this is stored, as it was read last. */
  #has(name: RecordName, bytes: Buffer | undefined): boolean {
    const [stored] = this.read(name);
    return stored === undefined ? bytes === undefined : bytes?.equals(stored) === true;
  }

  /** Whether another generation is stored, or the epoch of a state is not, or a state is under the epoch that is to go. */
  #isStale(name: RecordName, bytes: Buffer | undefined, after: number): boolean {
    const [stored] = this.read(name);
    if ((stored === undefined ? 0 : generationOf(name, stored)) !== after) return true;
    if (bytes === undefined) return this.#isInUse(epochIn(name));
    const epoch = epochOf(name, bytes);
    return epoch !== undefined && this.read(epochName(epoch)).length === 0;
  }

  #isInUse(epoch: number | undefined): boolean {
    return epoch !== undefined && [...this.#records].some(([name, bytes]) => epochOf(name, bytes) === epoch);
  }

  async #news(connection: Pick<ReadingConnection, 'query'>): Promise<News> {
    const rowsAfter = async (version: number) => (await connection.query(NEWER, [version])).rows.map(rowIn);
    const rows = await rowsAfter(this.version);
    const newest = rows.at(-1);
    const lastMark = this.#marks.subarray(-MARK_BYTES);
    const isKnown = newest?.name === MARKS && newest.bytes?.includes(lastMark) === true;
    if (isKnown || lastMark.length === 0) return { isOlder: false, rows };
    return { isOlder: true, rows: await rowsAfter(0) };
  }

  /** Rows that an answer has brought before are passed over. */
  #take(rows: readonly Row[]): void {
    for (const { name, bytes, version } of rows) {
      if (version <= this.version) continue;
      this.version = version;
      if (name === MARKS) this.#marks = bytes ?? NO_MARKS;
      else if (bytes === undefined) this.#records.delete(name);
      else this.#records.set(name, bytes);
    }
  }

  /** No other writer has a turn meanwhile. @throws VaultAway */
  async #change<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    const [where = ''] = this.copies;
    this.unwritten.clear();
    try {
      return await this.#connection.transaction(async (connection) => {
        await connection.query(LOCK);
        return work(connection);
      });
    } catch (error) {
      this.unwritten.set(where, error);
      throw this.#away(error);
    }
  }

  #away(error: unknown): Error {
    if (!(error instanceof Refused || error instanceof Lost || error instanceof Unreachable))
      return error as Error;
    return new VaultAway(`${this.copies.join()} cannot be reached: ${error.message}`, { cause: error });
  }
}

/** Collectors that begin a log together come one after the other. A role without the right to make it need not, once it is there. */
async function makeTable(connection: Connection, { schema }: Address): Promise<void> {
  await connection.query("SELECT pg_advisory_xact_lock(hashtext('collector encryption keys'))");
  const { rows } = await connection.query("SELECT to_regclass('encryption_keys') IS NULL");
  if (rows[0]?.[0] !== 't') return;
  await connection.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  await connection.query(TABLE);
}

function rowIn([name, bytes, version]: TextRow): Row {
  return {
    ...{ name: name ?? '', version: Number(version) },
    bytes: typeof bytes === 'string' ? bytesOf(bytes) : undefined,
  };
}
