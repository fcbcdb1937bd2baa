/** The names in rows, by number: the file has each text once, encrypted if payloads are encrypted. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { NameCipher } from '../privacy/name-cipher.js';
import type { NameNumbers, Value } from './columns.js';
import { CALL_NAME_COLUMNS, NAME_COLUMNS } from './columns.js';
import { CatalogueDamaged } from './faults.js';
import { NAME_INDEX } from './schema.js';

/** Limit of each of the two caches; longer texts are not cached. */
const MOST_KEPT = 1 << 16;
const LONGEST_KEPT = 256;
/** Number of rows that are read before they are changed. */
const RESEALED = 4096;

/** The stored form of a text. Some readers of SQLite end a text at the first NUL. */
function storedName(text: string, cipher: NameCipher | undefined): string | Uint8Array {
  if (cipher !== undefined) return cipher.seal(text);
  return text.includes('\0') ? Buffer.from(text) : text;
}

/** @throws CatalogueDamaged if it is not a name. */
export function readName(stored: Value | undefined, cipher: NameCipher | undefined): string {
  if (cipher === undefined && typeof stored === 'string') return stored;
  if (!(stored instanceof Uint8Array)) throw new CatalogueDamaged('a text that a row names is missing');
  const text = cipher === undefined ? Buffer.from(stored).toString() : cipher.open(stored);
  if (text === undefined) throw new CatalogueDamaged('a name cannot be decrypted by the key of names');
  return text;
}

export class Names implements NameNumbers {
  readonly #ids = new Map<string, number>();
  readonly #texts = new Map<number, string>();
  readonly #find: StatementSync;
  readonly #read: StatementSync;
  #insert: StatementSync | undefined;

  constructor(
    private readonly database: DatabaseSync,
    private key: NameCipher | undefined,
  ) {
    this.#find = database.prepare('SELECT id FROM name WHERE text = ?');
    this.#read = database.prepare('SELECT text FROM name WHERE id = ?');
  }

  /** Uses this key from now on. */
  use(cipher: NameCipher | undefined): void {
    this.key = cipher;
    this.forget();
  }

  get cipher(): NameCipher | undefined {
    return this.key;
  }

  /**
   * Encrypts all texts by another key within a transaction; numbers stay.
   * @throws CatalogueDamaged if the previous key does not decrypt a text.
   */
  reseal(cipher: NameCipher, signal?: AbortSignal): void {
    // The order of texts changes: updating the index for each of them would change random pages.
    this.database.exec('DROP INDEX name_text');
    const update = this.database.prepare('UPDATE name SET text = ? WHERE id = ?');
    const some = this.database.prepare(
      `SELECT id, text FROM name WHERE id > ? ORDER BY id LIMIT ${RESEALED}`,
    );
    for (let last = 0, rows; (rows = some.all(last)).length > 0;) {
      signal?.throwIfAborted();
      for (const { id, text } of rows) update.run(cipher.seal(readName(text, this.key)), (last = Number(id)));
    }
    this.database.exec(NAME_INDEX);
    this.use(cipher);
  }

  /** Empties the caches: after a rollback, and after a write by another connection. */
  forget(): void {
    this.#ids.clear();
    this.#texts.clear();
  }

  /** Returns undefined if no row has the text. */
  known(text: string): number | undefined {
    const kept = this.#ids.get(text);
    if (kept !== undefined) return kept;
    const found = this.#find.get(storedName(text, this.key))?.['id'];
    return found === undefined ? undefined : this.#keep(this.#ids, text, Number(found));
  }

  /** The number of a text; inserts a new text. */
  idOf(text: string): number {
    const known = this.known(text);
    if (known !== undefined) return known;
    this.#insert ??= this.database.prepare('INSERT INTO name (text) VALUES (?)');
    const { lastInsertRowid } = this.#insert.run(storedName(text, this.key));
    return this.#keep(this.#ids, text, Number(lastInsertRowid));
  }

  /** @throws CatalogueDamaged if there is no such number. */
  nameOf(id: number): string {
    const kept = this.#texts.get(id);
    if (kept !== undefined) return kept;
    return this.#keep(this.#texts, id, readName(this.#read.get(id)?.['text'], this.key));
  }

  /** Deletes texts that no row uses. Reads every row. */
  dropUnused(): void {
    const used = [NAME_COLUMNS.map((name) => [name, 'run']), CALL_NAME_COLUMNS.map((name) => [name, 'call'])]
      .flat()
      .map(([column, table]) => `SELECT ${column} FROM ${table} WHERE ${column} IS NOT NULL`);
    this.database.exec(`DELETE FROM name WHERE id NOT IN (${used.join(' UNION ')})`);
    this.forget();
  }

  #keep<Key, Value extends string | number>(kept: Map<Key, Value>, key: Key, value: Value): Value {
    if (String(key).length > LONGEST_KEPT || String(value).length > LONGEST_KEPT) return value;
    if (kept.size >= MOST_KEPT) kept.clear();
    kept.set(key, value);
    return value;
  }
}
