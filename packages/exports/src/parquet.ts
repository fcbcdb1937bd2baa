/**
 * Records as Parquet, typed: a row a record, its lists as lists of structs. Each entry of a list has besides its typed
 * columns the object as it was sent, as JSON text, whose numbers have every digit (docs/reference/records.md has the table).
 */
import { type AssembledRun, extraOf } from '@clinical-events/collector/records/assemble';
import type { TimedEvent } from '@clinical-events/collector/records/canonical-order';
import { epochMilliseconds } from '@clinical-events/collector/records/instant';
import { MemberName } from '@clinical-events/collector/records/json-scan';
import {
  ScanningReader,
  ScannedBody,
  ScannedObject,
  sentIn,
  type PayloadName,
  type Sent,
  type Text,
} from '@clinical-events/collector/records/run-event';
import { RowGroupBuilder, RowGroupJoiner } from './parquet-rows.js';
import { structs, type Field, type Table, type Value } from './parquet-table.js';
import {
  millisecondsOf,
  memberNumber,
  RECORD_COLUMNS,
  stringOf,
  textOf,
  timeIn,
  type RecordColumn,
} from '@clinical-events/collector/records/exports/record-columns';
import type { FileFormat } from '@clinical-events/collector/records/exports/file-format';

/** What is typed of the objects of a list. */
interface Member {
  readonly name: string;
  readonly type: Value<never>['type'];
  readonly of: (sent: Sent) => Text | number | undefined;
}

function text(name: string, field = name): Member {
  const member = new MemberName(field);
  return { name, type: 'text', of: (sent) => textOf(sent, member) };
}

function list(
  name: 'artifacts' | 'outputs' | 'outcomes' | 'feedback',
  object: PayloadName,
  members: readonly Member[],
): Field<AssembledRun> {
  const sentOf = ({ body }: TimedEvent) => (body && sentIn(body, object)) ?? NOTHING;
  const columns: Value<TimedEvent>[] = [
    { name: 'event_id', type: 'text', of: ({ event }) => event.eventId },
    { name: 'timestamp', type: 'time', of: ({ at }) => epochMilliseconds(at) },
    { name: 'received_at', type: 'time', of: ({ event }) => event.receivedAt },
    { name: 'parent_event_id', type: 'text', of: ({ parentId }) => parentId ?? undefined },
    ...members.map(({ name: own, type, of }): Value<TimedEvent> => ({
      name: own,
      type,
      of: (timed) => of(sentOf(timed)),
    })),
    { name: 'json', type: 'text', of: (timed) => jsonOf(sentOf(timed)) },
    { name: 'extra', type: 'text', of: extraText },
  ];
  return structs(name, (run) => run[name], columns);
}

const OCCURRED_AT = new MemberName('occurred_at');
const RATING = new MemberName('rating_value');
const NOTHING: Sent = Object.freeze({});

const LISTS: readonly Field<AssembledRun>[] = [
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
      of: (sent) => milliseconds(timeIn(stringOf(textOf(sent, OCCURRED_AT)))),
    },
    text('description'),
    text('uri', 'evidence_uri'),
  ]),
  list('feedback', 'feedback', [
    text('type', 'feedback_type'),
    { name: 'rating', type: 'number', of: (sent) => memberNumber(sent, RATING) },
    text('comment'),
  ]),
];

/** The four objects of the start, as sent. */
const OBJECTS = (['model', 'user', 'target', 'inputs'] as const).map((name): Field<AssembledRun> => ({
  name,
  type: 'text',
  of: ({ [name]: sent }) => (sent === null ? undefined : jsonOf(sent)),
}));

const TABLE: Table<AssembledRun> = {
  name: 'records',
  fields: [...RECORD_COLUMNS.map((column) => fieldOf(column)), ...OBJECTS, ...LISTS],
};

export const parquet: FileFormat = {
  reader: () => new ScanningReader(),
  builder: () => new RowGroupBuilder(TABLE),
  joiner: () => new RowGroupJoiner(TABLE),
};

function fieldOf(column: RecordColumn): Field<AssembledRun> {
  if (column.type !== 'time') return column;
  const { name, type, of } = column;
  return { name, type, of: (record) => milliseconds(of(record)) };
}

function milliseconds(time: string | undefined): number | undefined {
  return time === undefined ? undefined : millisecondsOf(time);
}

/** The object as it was sent. */
function jsonOf(sent: Sent): Text {
  return sent instanceof ScannedObject ? sent.json() : JSON.stringify(sent);
}

/** The fields that the protocol does not name. */
function extraText({ event, body }: TimedEvent): string | undefined {
  if (body instanceof ScannedBody) return body.extra;
  const extra = extraOf({ event, body });
  for (const _ in extra) return JSON.stringify(extra);
  return undefined;
}
