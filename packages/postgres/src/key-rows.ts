/**
 * The keys of payloads in a database of their own: each file of a directory of keys (privacy/key-directory.ts) is a row.
 * All of them are in memory, some hundred bytes a bucket, so that no event waits for a question; what is written is there
 * at once and durable when it was saved. Rows that were removed stay, empty, so that others see it.
 *
 * It is never the cluster of the log: whoever has a copy of its files, or its write-ahead log, would have the keys too.
 */
import { randomBytes } from 'node:crypto';
import {
  type KeyFiles,
  type KeyPlaces,
  KeyReader,
  KeysUnfit,
  KeyWriter,
  type KeyWriterOptions,
  type StoredKeys,
  type TakenKeys,
} from '@clinical-events/collector/privacy/key-directory';
import { type Address, describeAddress, parseAddress } from './address.js';
import { bytesOf } from './binary.js';
import { type Connection, ReadingConnection } from './connection.js';

/**
 * What was replaced stays in its page until that is vacuumed, so it is vacuumed at once; what is left then is under the key
 * of an epoch that goes.
 */
const TABLE = `
CREATE TABLE IF NOT EXISTS encryption_keys (
  name text COLLATE "C" PRIMARY KEY, bytes bytea, version bigint NOT NULL UNIQUE)
WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)`;
/** Writers come one after the other: so versions become visible in their order. */
const LOCK = 'LOCK TABLE encryption_keys IN SHARE ROW EXCLUSIVE MODE';
/** The newest row is among them at any rate. It is that of the marks: every save ends with it. */
const NEWER = `
SELECT name, bytes, version FROM encryption_keys
WHERE version BETWEEN least($1::bigint + 1, (SELECT max(version) FROM encryption_keys))
  AND (SELECT max(version) FROM encryption_keys) ORDER BY version`;
/** Names and hexadecimal bytes behind commas, which none of them holds; `-` for one that is removed. */
const PUT = `
INSERT INTO encryption_keys (name, bytes, version)
SELECT t.name, decode(nullif(t.hex, '-'), 'hex'), $3::bigint + t.n
FROM unnest(string_to_array($1, ','), string_to_array($2, ',')) WITH ORDINALITY AS t (name, hex, n)
ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes, version = excluded.version`;
/**
 * A row that is no file: the marks of the last saves, 16 random bytes each, the newest at the end. Who does not find there
 * the last save that it knows has been overtaken: the table is of an older state, which others may have written to since.
 */
const MARKS = 'marks';
const MARK_BYTES = 16;
/** Behind more it is read anew for nothing, which does no harm. */
const MOST_MARKS = 64;
/** A write that changes nothing: it needs all that a save does. Every save leaves the row. */
const TRIAL = `UPDATE encryption_keys SET bytes = bytes WHERE name = '${MARKS}'`;
const CLUSTER = 'SELECT system_identifier::text FROM pg_control_system()';

/**
 * What was to be saved when another process had changed keys, by the names of the files; undefined for one that was to be
 * removed. Nothing of it was saved, and all that is in the database is in memory, and nothing else. Also what had been
 * saved, where the database has lost it.
 */
type Lost = ReadonlyMap<string, Buffer | undefined>;

export class KeyRows implements KeyFiles {
  readonly #connection: ReadingConnection;
  /** What is in the database, up to a version. */
  readonly #stored = new Map<string, Buffer>();
  #version = 0;
  /** What is in memory alone; undefined of one that is to be removed. */
  #unsaved = new Map<string, Buffer | undefined>();

  private constructor(readonly address: Address) {
    this.#connection = new ReadingConnection(address, 'encryption keys');
  }

