/**
 * Records as Parquet, typed: a row a record, its lists as lists of structs. Each entry of a list has besides its typed
 * columns the object as it was sent, as JSON text, whose numbers have every digit (docs/EXPORTS.md has the table).
 */
import type { ClinicalRecord } from '@clinical-events/protocol';
import { RowGroupBuilder, RowGroupJoiner } from './parquet-row-group.js';
import { structs, type Field, type Table, type Value } from './parquet-table.js';
import {
  millisecondsOf,
  numberIn,
  RECORD_COLUMNS,
  textIn,
  timeIn,
  type RecordColumn,
} from './record-columns.js';
import type { FileFormat } from './record-encoder.js';

/** The lists of a record, and what an entry calls its object. */
interface Lists {
  artifacts: 'artifact';
  outputs: 'output';
  outcomes: 'outcome';
  feedback: 'feedback';
}

/** What is typed of the objects of a list. */
interface Member {
  readonly name: string;
  readonly type: Value<never>['type'];
  readonly of: (sent: Readonly<Record<string, unknown>>) => string | number | undefined;
}

const text = (name: string, field = name): Member => ({
  name,
  type: 'text',
  of: (sent) => textIn(sent[field]),
});

function list<Name extends keyof Lists>(
  name: Name,
  object: Lists[Name],
  members: readonly Member[],
): Field<ClinicalRecord> {
  type Entry = ClinicalRecord[Name][number];
  const sentIn = (entry: Entry) =>
    (entry as unknown as Record<string, Record<string, unknown>>)[object] ?? {};
  const columns: Value<Entry>[] = [
    { name: 'event_id', type: 'text', of: ({ event_id }) => event_id },
    { name: 'timestamp', type: 'time', of: ({ timestamp }) => millisecondsOf(timestamp) },
    { name: 'received_at', type: 'time', of: ({ received_at }) => millisecondsOf(received_at) },
    { name: 'parent_event_id', type: 'text', of: ({ parent_event_id }) => parent_event_id ?? undefined },
    ...members.map(({ name: own, type, of }): Value<Entry> => ({
      name: own,
      type,
      of: (entry) => of(sentIn(entry)),
    })),
    { name: 'json', type: 'text', of: (entry) => JSON.stringify(sentIn(entry)) },
    { name: 'extra', type: 'text', of: ({ extra }) => (isEmpty(extra) ? undefined : JSON.stringify(extra)) },
  ];
  return structs(name, (record) => record[name] as readonly Entry[], columns);
}

const LISTS: readonly Field<ClinicalRecord>[] = [
  list('artifacts', 'artifact', [
    text('type', 'artifact_type'),
    text('uri', 'artifact_uri'),
    text('mime_type'),
    text('description'),
  ]),
  list('outputs', 'output', [text('type', 'output_type'), text('uri', 'output_uri'), text('summary')]),
  list('outcomes', 'outcome', [
    text('type', 'outcome_type'),
    {
      name: 'occurred_at',
      type: 'time',
      of: (sent) => milliseconds(timeIn(sent['occurred_at'])),
    },
    text('description'),
    text('uri', 'evidence_uri'),
  ]),
  list('feedback', 'feedback', [
    text('type', 'feedback_type'),
    { name: 'rating', type: 'number', of: (sent) => numberIn(sent['rating_value']) },
    text('comment'),
  ]),
];

/** The four objects of the start, as sent. */
const OBJECTS = (['model', 'user', 'target', 'inputs'] as const).map((name): Field<ClinicalRecord> => ({
  name,
  type: 'text',
  of: (record) => (record[name] === null ? undefined : JSON.stringify(record[name])),
}));

const TABLE: Table<ClinicalRecord> = {
  name: 'records',
  fields: [...RECORD_COLUMNS.map((column) => fieldOf(column)), ...OBJECTS, ...LISTS],
};

export const parquet: FileFormat = {
  builder: () => new RowGroupBuilder(TABLE),
  joiner: () => new RowGroupJoiner(TABLE),
};

function fieldOf(column: RecordColumn): Field<ClinicalRecord> {
  if (column.type !== 'time') return column;
  const { name, type, of } = column;
  return { name, type, of: (record) => milliseconds(of(record)) };
}

function milliseconds(time: string | undefined): number | undefined {
  return time === undefined ? undefined : millisecondsOf(time);
}

function isEmpty(extra: object): boolean {
  for (const _ in extra) return false;
  return true;
}
