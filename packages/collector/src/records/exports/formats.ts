/**
 * The formats of `collector records`: a name, a file here or in the package `exports`, and the table of its mapping in
 * docs/reference/records.md.
 */
import { optionalPackage } from '../../optional-packages.js';
import type { FileFormat, RecordDocument } from './file-format.js';

/** What an operator may ask of a format besides. */
export interface FormatOptions {
  /** CSV for a spreadsheet (csv-cell.ts). */
  readonly forSpreadsheet: boolean;
}

export interface ExportFormat {
  readonly summary: string;
  readonly extension: string;
  /** Not to be shown on a terminal. */
  readonly binary?: true;
  /** Can be written for a spreadsheet. */
  readonly forSpreadsheets?: true;
  /** Bytes of log that go into a piece, where larger pieces make a better file. */
  readonly jobBytes?: number;
  /** Only the format that was asked for is loaded. */
  readonly load: (options: FormatOptions) => Promise<FileFormat>;
}

/** A format as it was asked for. */
export interface AskedFormat extends ExportFormat {
  readonly name: string;
  readonly options: FormatOptions;
}

/** Doors of the package of formats of one document a line. */
type Door = 'fhir' | 'otlp' | 'prov';
type Document = Door | 'fhirTransaction';

/** @param document which of those that the door exports. */
async function linesOf(door: Door, document: Document = door): Promise<FileFormat> {
  const [{ lines }, loaded] = await Promise.all([
    import('./file-format.js'),
    optionalPackage<Readonly<Record<Document, RecordDocument>>>('exports', `/${door}`),
  ]);
  return lines(loaded[document]);
}

export const FORMATS: Readonly<Record<string, ExportFormat>> = {
  ndjson: {
    summary: 'one record a line, as docs/reference/records.md has it; nothing is left out',
    extension: '.ndjson',
    load: async () => (await import('./json.js')).ndjson,
  },
  json: {
    summary: 'the same in one array',
    extension: '.json',
    load: async () => (await import('./json.js')).json,
  },
  csv: {
    summary: 'one row a record, in brief; for a spreadsheet with --for-spreadsheet',
    extension: '.csv',
    forSpreadsheets: true,
    load: async ({ forSpreadsheet }) => (await import('./csv.js')).csv(forSpreadsheet),
  },
  'csv-calls': {
    summary: 'one row a call of a model, with its tokens; also with --for-spreadsheet',
    extension: '.csv',
    forSpreadsheets: true,
    load: async ({ forSpreadsheet }) => (await import('./csv.js')).callsCsv(forSpreadsheet),
  },
  parquet: {
    summary: 'typed columns and nested lists, for analysis',
    extension: '.parquet',
    binary: true,
    // A piece is a row group: what a reader may skip as one.
    jobBytes: 32 << 20,
    load: async () => (await optionalPackage<{ parquet: FileFormat }>('exports', '/parquet')).parquet,
  },
  fhir: {
    summary: 'one FHIR R4 Bundle a line, for audit repositories',
    extension: '.ndjson',
    load: () => linesOf('fhir'),
  },
  'fhir-transaction': {
    summary: 'the same as requests that a FHIR server stores once',
    extension: '.ndjson',
    load: () => linesOf('fhir', 'fhirTransaction'),
  },
  otlp: {
    summary: 'one OTLP/JSON trace a line, for tracing tools',
    extension: '.ndjson',
    load: () => linesOf('otlp'),
  },
  prov: {
    summary: 'one PROV-JSON document a line',
    extension: '.ndjson',
    load: () => linesOf('prov'),
  },
};
