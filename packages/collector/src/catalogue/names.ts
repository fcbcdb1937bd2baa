/** The texts that rows have, by their numbers: a text stands once in the file, encrypted where payloads are. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { NameCipher } from '../privacy/name-cipher.js';
import type { NameNumbers, Value } from './columns.js';
import { CALL_NAME_COLUMNS, NAME_COLUMNS } from './columns.js';
import { CatalogueDamaged } from './faults.js';
import { NAME_INDEX } from './schema.js';

/** Of each of the two maps; longer texts are not kept. */
const MOST_KEPT = 1 << 16;
const LONGEST_KEPT = 256;
/** Rows that are read before they are changed. */
const RESEALED = 4096;

/** How a text stands in the file. SQLite's text ends at the first NUL for some of its readers. */
function storedName(text: string, cipher: NameCipher | undefined): string | Uint8Array {
  if (cipher !== undefined) return cipher.seal(text);
  return text.includes('\0') ? Buffer.from(text) : text;
}

/** @throws CatalogueDamaged for what is no name. */
export function readName(stored: Value | undefined, cipher: NameCipher | undefined): string {
  if (cipher === undefined && typeof stored === 'string') return stored;
  if (!(stored instanceof Uint8Array)) throw new CatalogueDamaged('a text that a row names is not there');
  const text = cipher === undefined ? Buffer.from(stored).toString() : cipher.open(stored);
  if (text === undefined) throw new CatalogueDamaged('a name does not open by the key of names');
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

  /** From now on names are sealed and opened by this key. */
  use(cipher: NameCipher | undefined): void {
    this.key = cipher;
    this.forget();
  }

  get cipher(): NameCipher | undefined {
    return this.key;
  }

  /**
   * Within a transaction: on return all texts are sealed by another key, each under its number.
   * @throws CatalogueDamaged for a text that the key of before does not open.
   */
  reseal(cipher: NameCipher, signal?: AbortSignal): void {
    // Texts are in no order of theirs: kept meanwhile, the index would change at a random place with each of them.
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

  /** Forgets what it knows: after a rollback, and when another connection has written. */
  forget(): void {
    this.#ids.clear();
    this.#texts.clear();
  }

  /** Undefined when no row has the text. */
  known(text: string): number | undefined {
    const kept = this.#ids.get(text);
    if (kept !== undefined) return kept;
    const found = this.#find.get(storedName(text, this.key))?.['id'];
    return found === undefined ? undefined : this.#keep(this.#ids, text, Number(found));
  }

  /** The number of a text, which is given one where it has none. */
  idOf(text: string): number {
    const known = this.known(text);
    if (known !== undefined) return known;
    this.#insert ??= this.database.prepare('INSERT INTO name (text) VALUES (?)');
    const { lastInsertRowid } = this.#insert.run(storedName(text, this.key));
    return this.#keep(this.#ids, text, Number(lastInsertRowid));
  }

  /** @throws CatalogueDamaged where there is no such number. */
  nameOf(id: number): string {
    const kept = this.#texts.get(id);
    if (kept !== undefined) return kept;
    return this.#keep(this.#texts, id, readName(this.#read.get(id)?.['text'], this.key));
  }

  /** Takes out the texts that no row has any more. Reads every row. */
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
