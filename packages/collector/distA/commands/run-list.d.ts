import type { RunSummary } from '../catalogue/catalogue.js';
import type { Clock } from '../records/vocabulary.js';
/** How runs are shown. */
export interface RunView {
    /** Whose times are shown. */
    readonly clock: Clock;
    /** As `records --run` takes it. */
    readonly idOf: (run: RunSummary) => string;
}
/** @returns lines with a heading: all columns, nothing cut. */
export declare function plainTable(runs: readonly RunSummary[], view: RunView): string;
/** @returns lines with a heading that are no wider than the terminal, unless that has less than some 70 columns. */
export declare function fittingTable(runs: readonly RunSummary[], view: RunView, columns: number): string;
export declare function eventsOf({ counts }: Pick<RunSummary, 'counts'>): number;
/** One object, on a line. */
export declare function jsonLine(run: RunSummary): string;
export declare const CSV_HEAD: string;
/** One row of CSV, as docs/reference/records.md says of that format: lists with spaces between, and no formulas. */
export declare function csvLine(run: RunSummary): string;
