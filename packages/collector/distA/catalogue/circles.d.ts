import type { Statements } from './statements.js';
export declare class Circles {
    #private;
    private readonly statements;
    constructor(statements: Statements);
    /** Nests a row in another, or in none. On return the circle that it leaves is open, and the one that it closes is noted. */
    nest(row: number, parent: number | null): void;
    /** On return the circle that a row closes, if it does, is noted. */
    close(row: number): void;
}
