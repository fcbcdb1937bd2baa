/**
 * Records as CSV (RFC 4180), for a spreadsheet: a row each, what it says in brief. The lists of a record do not fit a
 * row: their number is there, and of outputs, outcomes and feedback what the last one says.
 *
 * A spreadsheet takes a text that begins with = + - @ for a formula, and a formula can send what is beside it to
 * someone else. Such a text, which anyone with an API key may have written, gets an apostrophe before it; so does what
 * stands behind a semicolon, a tab or a line break, because spreadsheets of many countries split there. So this is not
 * the format to read back by a program: NDJSON and Parquet have what was sent.
 */
import type { ClinicalRecord } from '@clinical-events/protocol';
import { type RecordColumn } from './record-columns.js';
export declare const CSV_COLUMNS: readonly RecordColumn<ClinicalRecord>[];
export declare const csv: import("./file-format.js").FileFormat<import("@clinical-events/protocol").BaseEvent>;
