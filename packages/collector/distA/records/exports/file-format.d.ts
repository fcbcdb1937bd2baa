/**
 * A file of records in the making. Records become pieces, which threads can make beside each other; in order, the
 * pieces become the file.
 */
import type { BaseEvent, ClinicalRecord } from '@clinical-events/protocol';
import { type AssembledRun } from '../assemble.js';
import { type EventBody, type EventReader } from '../run-event.js';
/** A part of a file. It can be posted from one thread to another. */
export interface Piece {
    readonly bytes: Uint8Array<ArrayBuffer>;
    readonly records: number;
    /** What the joiner of its format has to know besides. */
    readonly index?: unknown;
}
export interface PieceBuilder<Body extends EventBody> {
    add(run: AssembledRun<Body>): void;
    /** All that was added since the last time. */
    take(): Piece;
}
export interface PieceJoiner {
    /** @returns what comes next in the file. */
    join(piece: Piece): Uint8Array;
    /** @returns the end of the file. */
    finish(): Uint8Array;
}
/** How one format makes its files. */
export interface FileFormat<Body extends EventBody = EventBody> {
    /** Reads what the builder is given. */
    reader(): EventReader<Body>;
    builder(): PieceBuilder<Body>;
    /** One for each file. */
    joiner(): PieceJoiner;
}
/** For files that are text: what stands before, between and behind the records. */
export interface TextParts {
    readonly head: string;
    readonly between: string;
    readonly tail: string;
    /** In a file without records, instead of head and tail. */
    readonly empty: string;
    text(record: ClinicalRecord): string;
}
export declare function textFormat(parts: TextParts): FileFormat<BaseEvent>;
/**
 * How a record is written in someone else's format, as one line of JSON without its end: the same line for the same
 * record. docs/reference/records.md has the mapping as a table.
 */
export type RecordDocument = (record: ClinicalRecord) => string;
/** One document a line. */
export declare function lines(document: RecordDocument): FileFormat<BaseEvent>;
