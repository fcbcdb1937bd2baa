/** How a record is written in someone else's format: one file a format, each a mapping that docs/reference/records.md has as a table. */
import type { ClinicalRecord } from '@clinical-events/protocol';

export interface RecordFormat {
  /** As `--format` names it. */
  readonly name: string;
  /** Of a file that holds several documents, one a line. */
  readonly extension: '.ndjson';
  /**
   * The record as one document of the format.
   * @returns one line of JSON without its end. It is the same for the same record.
   */
  document(record: ClinicalRecord): string;
}
