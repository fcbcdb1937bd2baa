/**
 * How many runs began in each hour, by how complete they are: kept with the rows, in the same transaction, so that a
 * question costs a row an hour. Triggers would do so by themselves, but SQLite then keeps a journal of each statement
 * in a file, which took a third of the time of an update.
 */
import type { DatabaseSync } from 'node:sqlite';
import { type Cells } from './columns.js';
import type { Statements } from './statements.js';
/** Counts of runs that have a start, and of events. */
export interface Tally {
    /** When the first of its hours begins, in milliseconds since 1970. */
    readonly since: number;
    readonly full: number;
    readonly minimum: number;
    readonly incomplete: number;
    readonly retired: number;
    /** Of all of these. */
    readonly withoutOutcome: number;
    /** Of records that began then: events whose run has no start, or whose parent is not there. */
    readonly orphanEvents: number;
    /** How many events of the log are taken in, whenever they came. */
    readonly events: number;
}
/** What the rows of a transaction have added so far. */
export declare class TallyChanges {
    #private;
    private readonly statements;
    constructor(statements: Statements);
    /** To be called before a row goes or says something else: one that is summed is counted no longer. */
    takeOut(row: number): void;
    /** @param cells of a row that is summed now. */
    add(isRun: boolean, cells: Cells): void;
    /** On return the table says it too, within the transaction of the caller. */
    write(): void;
    forget(): void;
}
export declare function tallyOf(database: DatabaseSync, since: number): Tally;
