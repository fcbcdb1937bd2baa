/**
 * Records as CSV (RFC 4180): a summary row for each record, or for each of its calls. Lists do not fit in a
 * row, so it has their lengths, and the values of the last output, outcome and feedback.
 */
import type { BaseEvent } from '@clinical-events/protocol';
import type { AssembledRun } from '../assemble.js';
import { type CallOf, ofKind } from '../calls.js';
import { utcText } from '../instant.js';
import { MemberName } from '../json-scan.js';
import { type PayloadName, type Sent, sentIn } from '../run-event.js';
import {
  memberNumber,
  millisecondsOf,
  NAMES,
  RECORD_COLUMNS,
  stringOf,
  textOf,
  timeIn,
  type RecordColumn,
} from './record-columns.js';
import { CALL_COLUMNS, startObject } from './call-columns.js';
import { type Cells, PLAIN_CELLS, SPREADSHEET_CELLS } from './csv-cell.js';
import { type FileFormat, type Tally, textFormat } from './file-format.js';

type Run = AssembledRun<BaseEvent>;
type Lists = Pick<Run, 'artifacts' | 'outputs' | 'outcomes' | 'feedback'>;

/** A list in a row: its length, and values of its last entry. */
function countOf(name: string, list: keyof Lists): RecordColumn<Lists> {
  return { name, type: 'count', of: (lists) => lists[list].length };
}

function lastText(name: string, list: keyof Lists, object: PayloadName, member: string): RecordColumn<Lists> {
  const wanted = new MemberName(member);
  return { name, type: 'text', of: (lists) => textOf(lastOf(lists, list, object), wanted) };
}

function lastOf(lists: Lists, list: keyof Lists, object: PayloadName): Sent | undefined {
  const body = lists[list].at(-1)?.body;
  return body && sentIn(body, object);
}

const OCCURRED_AT = new MemberName('occurred_at');
const RATING = new MemberName('rating_value');

const LIST_COLUMNS: readonly RecordColumn<Lists>[] = [
  countOf('artifact_count', 'artifacts'),
  countOf('output_count', 'outputs'),
  lastText('last_output_uri', 'outputs', 'output', 'output_uri'),
  lastText('last_output_summary', 'outputs', 'output', 'summary'),
  countOf('outcome_count', 'outcomes'),
  lastText('last_outcome_type', 'outcomes', 'outcome', 'outcome_type'),
  {
    name: 'last_outcome_at',
    type: 'time',
    of: (lists) => timeIn(stringOf(textOf(lastOf(lists, 'outcomes', 'outcome'), OCCURRED_AT))),
  },
  lastText('last_outcome_description', 'outcomes', 'outcome', 'description'),
  countOf('feedback_count', 'feedback'),
  lastText('last_feedback_type', 'feedback', 'feedback', 'feedback_type'),
  {
    name: 'last_rating',
    type: 'number',
    of: (lists) => memberNumber(lastOf(lists, 'feedback', 'feedback'), RATING),
  },
  lastText('last_comment', 'feedback', 'feedback', 'comment'),
];

export const CSV_COLUMNS: readonly RecordColumn<Run>[] = [...RECORD_COLUMNS, ...LIST_COLUMNS];

/** A call and its run. */
interface CallRow extends Lists {
  readonly run: Run;
  /** The number of the call, from 1. */
  readonly number: number;
  readonly call: CallOf<BaseEvent>;
}

function callRows(run: Run): CallRow[] {
  return run.metadata.calls.map((call, place) => ({
    ...{ run, call, number: place + 1 },
    artifacts: ofKind(call.events(), 'internal-artifact'),
    outputs: ofKind(call.events(), 'human-output'),
    outcomes: ofKind(call.events(), 'outcome'),
    feedback: ofKind(call.events(), 'user-feedback'),
  }));
}

export const CALL_ROW_COLUMNS: readonly RecordColumn<CallRow>[] = [
  { name: 'record_id', type: 'text', of: ({ run }) => run.metadata.record_id },
  { name: 'organisation', type: 'text', of: ({ run }) => run.metadata.organisation },
  { name: 'call_number', type: 'count', of: ({ number }) => number },
  { name: 'call_event_id', type: 'text', of: ({ call }) => call.start.event.eventId },
  { name: 'timestamp', type: 'time', of: ({ call }) => call.start.body?.timestamp },
  { name: 'received_at', type: 'time', of: ({ call }) => utcText(call.start.event.receivedAt) },
  { name: 'parent_event_id', type: 'text', of: ({ call }) => call.start.parentId ?? undefined },
  ...CALL_COLUMNS.map(
    ({ name, type, of }) => ({ name, type, of: ({ call }: CallRow) => of(call) }) as RecordColumn<CallRow>,
  ),
  { name: 'prompt', type: 'text', of: ({ call }) => textOf(startObject(call, 'inputs'), NAMES.prompt) },
  ...LIST_COLUMNS,
];

/**
 * @param forSpreadsheet whether people read the file: ids stay unchanged, and no sender's text becomes a
 * formula.
 */
export function csv(forSpreadsheet: boolean): FileFormat<BaseEvent> {
  return csvOf(CSV_COLUMNS, (run) => [run], forSpreadsheet);
}

/** One row for each call. */
export function callsCsv(forSpreadsheet: boolean): FileFormat<BaseEvent> {
  return csvOf(CALL_ROW_COLUMNS, callRows, forSpreadsheet);
}

const LINE_END = '\r\n';

function csvOf<Row>(
  columns: readonly RecordColumn<Row>[],
  rowsOf: (run: Run) => readonly Row[],
  forSpreadsheet: boolean,
): FileFormat<BaseEvent> {
  const cells = forSpreadsheet ? SPREADSHEET_CELLS : PLAIN_CELLS;
  const head = cells.mark + columns.map(({ name }) => name).join(',') + LINE_END;
  const lineOf = (row: Row, tally: Tally) =>
    columns.map((column) => cellOf(column, row, cells, tally)).join(',');
  return textFormat({
    ...{ head, between: LINE_END, tail: LINE_END, empty: head },
    text: (run, tally) =>
      rowsOf(run)
        .map((row) => lineOf(row, tally))
        .join(LINE_END),
  });
}

function cellOf<Row>(column: RecordColumn<Row>, row: Row, cells: Cells, tally: Tally): string {
  switch (column.type) {
    case 'text':
      return textCell(stringOf(column.of(row)), cells, tally);
    case 'texts':
      return textCell(column.of(row)?.join(' '), cells, tally);
    case 'number':
    case 'count':
    case 'flag':
      return String(column.of(row) ?? '');
    case 'time': {
      const time = column.of(row);
      return time === undefined ? '' : utcOf(time);
    }
  }
}

function textCell(text = '', cells: Cells, tally: Tally): string {
  if (cells.isTooLong(text)) tally.longCells++;
  return cells.cell(text);
}

/** The time in UTC with milliseconds: spreadsheets can sort a single form. */
function utcOf(time: string): string {
  return new Date(millisecondsOf(time)).toISOString();
}
