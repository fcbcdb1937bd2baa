import { type Line } from '../importing/lines.js';
import { type LineFault, type Offered } from '../importing/offered-line.js';
import { RejectFile, type Refusal } from '../importing/reject-file.js';
export interface LineOptions {
    readonly kind?: string;
    /** The only one that a line may name; any without it. */
    readonly organisation?: string;
    /** Where the reject file is to be, if at all. */
    readonly rejects?: string;
    readonly fix?: string;
    readonly json?: true;
}
/** What became of the lines of one file, so far. */
interface FileTally {
    readonly file: string;
    lines: number;
    /** Nothing but white space: no events and no faults. */
    empty: number;
    passed: number;
    fixed: number;
    refused: number;
    /** Of the whole of it; null unless it was read to its end. */
    bytes: number | null;
    sha256: string | null;
}
/** An event of a line, or why there is none. */
export interface ReadLine extends Line {
    readonly tally: FileTally;
    readonly offered: Offered | LineFault;
    /** Timestamps of the event were fixed. */
    readonly fixed: boolean;
}
export declare class LineFiles {
    #private;
    readonly tallies: readonly FileTally[];
    /** How many lines were refused, by code. */
    readonly refused: Map<string, number>;
    readonly rejects: RejectFile | undefined;
    /**
     * On return the reject file is made, which `close` has to be called for.
     * @throws CommandFailure when a file is not there or is none, or when an option cannot be meant.
     */
    constructor(files: readonly string[], { kind, organisation, rejects, fix, json }: LineOptions);
    /** All lines of all files that are not blank, as many at a time as have come; ends early when `stop` is aborted. */
    read(stop?: AbortSignal): AsyncGenerator<ReadLine[], void>;
    passed({ tally, fixed }: ReadLine): void;
    /** On return the reject file, if there is one, has the line. */
    refuse({ tally, number, bytes }: ReadLine, fault: LineFault, outcome?: Refusal['outcome']): void;
    sum(count: 'lines' | 'empty' | 'passed' | 'fixed' | 'refused'): number;
    /** A few lines for a person. @param passed what is true of the others, such as "stored". */
    asText(passed: string): string;
    /** For scripts; the names are a promise. @param passed the name for what is true of the others. */
    asJson(passed: 'stored' | 'passed', more: object): string;
    /** On return the rejects are on stable storage, or their file is gone if it is empty. */
    close(): void;
}
export {};
