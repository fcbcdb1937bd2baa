import { DatabaseSync } from 'node:sqlite';
import type { EventLog } from '../store/contract/events.js';
/** Notes this process. What cannot be noted is not: it is only for a message. */
export declare function noteHolder(directory: string): void;
/** @returns in words who writes the catalogue. */
export declare function holderOf(directory: string): string;
export declare const CATALOGUE_FILE = "catalogue.sqlite";
export type Sql = DatabaseSync;
/** A connection that writes, and one that reads what is committed. */
export declare class CatalogueFile {
    #private;
    readonly directory: string;
    readonly writer: Sql;
    readonly reader: Sql;
    private constructor();
    /**
     * On return the file is there, for its owner alone, and of this ledger: empty, where what stood there was of no use.
     * @param mostPages how large the file may become; tests make it small.
     * @throws CatalogueFault.
     */
    static open(directory: string, ledgerId: string, mostPages?: number): CatalogueFile;
    /** Whether it is still what stands under its name. */
    get isCurrent(): boolean;
    close(): void;
}
/** What a catalogue is of: the ledger, and where its names are encrypted the key that they are encrypted by. */
export declare function contentId({ ledgerId, names, }: Pick<EventLog, 'ledgerId'> & Partial<Pick<EventLog, 'names'>>): string;
/** Removes the catalogue of a directory. Who has it open goes on with what was removed. */
export declare function removeFile(directory: string): void;
/** What a catalogue of this version is of (contentId); undefined of another version. */
export declare function contentOf(database: Sql): string | undefined;
/** Empties it within a transaction of the caller. */
export declare function clear(database: Sql, ledgerId: string): void;
