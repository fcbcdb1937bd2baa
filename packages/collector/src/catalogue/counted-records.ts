/**
 * What a report counts of records. SQLite hands over many rows as one, a list of each column and a blob of all that is
 * packed: to be handed each row takes twice as long.
 */
import type { EventKind } from '@clinical-events/protocol';
import { eachTime } from './packed-entries.js';
import { unpackSummary, type PackedPieces } from './packed-summary.js';
import { PackedReader } from './packing.js';
import { termsOf, type RecordSelection, type RowSource } from './record-pages.js';
import type { RunSummary } from './run-summary.js';
import type { Row } from './tables.js';

/** What a report counts of a record. */
export interface CountedRecord extends Pick<
  RunSummary,
  'organisation' | 'isRun' | 'began' | 'modelId' | 'modelVersion'
> {
  readonly summary: PackedPieces;
  /** Calls for each of its events; `sentAt` is undefined when the payload cannot be read. */
  eachEvent(visit: (kind: EventKind, receivedAt: number, sentAt: number | undefined) => void): void;
}

export interface CountedRows extends RowSource {
  /** A text by its number. */
  name(id: number): string;
  /** The entries of a row that do not stand in it. */
  parts(row: number): Uint8Array[];
}

/** A row's id is the sequence of an event of it. */
const PAGE_SEQUENCES = 16_384;
const LISTED = [
  'id',
  'organisation',
  'is_run',
  'began_received',
  'began_sender',
  'marks',
  'model',
  'version',
];
const PAGE = `SELECT ${LISTED.map((column) => `json_group_array(run.${column})`).join()},
  json_group_array(length(run.summary) + length(run.entries)),
  CAST(group_concat(run.summary || run.entries, '') AS BLOB)
  FROM run NOT INDEXED WHERE run.id > ? AND run.id <= ?`;
const WITH_PARTS = 'SELECT DISTINCT run FROM part WHERE run > ? AND run <= ?';

/** @returns how far it has come, after each page. */
export function* countedPages(
  rows: CountedRows,
  selection: RecordSelection,
  visit: (record: CountedRecord) => void,
): Generator<number> {
  const terms = termsOf(rows, selection);
  if (terms === undefined) return;
  const last = Number(rows.all('SELECT max(id) FROM run')[0]?.[0]);
  for (let at = 0; at < last; at += PAGE_SEQUENCES) {
    const range = [at, at + PAGE_SEQUENCES];
    const withParts = new Set(rows.all(WITH_PARTS, ...range).map(([row]) => Number(row)));
    const [page = []] = rows.all(`${PAGE} AND ${terms.where}`, ...range, ...terms.values);
    visitPage(rows, page, withParts, visit);
    yield Math.min(at + PAGE_SEQUENCES, last);
  }
}

function visitPage(
  rows: CountedRows,
  page: Row,
  withParts: ReadonlySet<number>,
  visit: (record: CountedRecord) => void,
): void {
  const list = (column: number) => JSON.parse(page[column] as string) as (number | null)[];
  const ids = list(0);
  const [organisations, areRuns, received, senders] = [list(1), list(2), list(3), list(4)];
  const [marks, models, versions, lengths] = [list(5), list(6), list(7), list(8)];
  const packed = page[9] as Uint8Array;
  const name = (id: number | null | undefined) => (typeof id === 'number' ? rows.name(id) : null);
  let end = 0;
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i] ?? 0;
    const reader = new PackedReader(packed, end, end + (lengths[i] ?? 0));
    end += lengths[i] ?? 0;
    const began = { received: received[i] ?? 0, sender: senders[i] ?? 0 };
    visit({
      organisation: rows.name(organisations[i] ?? 0),
      isRun: areRuns[i] === 1,
      began,
      modelId: name(models[i]),
      modelVersion: name(versions[i]),
      summary: unpackSummary(reader, marks[i] ?? 0, began),
      eachEvent(see) {
        if (withParts.has(id)) for (const part of rows.parts(id)) eachTime(new PackedReader(part), see);
        eachTime(reader, see);
      },
    });
  }
}
