/**
 * Records as Parquet: a row for each record, with lists of structs. Each struct also has the object as sent,
 * as JSON text whose numbers have every digit. docs/reference/records.md has the table.
 */
import type { EventKind } from '@clinical-events/protocol';
import { type AssembledRun, extraOf } from '@clinical-events/collector/records/assemble';
import { type CallOf, ofKind } from '@clinical-events/collector/records/calls';
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
import {
  CALL_COLUMNS,
  startObject,
  type StartObject,
} from '@clinical-events/collector/records/exports/call-columns';
import type { FileFormat } from '@clinical-events/collector/records/exports/file-format';

/** A typed column of the objects of a list. */
interface Member {
  readonly name: string;
  readonly type: Value<never>['type'];
  readonly of: (sent: Sent) => Text | number | undefined;
}

function text(name: string, field = name): Member {
  const member = new MemberName(field);
  return { name, type: 'text', of: (sent) => textOf(sent, member) };
}

/** An event of a list. */
interface Entry {
  readonly timed: TimedEvent;
  /** The event_id of the start of its call. */
  readonly callId: string | undefined;
}

let lastCalls: { readonly run: AssembledRun; readonly ids: ReadonlyMap<TimedEvent, string> } | undefined;

/** Cached for the lists of one run. */
function callIdsOf(run: AssembledRun): ReadonlyMap<TimedEvent, string> {
  if (lastCalls?.run !== run) {
    const pairs = run.metadata.calls.flatMap(({ start, events }) =>
      events().map((timed) => [timed, start.event.eventId] as const),
    );
    lastCalls = { run, ids: new Map(pairs) };
  }
  return lastCalls.ids;
}

function entriesOf(run: AssembledRun, name: ListName): Entry[] {
  const ids = callIdsOf(run);
  return run[name].map((timed) => ({ timed, callId: ids.get(timed) }));
}

/** The first columns of every struct. */
function eventColumns<Of>(timedOf: (of: Of) => TimedEvent): Value<Of>[] {
  return [
    { name: 'event_id', type: 'text', of: (each) => timedOf(each).event.eventId },
    {
      name: 'timestamp',
      type: 'time',
      of: (each) => {
        const { at, body } = timedOf(each);
        return body && epochMilliseconds(at);
      },
    },
    { name: 'received_at', type: 'time', of: (each) => timedOf(each).event.receivedAt },
    { name: 'parent_event_id', type: 'text', of: (each) => timedOf(each).parentId ?? undefined },
  ];
}

type ListName = 'artifacts' | 'outputs' | 'outcomes' | 'feedback';

function list(name: ListName, object: PayloadName, members: readonly Member[]): Field<AssembledRun> {
  const sentOf = ({ timed: { body } }: Entry) => (body && sentIn(body, object)) ?? NOTHING;
  return structs(name, (run) => entriesOf(run, name), [
    ...eventColumns<Entry>(({ timed }) => timed),
    { name: 'call_event_id', type: 'text', of: ({ callId }) => callId },
    ...members.map(({ name: own, type, of }): Value<Entry> => ({
      name: own,
      type,
      of: (entry) => of(sentOf(entry)),
    })),
    { name: 'json', type: 'text', of: (entry) => jsonOf(sentOf(entry)) },
    { name: 'extra', type: 'text', of: ({ timed }) => extraText(timed) },
  ]);
}

function startJson(name: string, object: StartObject): Value<CallOf> {
  const of = (call: CallOf) => {
    const sent = startObject(call, object);
    return sent && jsonOf(sent);
  };
  return { name, type: 'text', of };
}

function countOf(name: string, kind: EventKind): Value<CallOf> {
  return { name, type: 'count', of: ({ events }) => ofKind(events(), kind).length };
}

const CALLS = structs('calls', (run: AssembledRun) => run.metadata.calls, [
  ...eventColumns<CallOf>(({ start }) => start),
  ...CALL_COLUMNS,
  countOf('artifact_count', 'internal-artifact'),
  countOf('output_count', 'human-output'),
  countOf('outcome_count', 'outcome'),
  countOf('feedback_count', 'user-feedback'),
  // `inputs` has the prompt.
  startJson('model', 'model_instance'),
  startJson('user', 'user_identity'),
  startJson('target', 'target_identity'),
  startJson('inputs', 'inputs'),
  { name: 'extra', type: 'text', of: ({ start }) => extraText(start) },
]);

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

/** The four objects of the inference-start, as sent. */
const OBJECTS = (['model', 'user', 'target', 'inputs'] as const).map((name): Field<AssembledRun> => ({
  name,
  type: 'text',
  of: ({ [name]: sent }) => (sent === null ? undefined : jsonOf(sent)),
}));

const TABLE: Table<AssembledRun> = {
  name: 'records',
  fields: [...RECORD_COLUMNS.map((column) => fieldOf(column)), ...OBJECTS, CALLS, ...LISTS],
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
