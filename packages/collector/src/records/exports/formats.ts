/**
 * The formats of `collector records`: a name, a file in records/exports, and the table of its mapping in
 * docs/reference/records.md.
 */
import type { FileFormat, RecordDocument } from './file-format.js';

export interface ExportFormat {
  readonly summary: string;
  readonly extension: string;
  /** Not to be shown on a terminal. */
  readonly binary?: true;
  /** Bytes of log that go into a piece, where larger pieces make a better file. */
  readonly jobBytes?: number;
  /** Only the format that was asked for is loaded. */
  readonly load: () => Promise<FileFormat>;
}

async function linesOf(document: Promise<RecordDocument>): Promise<FileFormat> {
  const [{ lines }, loaded] = await Promise.all([import('./file-format.js'), document]);
  return lines(loaded);
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
    summary: 'one row a record, in brief, for a spreadsheet',
    extension: '.csv',
    load: async () => (await import('./csv.js')).csv,
  },
  parquet: {
    summary: 'typed columns and nested lists, for analysis',
    extension: '.parquet',
    binary: true,
    // A piece is a row group: what a reader may skip as one.
    jobBytes: 32 << 20,
    load: async () => (await import('./parquet.js')).parquet,
  },
  fhir: {
    summary: 'one FHIR R4 Bundle a line, for audit repositories',
    extension: '.ndjson',
    load: () => linesOf(import('./fhir.js').then(({ fhir }) => fhir)),
  },
  otlp: {
    summary: 'one OTLP/JSON trace a line, for tracing tools',
    extension: '.ndjson',
    load: () => linesOf(import('./otlp.js').then(({ otlp }) => otlp)),
  },
  prov: {
    summary: 'one PROV-JSON document a line',
    extension: '.ndjson',
    load: () => linesOf(import('./prov.js').then(({ prov }) => prov)),
  },
};
