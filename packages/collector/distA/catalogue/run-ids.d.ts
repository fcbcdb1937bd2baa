/** The rows of runs by their ids, those of the last batches of events in memory. */
import type { Statements } from './statements.js';
export declare class RunIds {
    #private;
    private readonly statements;
    constructor(statements: Statements);
    forget(): void;
    /** @param id 16 bytes in Latin-1. @returns undefined where there is no such run. */
    find(organisation: number, id: string): number | undefined;
    add(organisation: number, id: string, row: number): void;
    /** To be called when no run waits to be written: what was added stays in memory until then. */
    turn(): void;
}
