import { NAME_COLUMNS } from './columns.js';
import { CatalogueDamaged } from './faults.js';
/** Of each of the two maps; longer texts are not kept. */
const MOST_KEPT = 1 << 16;
const LONGEST_KEPT = 256;
/** How a text stands in the file. SQLite's text ends at the first NUL for some of its readers. */
function storedName(text, cipher) {
    if (cipher !== undefined)
        return cipher.seal(text);
    return text.includes('\0') ? Buffer.from(text) : text;
}
/** @throws CatalogueDamaged for what is no name. */
export function readName(stored, cipher) {
    if (cipher === undefined && typeof stored === 'string')
        return stored;
    if (!(stored instanceof Uint8Array))
        throw new CatalogueDamaged('a text that a row names is not there');
    const text = cipher === undefined ? Buffer.from(stored).toString() : cipher.open(stored);
    if (text === undefined)
        throw new CatalogueDamaged('a name does not open by the key of names');
    return text;
}
export class Names {
    database;
    cipher;
    #ids = new Map();
    #texts = new Map();
    #find;
    #read;
    #insert;
    constructor(database, cipher) {
        this.database = database;
        this.cipher = cipher;
        this.#find = database.prepare('SELECT id FROM name WHERE text = ?');
        this.#read = database.prepare('SELECT text FROM name WHERE id = ?');
    }
    /** Forgets what it knows: after a rollback, and when another connection has written. */
    forget() {
        this.#ids.clear();
        this.#texts.clear();
    }
    /** Undefined when no row has the text. */
    known(text) {
        const kept = this.#ids.get(text);
        if (kept !== undefined)
            return kept;
        const found = this.#find.get(storedName(text, this.cipher))?.['id'];
        return found === undefined ? undefined : this.#keep(text, Number(found));
    }
    /** The number of a text, which is given one where it has none. */
    idOf(text) {
        const known = this.known(text);
        if (known !== undefined)
            return known;
        this.#insert ??= this.database.prepare('INSERT INTO name (text) VALUES (?)');
        const { lastInsertRowid } = this.#insert.run(storedName(text, this.cipher));
        return this.#keep(text, Number(lastInsertRowid));
    }
    /** @throws CatalogueDamaged where there is no such number. */
    nameOf(id) {
        const kept = this.#texts.get(id);
        if (kept !== undefined)
            return kept;
        const text = readName(this.#read.get(id)?.['text'], this.cipher);
        this.#keep(text, id);
        return text;
    }
    /** Takes out the texts that no row has any more. Reads every row. */
    dropUnused() {
        const used = NAME_COLUMNS.map((column) => `SELECT ${column} FROM run WHERE ${column} IS NOT NULL`);
        this.database.exec(`DELETE FROM name WHERE id NOT IN (${used.join(' UNION ')})`);
        this.forget();
    }
    #keep(text, id) {
        if (text.length > LONGEST_KEPT)
            return id;
        if (this.#ids.size >= MOST_KEPT)
            this.forget();
        this.#ids.set(text, id);
        this.#texts.set(id, text);
        return id;
    }
}
//# sourceMappingURL=names.js.map