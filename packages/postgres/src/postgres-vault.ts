/**
 * A key vault in a PostgreSQL database (privacy/key-vault.ts): one row for each record. All records are in
 * memory, a few hundred bytes for each bucket, so that no event waits for a query. The row of a removed
 * record stays, with NULL, so that other processes see the removal.
 *
 * The vault is never on the log's cluster: a copy of the cluster's files, or of its write-ahead log, would
 * contain the keys.
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
import { sql } from './sql.js';

/**
 * The row with the marks of the last writes, 16 random bytes each, the newest at the end. If it lacks the
 * last write that this process knows, the database was restored to an older state, and others may have
 * written to it since.
 */
const MARKS = 'marks';
const MARK_BYTES = 16;
/** A process that missed more writes reads all rows again, which is harmless. */
const MOST_MARKS = 64;
const NO_MARKS: Buffer = Buffer.alloc(0);
const NOTHING_LOST: ReadonlyMap<RecordName, Buffer> = new Map();

interface Row {
  readonly name: string;
  /** Undefined for a record that was removed. */
  readonly bytes: Buffer | undefined;
  readonly version: number;
}

interface News {
  /** Whether the database is in an older state than this process knows; then `rows` has all rows. */
  readonly isOlder: boolean;
  readonly rows: readonly Row[];
}

export class PostgresVault implements KeyVault {
  readonly copies: readonly string[];
  readonly unwritten = new Map<string, unknown>();
  readonly #connection: ReadingConnection;
  readonly #records = new Map<RecordName, Buffer>();
  #marks = NO_MARKS;
  /** Version of the newest known row. */
  version = 0;
  /**
   * Records whose last write may be committed but not replicated: it is repeated even if the bytes are
   * stored.
   */
  readonly #inDoubt = new Set<RecordName>();

  private constructor(private readonly address: Address) {
    this.#connection = new ReadingConnection(address, 'encryption keys');
    this.copies = [describeAddress(address)];
  }

  /**
   * @param logCluster system identifier of the log's cluster.
   * @throws KeysUnfit if the database cannot be reached, or is on the log's cluster.
   */
  static async open(
    address: Address,
    logCluster: string,
    { forWriting = false } = {},
  ): Promise<PostgresVault> {
    const vault = new PostgresVault(address);
    const [where = ''] = vault.copies;
    try {
      const [[cluster] = []] = (await vault.#connection.query(sql('cluster'))).rows;
      if (cluster === logCluster)
        throw new KeysUnfit(
          `${where} is on the database cluster of the log: a copy of that cluster would contain the keys too`,
        );
      if (forWriting) await vault.#connection.transaction((connection) => makeTable(connection, address));
      await vault.refresh();
      return vault;
    } catch (error) {
      await vault.close();
      if (error instanceof KeysUnfit) throw error;
      throw new KeysUnfit(`the payload keys in ${where} cannot be read`, { cause: error });
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
    // A removed record is not lost: its row still exists.
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
      // `refresh` finds this too, and returns the lost records.
      if (news.isOlder) return 'stale';
      this.#take(news.rows);
      if (!this.#has(name, bytes) && this.#isStale(name, bytes, after)) return 'stale';
      const marks = Buffer.concat([this.#marks, randomBytes(MARK_BYTES)]).subarray(-MOST_MARKS * MARK_BYTES);
      const version = this.version;
      await connection.query(sql('put_record'), [name, bytes ?? null, MARKS, marks, version]);
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
      await connection.query(sql('try_vault'));
    });
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Whether the last read found these bytes. */
  #has(name: RecordName, bytes: Buffer | undefined): boolean {
    const [stored] = this.read(name);
    return stored === undefined ? bytes === undefined : bytes?.equals(stored) === true;
  }

  /**
   * Whether another generation is stored, the epoch of a state is missing, or an epoch to be removed is in
   * use.
   */
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
    const rowsAfter = async (version: number) =>
      (await connection.query(sql('newer_records'), [version])).rows.map(rowIn);
    const rows = await rowsAfter(this.version);
    const newest = rows.at(-1);
    const lastMark = this.#marks.subarray(-MARK_BYTES);
    const isKnown = newest?.name === MARKS && newest.bytes?.includes(lastMark) === true;
    if (isKnown || lastMark.length === 0) return { isOlder: false, rows };
    return { isOlder: true, rows: await rowsAfter(0) };
  }

  /** Skips rows that are known already. */
  #take(rows: readonly Row[]): void {
    for (const { name, bytes, version } of rows) {
      if (version <= this.version) continue;
      this.version = version;
      if (name === MARKS) this.#marks = bytes ?? NO_MARKS;
      else if (bytes === undefined) this.#records.delete(name);
      else this.#records.set(name, bytes);
    }
  }

  /** Runs `work` in a transaction that excludes other writers. @throws VaultAway */
  async #change<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> {
    const [where = ''] = this.copies;
    this.unwritten.clear();
    try {
      return await this.#connection.transaction(async (connection) => {
        await connection.query(sql('lock_vault'));
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

/** Creates the table if it is missing. A role without the right to create it can use an existing one. */
async function makeTable(connection: Connection, { schema }: Address): Promise<void> {
  await connection.query(sql('lock_vault_creation'));
  const { rows } = await connection.query(sql('vault_is_missing'));
  if (rows[0]?.[0] !== 't') return;
  await connection.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  await connection.query(sql('create_vault'));
}

function rowIn([name, bytes, version]: TextRow): Row {
  return {
    ...{ name: name ?? '', version: Number(version) },
    bytes: typeof bytes === 'string' ? bytesOf(bytes) : undefined,
  };
}
