/**
 * Records as Parquet, typed: a row a record, its lists as lists of structs. Each entry of a list has besides its typed
 * columns the object as it was sent, as JSON text, whose numbers have every digit (docs/EXPORTS.md has the table).
 */
import { zstdCompressSync, constants } from 'node:zlib';
import type { ClinicalRecord } from '@clinical-events/protocol';
import { ByteWriter, ParquetWriter, type ColumnSource, type SchemaElement } from 'hyparquet-writer';
import {
  millisecondsOf,
  numberIn,
  RECORD_COLUMNS,
  textIn,
  timeIn,
  type RecordColumn,
  type ValueColumn,
} from './record-columns.js';
import type { FileFormat, Piece, PieceBuilder, PieceJoiner } from './record-encoder.js';

/** An entry of a list of a record, whichever. */
interface Entry {
  readonly event_id: string;
  readonly timestamp: string;
  readonly received_at: string;
  readonly parent_event_id: string | null;
  readonly extra: object;
  readonly payload: Readonly<Record<string, unknown>>;
}

type EntryColumn = ValueColumn<Entry>;

const ENTRY_COLUMNS: readonly EntryColumn[] = [
  { name: 'event_id', type: 'text', of: ({ event_id }) => event_id },
  { name: 'timestamp', type: 'time', of: ({ timestamp }) => timestamp },
  { name: 'received_at', type: 'time', of: ({ received_at }) => received_at },
  { name: 'parent_event_id', type: 'text', of: ({ parent_event_id }) => parent_event_id ?? undefined },
];
const AS_SENT: readonly EntryColumn[] = [
  { name: 'json', type: 'text', of: ({ payload }) => JSON.stringify(payload) },
  { name: 'extra', type: 'text', of: ({ extra }) => (isEmpty(extra) ? undefined : JSON.stringify(extra)) },
];

const text = (name: string, field = name): EntryColumn => ({
  name,
  type: 'text',
  of: (entry) => textIn(entry.payload[field]),
});

interface List {
  readonly name: string;
  readonly columns: readonly EntryColumn[];
  readonly of: (record: ClinicalRecord) => Entry[];
}

const SPECIFIC: readonly List[] = [
  {
    name: 'artifacts',
    columns: [
      text('type', 'artifact_type'),
      text('uri', 'artifact_uri'),
      text('mime_type'),
      text('description'),
    ],
    of: ({ artifacts }) => artifacts.map((entry) => ({ ...entry, payload: entry.artifact })),
  },
  {
    name: 'outputs',
    columns: [text('type', 'output_type'), text('uri', 'output_uri'), text('summary')],
    of: ({ outputs }) => outputs.map((entry) => ({ ...entry, payload: entry.output })),
  },
  {
    name: 'outcomes',
    columns: [
      text('type', 'outcome_type'),
      { name: 'occurred_at', type: 'time', of: ({ payload }) => timeIn(payload['occurred_at']) },
      text('description'),
      text('uri', 'evidence_uri'),
    ],
    of: ({ outcomes }) => outcomes.map((entry) => ({ ...entry, payload: entry.outcome })),
  },
  {
    name: 'feedback',
    columns: [
      text('type', 'feedback_type'),
      { name: 'rating', type: 'number', of: ({ payload }) => numberIn(payload['rating_value']) },
      text('comment'),
    ],
    of: ({ feedback }) => feedback.map((entry) => ({ ...entry, payload: entry.feedback })),
  },
];

const LISTS = SPECIFIC.map((list): List => ({
  ...list,
  columns: [...ENTRY_COLUMNS, ...list.columns, ...AS_SENT],
}));

/** The four objects of the start, as sent. */
const OBJECTS: readonly RecordColumn[] = (['model', 'user', 'target', 'inputs'] as const).map((name) => ({
  name,
  type: 'text',
  of: (record) => (record[name] === null ? undefined : JSON.stringify(record[name])),
}));

const COLUMNS = [...RECORD_COLUMNS, ...OBJECTS];

const NAMES = [...COLUMNS, ...LISTS].map(({ name }) => name);
const NOTHING = new Uint8Array(0);
const ZSTD = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

export const parquet: FileFormat = {
  builder: () => new RowGroupBuilder(),
  joiner: () => new RowGroupJoiner(),
};

/** What the file's index says of a row group, with offsets from where its bytes begin. */
type GroupIndex = Pick<ParquetWriter, 'row_groups' | 'pendingIndexes'>;

function writerOf(writer: ByteWriter): ParquetWriter {
  return new ParquetWriter({
    writer,
    schema: schema(),
    codec: 'ZSTD',
    compressors: { ZSTD: (input) => zstdCompressSync(input, ZSTD) },
    createdBy: 'clinical-events collector',
  });
}

/** A file begins with "PAR1"; so a row group that is the first in its file begins there. */
const MAGIC_BYTES = 4;

