/** Statements of a connection, each made once and found by its text. Rows are lists. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Value } from './columns.js';
export type Row = readonly Value[];
/** A statement whose rows are lists. */
export declare function listing(database: DatabaseSync, sql: string): StatementSync;
export declare class Statements {
    #private;
    readonly database: DatabaseSync;
    constructor(database: DatabaseSync);
    first(sql: string, ...values: Value[]): Row | undefined;
    all(sql: string, ...values: Value[]): Row[];
    /** Another question by the same text ends it. */
    rows(sql: string, ...values: Value[]): IterableIterator<Row>;
    run(sql: string, ...values: Value[]): void;
}
