/**
 * The formats of `collector records`: a name, a file here or in the package `exports`, and the table of its
 * mapping in docs/reference/records.md.
 */
import { optionalPackage } from '../../optional-packages.js';
import type { FileFormat, RecordDocument } from './file-format.js';

/** Options of a format. */
export interface FormatOptions {
  /** CSV for a spreadsheet (csv-cell.ts). */
  readonly forSpreadsheet: boolean;
}

export interface ExportFormat {
  readonly summary: string;
  readonly extension: string;
  /** Binary: not for a terminal. */
  readonly binary?: true;
  /** Supports --for-spreadsheet. */
  readonly forSpreadsheets?: true;
  /** Bytes of log in a piece, if larger pieces make a better file. */
  readonly jobBytes?: number;
  /** Loads the format on demand. */
  readonly load: (options: FormatOptions) => Promise<FileFormat>;
}

/** A format and its options. */
export interface AskedFormat extends ExportFormat {
  readonly name: string;
  readonly options: FormatOptions;
}

/** Modules of the package `exports` with one document per line. */
type Door = 'fhir' | 'otlp' | 'prov';
type Document = Door | 'fhirTransaction';

/** @param document the export of the module. */
async function linesOf(door: Door, document: Document = door): Promise<FileFormat> {
  const [{ lines }, loaded] = await Promise.all([
    import('./file-format.js'),
    optionalPackage<Readonly<Record<Document, RecordDocument>>>('exports', `/${door}`),
  ]);
  return lines(loaded[document]);
}

export const FORMATS: Readonly<Record<string, ExportFormat>> = {
  ndjson: {
    summary: 'one complete record per line (docs/reference/records.md)',
    extension: '.ndjson',
    load: async () => (await import('./json.js')).ndjson,
  },
  json: {
    summary: 'the same records in one array',
    extension: '.json',
    load: async () => (await import('./json.js')).json,
  },
  csv: {
    summary: 'one summary row per record; also with --for-spreadsheet',
    extension: '.csv',
    forSpreadsheets: true,
    load: async ({ forSpreadsheet }) => (await import('./csv.js')).csv(forSpreadsheet),
  },
  'csv-calls': {
    summary: 'one row per model call, with its tokens; also with --for-spreadsheet',
    extension: '.csv',
    forSpreadsheets: true,
    load: async ({ forSpreadsheet }) => (await import('./csv.js')).callsCsv(forSpreadsheet),
  },
  parquet: {
    summary: 'typed columns and nested lists, for analysis',
    extension: '.parquet',
    binary: true,
    // A piece is a row group, which a reader can skip.
    jobBytes: 32 << 20,
    load: async () => (await optionalPackage<{ parquet: FileFormat }>('exports', '/parquet')).parquet,
  },
  fhir: {
    summary: 'one FHIR R4 Bundle per line, for audit repositories',
    extension: '.ndjson',
    load: () => linesOf('fhir'),
  },
  'fhir-transaction': {
    summary: 'the same Bundles as transactions, which a FHIR server stores once',
    extension: '.ndjson',
    load: () => linesOf('fhir', 'fhirTransaction'),
  },
  otlp: {
    summary: 'one OTLP/JSON trace per line, for tracing tools',
    extension: '.ndjson',
    load: () => linesOf('otlp'),
  },
  prov: {
    summary: 'one PROV-JSON document per line',
    extension: '.ndjson',
    load: () => linesOf('prov'),
  },
};
