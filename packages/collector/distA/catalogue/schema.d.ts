/** Counts up with every change of a table, or of what a row means. */
export declare const VERSION = 7;
/** Partial indexes: a condition of a question has to have the same letters. */
export declare const IS: {
    readonly contradicted: `outcome = ${number}`;
    readonly conflict: "conflicts <> 0";
    readonly failed: `ending = ${number}`;
    readonly incomplete: `level = ${number}`;
    readonly due: "summed <> events";
};
/**
 * Made once all rows are summed, where most of a log is taken in: kept meanwhile, each new row would change a page
 * at a random place of them. A question names its index, so SQLite refuses it while that is missing.
 */
export declare const INDEXES: readonly {
    readonly name: string;
    readonly sql: string;
}[];
/** Makes the tables in an empty file. */
export declare const SCHEMA: string;
