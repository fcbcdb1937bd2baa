/** The texts that rows have, by their numbers: a text stands once in the file, encrypted where payloads are. */
import type { DatabaseSync } from 'node:sqlite';
import type { NameCipher } from '../privacy/name-cipher.js';
import type { NameNumbers, Value } from './columns.js';
/** @throws CatalogueDamaged for what is no name. */
export declare function readName(stored: Value | undefined, cipher: NameCipher | undefined): string;
export declare class Names implements NameNumbers {
    #private;
    private readonly database;
    private readonly cipher;
    constructor(database: DatabaseSync, cipher: NameCipher | undefined);
    /** Forgets what it knows: after a rollback, and when another connection has written. */
    forget(): void;
    /** Undefined when no row has the text. */
    known(text: string): number | undefined;
    /** The number of a text, which is given one where it has none. */
    idOf(text: string): number;
    /** @throws CatalogueDamaged where there is no such number. */
    nameOf(id: number): string;
    /** Takes out the texts that no row has any more. Reads every row. */
    dropUnused(): void;
}
