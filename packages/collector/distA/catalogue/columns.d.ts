import type { ConflictWord, CountedSummary, Missing } from '../records/counted-run.js';
import { type RunSummary } from './run-summary.js';
/** Final as places, as all lists of words are here: append only, or count up the version of the catalogue. */
export declare const LEVELS: readonly ["full", "minimum", "incomplete", "retired"];
export declare const MISSING: readonly Missing[];
export declare const CONFLICTS: readonly ConflictWord[];
/** What SQLite takes and gives. */
export type Value = null | number | bigint | string | Uint8Array;
/** How names stand in the file: by their numbers. */
export interface NameNumbers {
    idOf(name: string): number;
    nameOf(id: number): string;
}
interface Column {
    readonly name: string;
    readonly type: string;
    readonly of: (summary: RunSummary, names: NameNumbers) => Value;
}
declare const NAMED: {
    readonly target: "targetId";
    readonly user: "userId";
    readonly model: "modelId";
    readonly version: "modelVersion";
    readonly application: "application";
};
/** Of a name its columns; the first is that of the organisation, which stands before the summary. */
export declare const NAME_COLUMNS: string[];
export declare const SUMMARY_COLUMNS: readonly Column[];
type NameMember = (typeof NAMED)[keyof typeof NAMED];
/** What a summary says besides when it began and the names in it. */
export type RowPieces = Omit<RunSummary, 'organisation' | 'recordId' | 'isRun' | 'firstSequence' | 'lastSequence' | 'began' | NameMember>;
/** @throws TypeError for what is no column of a summary. */
export declare function placeOf(column: string): number;
/** The value of a column of a row, by its place. */
export type Cells = (place: number) => Value | undefined;
/** @throws CatalogueDamaged where there is no such word. */
export declare function wordAt<Word>(words: readonly Word[], value: Value | undefined): Word;
export declare function beganIn(cells: Cells): RunSummary['began'];
/** What is counted of a row. */
export declare function countedIn(cells: Cells): CountedSummary;
/** Columns that say something only where there is feedback, or the call of a model was captured. */
export declare const RARE: readonly string[];
/** Columns that are not counted. */
export declare const UNCOUNTED: readonly string[];
/** What a row says, but for the names in it. */
export declare function piecesIn(cells: Cells): RowPieces;
/** The names in a row. */
export declare function namesIn(cells: Cells, names: NameNumbers): Pick<RunSummary, NameMember>;
export {};