class RowGroupBuilder implements PieceBuilder {
  #columns = emptyColumns();
  #rows = 0;

  add(record: ClinicalRecord): void {
    let at = 0;
    for (const column of COLUMNS) this.#columns[at++]?.push(parquetValue(column, record));
    for (const { of, columns } of LISTS) {
      const entries = of(record).map((entry) => {
        const row: Record<string, unknown> = {};
        for (const column of columns) row[column.name] = parquetValue(column, entry);
        return row;
      });
      this.#columns[at++]?.push(entries);
    }
    this.#rows++;
  }

  take(): Piece {
    const records = this.#rows;
    const file = writerOf(new ByteWriter());
    const columnData = this.#columns.map((data, at): ColumnSource => ({ name: NAMES[at] ?? '', data }));
    this.#columns = emptyColumns();
    this.#rows = 0;
    if (records > 0) atOnce(file.write({ columnData, rowGroupSize: records }));
    const { row_groups, pendingIndexes } = file;
    const index: GroupIndex = { row_groups, pendingIndexes };
    return { bytes: file.writer.getBytes().slice(MAGIC_BYTES), records, index };
  }
}

class RowGroupJoiner implements PieceJoiner {
  readonly #bytes = new ByteWriter();
  readonly #file = writerOf(this.#bytes);

  join({ bytes, records, index }: Piece): Uint8Array {
    if (records === 0) return NOTHING;
    const file = this.#file;
    // An empty writer has its "PAR1" still to give.
    const { row_groups, pendingIndexes } = index as GroupIndex;
    const shift = BigInt(file.writer.offset - MAGIC_BYTES);
    for (const { columns } of row_groups) {
      for (const chunk of columns) {
        chunk.file_offset += shift;
        const data = chunk.meta_data;
        if (data === undefined) continue;
        data.data_page_offset += shift;
        if (data.dictionary_page_offset !== undefined) data.dictionary_page_offset += shift;
      }
    }
    for (const { offsetIndex } of pendingIndexes) {
      for (const page of offsetIndex?.page_locations ?? []) page.offset += shift;
    }
    file.writer.appendBytes(bytes);
    file.row_groups.push(...row_groups);
    file.pendingIndexes.push(...pendingIndexes);
    file.num_rows += BigInt(records);
    return this.#taken();
  }

  finish(): Uint8Array {
    atOnce(this.#file.finish());
    return this.#taken();
  }

  #taken(): Uint8Array {
    const writer = this.#bytes;
    const bytes = writer.getBytes().slice();
    // What was taken need not stay in memory; the writer counts its bytes on (ByteWriter, `index`).
    writer.index = 0;
    return bytes;
  }
}

/** The library answers with a promise where its writer has to wait; a ByteWriter does not. */
function atOnce(done: unknown): void {
  if (done !== undefined) throw new Error('hyparquet-writer did not write at once');
}

function emptyColumns(): unknown[][] {
  return [...COLUMNS, ...LISTS].map(() => []);
}

function parquetValue<Of>(column: ValueColumn<Of>, source: Of): unknown {
  if (column.type !== 'time') return column.of(source) ?? null;
  const time = column.of(source);
  return time === undefined ? null : BigInt(millisecondsOf(time));
}

function isEmpty(extra: object): boolean {
  return Object.keys(extra).length === 0;
}

function schema(): SchemaElement[] {
  const leaves = COLUMNS.flatMap((column) => elementsOf(column));
  const lists = LISTS.flatMap(({ name, columns }): SchemaElement[] => [
    ...listHead(name),
    { name: 'element', repetition_type: 'REQUIRED', num_children: columns.length },
    ...columns.flatMap((column) => elementsOf(column)),
  ]);
  const root: SchemaElement = { name: 'records', num_children: COLUMNS.length + LISTS.length };
  return [root, ...leaves, ...lists];
}

function elementsOf<Of>({ name, type }: ValueColumn<Of>): SchemaElement[] {
  switch (type) {
    case 'text':
      return [{ name, type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' }];
    case 'number':
      return [{ name, type: 'DOUBLE', repetition_type: 'OPTIONAL' }];
    case 'count':
      return [{ name, type: 'INT32', repetition_type: 'OPTIONAL' }];
    case 'time': {
      const logical = { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' } as const;
      return [
        {
          name,
          type: 'INT64',
          converted_type: 'TIMESTAMP_MILLIS',
          logical_type: logical,
          repetition_type: 'OPTIONAL',
        },
      ];
    }
    case 'texts':
      return [
        ...listHead(name),
        { name: 'element', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
      ];
  }
}

/** A list in the three levels that the format asks for (LogicalTypes.md, "Lists"). */
function listHead(name: string): SchemaElement[] {
  return [
    { name, repetition_type: 'REQUIRED', converted_type: 'LIST', num_children: 1 },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
  ];
}
