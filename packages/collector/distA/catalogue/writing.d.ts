/** Writes what was summed of records into their rows. */
import type { Place } from '../store/contract/events.js';
import type { DueRecord, Summed } from './summing.js';
import type { EventRow, Tables } from './tables.js';
/** A record whose row is not what its events say. */
export interface DueRow extends DueRecord {
    readonly organisation: number;
    readonly parent: number | null;
    readonly wasSummed: boolean;
    readonly places: readonly (Place & Pick<EventRow, 'sequence'>)[];
    /** Where nothing is written of it: the same with all that is to be written of them. */
    readonly unwritten?: readonly EventRow[];
}
/**
 * Some of them, in the order of their rows.
 * @param behind a row, behind which they are.
 * @param isLazy leaves records of many events alone that have hardly grown.
 */
export declare function dueRows({ statements }: Pick<Tables, 'statements'>, behind: number, { isLazy, isIndexed }: {
    readonly isLazy: boolean;
    readonly isIndexed: boolean;
}): DueRow[];
/** Those of which nothing is written, in the order of their rows. */
export declare function newRows({ newRuns }: Pick<Tables, 'newRuns'>): Generator<DueRow>;
export declare class Writing {
    #private;
    private readonly tables;
    constructor(tables: Tables);
    /** On return the row says what its events say. */
    write(due: DueRow, summed: Summed): void;
}