  /** @throws KeysUnfit when the database cannot be reached, or is on the cluster of the log. */
  static async open(address: Address, logCluster: string, { forWriting = false } = {}): Promise<KeyRows> {
    const rows = new KeyRows(address);
    try {
      const [[cluster] = []] = (await rows.#connection.query(CLUSTER)).rows;
      if (cluster === logCluster)
        throw new KeysUnfit(
          `${describeAddress(address)} is on the database cluster of the log: whoever has a copy of that would have the keys too`,
        );
      if (forWriting) await rows.#connection.transaction((connection) => makeTable(connection, address));
      await rows.refresh(() => undefined);
      return rows;
    } catch (error) {
      await rows.close();
      if (error instanceof KeysUnfit) throw error;
      throw new KeysUnfit(`the keys of payloads in ${describeAddress(address)} cannot be read`, {
        cause: error,
      });
    }
  }

  list(_: string, within: string): string[] {
    const known = new Set([...this.#stored.keys(), ...this.#unsaved.keys()]);
    const names = [...known].filter((name) => name.startsWith(`${within}/`) && this.read(_, name));
    return names.map((name) => name.slice(within.length + 1)).sort();
  }

  read(_: string, name: string): Buffer | undefined {
    return this.#unsaved.has(name) ? this.#unsaved.get(name) : this.#stored.get(name);
  }

  replace(_: string, name: string, bytes: Buffer): void {
    this.#unsaved.set(name, bytes);
  }

  remove(_: string, name: string): void {
    if (this.#stored.has(name)) this.#unsaved.set(name, undefined);
    else this.#unsaved.delete(name);
  }

  /** Whether all that was written is in the database. */
  get isSaved(): boolean {
    return this.#unsaved.size === 0;
  }

  /**
   * On return all that was written is durable, unless another process has changed any keys since these were read: who writes
   * has to know all that is there.
   * @param onMoved called then, before anything else is written. @returns whether it was saved.
   * @throws whatever keeps the database from taking it, and then it is to be saved again.
   */
  async save(onMoved: (lost: Lost) => void): Promise<boolean> {
    if (this.isSaved) return true;
    const done = await this.#connection.transaction(async (connection) => {
      await connection.query(LOCK);
      const news = await this.#news(connection);
      // In its turn: what was written while others had theirs goes with it.
      const saved = new Map(this.#unsaved);
      // What is the same was saved by the last try, whose answer did not come.
      if (news.isOlder || news.rows.some((row) => isOther(row, saved))) return { news };
      const version = Number(news.rows.at(-1)?.[2] ?? this.#version);
      const known = marksIn(news.rows) ?? this.#stored.get(MARKS) ?? NOTHING;
      saved.set(MARKS, Buffer.concat([known, randomBytes(MARK_BYTES)]).subarray(-MOST_MARKS * MARK_BYTES));
      const names = [...saved.keys()].join();
      const bytes = [...saved.values()].map((each) => each?.toString('hex') ?? '-').join();
      await connection.query(PUT, [names, bytes, version]);
      return { saved, version: version + saved.size };
    });
    if (done.news !== undefined) {
      onMoved(this.#moved(done.news));
      return false;
    }
    this.#version = done.version;
    for (const [name, bytes] of done.saved) {
      if (bytes === undefined) this.#stored.delete(name);
      else this.#stored.set(name, bytes);
      if (this.#unsaved.get(name) === bytes) this.#unsaved.delete(name);
    }
    return true;
  }

  /** @throws whatever would keep the database from taking a key. */
  async prove(): Promise<void> {
    await this.#connection.transaction(async (connection) => {
      await connection.query(LOCK);
      await connection.query(TRIAL);
    });
  }

  /** On return what others have changed is known. @param onMoved as of `save`, where they have changed any. */
  async refresh(onMoved: (lost: Lost) => void): Promise<void> {
    const news = await this.#news(this.#connection);
    if (news.isOlder || news.rows.length > 0) onMoved(this.#moved(news));
  }

  /** On return nothing is in memory but what is in the database, as it is known. @returns what else was. */
  drop(): Map<string, Buffer | undefined> {
    const lost = this.#unsaved;
    this.#unsaved = new Map();
    return lost;
  }

  async #news(connection: Pick<ReadingConnection, 'query'>): Promise<News> {
    const { rows } = await connection.query(NEWER, [this.#version]);
    const isOlder = !this.#isNewer(rows);
    if (isOlder) return { isOlder, rows: (await connection.query(NEWER, [0])).rows };
    return { isOlder, rows: rows.filter(([, , version]) => Number(version) > this.#version) };
  }

  /** @param rows the newest of the table. @returns whether it has all that is known here. */
  #isNewer(rows: readonly Row[]): boolean {
    const last = this.#stored.get(MARKS)?.subarray(-MARK_BYTES);
    if (last === undefined) return Number(rows.at(-1)?.[2] ?? 0) >= this.#version;
    const marks = marksIn(rows) ?? NOTHING;
    for (let at = 0; at < marks.length; at += MARK_BYTES)
      if (marks.subarray(at, at + MARK_BYTES).equals(last)) return true;
    return false;
  }

  #moved({ isOlder, rows }: News): Lost {
    const before = isOlder ? new Map(this.#stored) : undefined;
    if (isOlder) {
      this.#stored.clear();
      this.#version = 0;
    }
    for (const [name, bytes, version] of rows) {
      // Another answer may have brought it already.
      if (Number(version) <= this.#version) continue;
      this.#version = Number(version);
      if (typeof bytes === 'string') this.#stored.set(name ?? '', bytesOf(bytes));
      else this.#stored.delete(name ?? '');
    }
    const lost = this.drop();
    // One that was removed has a row all the same.
    const removed = new Set(rows.flatMap(([name, bytes]) => (bytes === null ? [name] : [])));
    for (const [name, bytes] of before ?? [])
      if (name !== MARKS && !removed.has(name) && this.#stored.get(name)?.equals(bytes) !== true)
        if (!lost.has(name)) lost.set(name, bytes);
    return lost;
  }

  close(): Promise<void> {
    return this.#connection.close();
  }
}

/** Collectors that begin a log together come one after the other. A role that may not make it needs not, once it is there. */
async function makeTable(connection: Connection, { schema }: Address): Promise<void> {
  await connection.query("SELECT pg_advisory_xact_lock(hashtext('collector encryption keys'))");
  const { rows } = await connection.query("SELECT to_regclass('encryption_keys') IS NULL");
  if (rows[0]?.[0] !== 't') return;
  await connection.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  await connection.query(TABLE);
}

type Row = readonly (string | null)[];

/** What is in the database and not known here. */
interface News {
  /** It was restored to an older state than what is known: then these are all rows that it has. */
  readonly isOlder: boolean;
  readonly rows: readonly Row[];
}

const NOTHING = Buffer.alloc(0);

/** Undefined where the newest row is not that of the marks. */
function marksIn(rows: readonly Row[]): Buffer | undefined {
  const [name, bytes] = rows.at(-1) ?? [];
  return name === MARKS && typeof bytes === 'string' ? bytesOf(bytes) : undefined;
}

function isOther([name, bytes]: Row, saved: Lost): boolean {
  if (name === MARKS) return false;
  if (typeof name !== 'string' || !saved.has(name)) return true;
  const own = saved.get(name);
  return typeof bytes === 'string' ? own?.equals(bytesOf(bytes)) !== true : own !== undefined;
}

/** The keys of a log in a database, for readers. */
export class SharedKeyReader {
  private constructor(
    private readonly rows: KeyRows,
    readonly stored: KeyReader,
  ) {}

  /** @throws KeysUnfit when there are none, or they cannot be read. */
  static async open({ directories, kek }: KeyPlaces, logCluster: string): Promise<SharedKeyReader> {
    const [where = ''] = directories;
    const rows = await KeyRows.open(parseAddress(where), logCluster);
    const reader = KeyReader.open(rows, { directories, kek });
    if (reader !== undefined) return new SharedKeyReader(rows, reader);
    await rows.close();
    throw new KeysUnfit(`there are no keys of payloads in ${describeAddress(parseAddress(where))}`);
  }

  /**
   * To be called when rows were read that are to be opened: their keys were durable before them. On return all that is
   * there is known, and nothing else.
   */
  async refresh(): Promise<void> {
    await this.rows.refresh(() => this.stored.drop());
    this.stored.readAnew();
  }

  close(): Promise<void> {
    return this.rows.close();
  }
}

/** The keys of a log in a database, for a collector among others. */
export class SharedKeyWriter {
  /** They could not be written the last time. */
  #isAway = false;
  /** Whether this process was seen to write where keys are. */
  #isProven = false;

  private constructor(
    private readonly rows: KeyRows,
    readonly writer: KeyWriter,
    private readonly onTrouble: KeyWriterOptions['onTrouble'],
  ) {}

  /** As KeyWriter.open. @throws KeysUnfit, KekFault. */
  static async open(options: Omit<KeyWriterOptions, 'files'>, logCluster: string): Promise<SharedKeyWriter> {
    const [where = ''] = options.places.directories;
    const rows = await KeyRows.open(parseAddress(where), logCluster, { forWriting: true });
    try {
      for (;;) {
        const writer = await KeyWriter.open({ ...options, files: rows, hasPlaces: true });
        // Else another collector has made the first keys.
        if (await rows.save(() => undefined)) return new SharedKeyWriter(rows, writer, options.onTrouble);
      }
    } catch (error) {
      await rows.close();
      throw error;
    }
  }

  /** On return every key that was given out is durable. @throws whatever keeps the database from taking it. */
  async save(): Promise<void> {
    try {
      do if (this.writer.isBehind) this.writer.takeOver(this.rows.drop());
      while (!(await this.rows.save((lost) => this.writer.takeOver(lost))));
      this.#isAway = false;
    } catch (error) {
      this.#isAway = true;
      throw error;
    }
  }

  /** On return a key can be made durable, and every one that was given out is. @throws what keeps the database from it. */
  async prove(): Promise<void> {
    if (this.rows.isSaved && !this.#isProven) await this.rows.prove();
    this.#isProven = true;
    await this.save();
  }

  /** As KeyWriter has it: what is destroyed is so in the database, whoever writes there besides. */
  destroy(taken: readonly TakenKeys[]): Promise<string[]> {
    return this.#saved(() => this.writer.destroy(taken));
  }

  noteAction(body: object): Promise<string[]> {
    return this.#saved(() => this.writer.noteAction(body));
  }

  /** As KeyWriter has it. Where another process was first, nothing is begun that it has not. */
  async rotate(): Promise<string[]> {
    const { epoch } = this.writer;
    const begin = () => (this.writer.epoch === epoch ? this.writer.rotate() : []);
    const unreached = await this.#saved(begin);
    return unreached.length > 0 ? unreached : this.finishRotation();
  }

  finishRotation(): Promise<string[]> {
    return this.#saved(() => this.writer.finishRotation());
  }

  get stored(): StoredKeys {
    return this.writer.stored;
  }

  get isRotating(): boolean {
    return this.writer.isRotating;
  }

  get epoch(): number {
    return this.writer.epoch;
  }

  get epochBegun(): number {
    return this.writer.epochBegun;
  }

  get directories(): KeyWriter['directories'] {
    return { all: 1, inTrouble: Number(this.#isAway) };
  }

  /**
   * Does what may be done again until nothing of it is left to be saved: what others write may have undone it here. Nothing
   * is begun while the database is away, else no event could be stored before that is saved.
   */
  async #saved(work: () => string[] | Promise<string[]>): Promise<string[]> {
    for (;;) {
      try {
        // A bucket that is not known yet would be passed over.
        await this.refresh();
      } catch (error) {
        return this.#away(error);
      }
      const unreached = await work();
      if (this.rows.isSaved && !this.writer.isBehind) return unreached;
    }
  }

  #away(error: unknown): string[] {
    const where = describeAddress(this.rows.address);
    this.onTrouble(`the keys of payloads in ${where} cannot be written`, error);
    return [where];
  }

  /** On return what others have done to the keys is done here too. @throws when it cannot be known. */
  async refresh(): Promise<void> {
    await this.rows.refresh((lost) => this.writer.takeOver(lost));
    await this.save();
  }

  close(): Promise<void> {
    return this.rows.close();
  }
}
