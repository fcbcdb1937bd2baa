import type { StoreFinding } from '../store/contract/findings.js';
/** What of a stream matters here. */
export interface Output {
    readonly isTTY?: boolean;
    readonly columns?: number;
}
/** The line, wrapped for a terminal; as it is where no one looks on. @param indent of the lines below the first. */
export declare function wrappedFor({ isTTY, columns }: Output, line: string, indent?: number): string;
/** The line as several, with `indent` before all but the first, of at most `width` characters where its words are no longer than that. */
export declare function wrapped(line: string, width: number, indent: string): string;
/** The same JSON, with those characters escaped. */
export declare function printableJson(json: string): string;
/** The same text of many lines, with the control characters within them escaped. */
export declare function printableLines(text: string): string;
/** The text as it would stand in a string of JSON, without the quotes around it. */
export declare function printable(text: string): string;
/** As {@link printable}, where no quotation marks stand around it. */
export declare function legible(text: string): string;
/**
 * @param rows the first is the heading; all have as many cells.
 * @param output where it goes to: on a terminal the last column is wrapped within itself.
 * @returns lines without trailing spaces, each ended by a line break.
 */
export declare function alignedTable(rows: readonly (readonly string[])[], output?: Output): string;
/** A table of findings, ended by a line break. Their marks are coloured on a terminal, unless NO_COLOR asks for none. */
export declare function findingsTable(findings: readonly StoreFinding[], output: NodeJS.WriteStream): string;
export interface ProgressOptions {
    /** No one looks on when standard error is not a terminal. */
    readonly wanted: boolean;
    /** What is counted. */
    readonly unit: string;
    /** How many of what `show` is told make one unit. */
    readonly per: number;
    /** Less than this, in units, is done before anybody wonders. */
    readonly from: number;
    /** Whether to show how many units a second are done. */
    readonly rate?: boolean;
}
export declare class ProgressBar {
    #private;
    constructor(options: ProgressOptions);
    readonly show: (done: number, of: number) => void;
    clear(): void;
}
