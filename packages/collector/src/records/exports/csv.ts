/**
 * Records as CSV (RFC 4180): a row each, what it says in brief. The lists of a record do not fit a row: their number is
 * there, and of outputs, outcomes and feedback what the last one says.
 */
import type { BaseEvent } from '@clinical-events/protocol';
import type { AssembledRun } from '../assemble.js';
import { MemberName } from '../json-scan.js';
import { type PayloadName, type Sent, sentIn } from '../run-event.js';
import {
  memberNumber,
  millisecondsOf,
  RECORD_COLUMNS,
  stringOf,
  textOf,
  timeIn,
  type RecordColumn,
} from './record-columns.js';
import { type Cells, PLAIN_CELLS, SPREADSHEET_CELLS } from './csv-cell.js';
import { type FileFormat, type Tally, textFormat } from './file-format.js';

type Run = AssembledRun<BaseEvent>;
type ListName = 'artifacts' | 'outputs' | 'outcomes' | 'feedback';

/** What a list has in a row: how many entries, and what the last of them says. */
function countOf(name: string, list: ListName): RecordColumn<Run> {
  return { name, type: 'count', of: (run) => run[list].length };
}

function lastText(name: string, list: ListName, object: PayloadName, member: string): RecordColumn<Run> {
  const wanted = new MemberName(member);
  return { name, type: 'text', of: (run) => textOf(lastOf(run, list, object), wanted) };
}

function lastOf(run: Run, list: ListName, object: PayloadName): Sent | undefined {
  const body = run[list].at(-1)?.body;
  return body && sentIn(body, object);
}

const OCCURRED_AT = new MemberName('occurred_at');
const RATING = new MemberName('rating_value');

const LIST_COLUMNS: readonly RecordColumn<Run>[] = [
  countOf('artifact_count', 'artifacts'),
  countOf('output_count', 'outputs'),
  lastText('last_output_uri', 'outputs', 'output', 'output_uri'),
  lastText('last_output_summary', 'outputs', 'output', 'summary'),
  countOf('outcome_count', 'outcomes'),
  lastText('last_outcome_type', 'outcomes', 'outcome', 'outcome_type'),
  {
    name: 'last_outcome_at',
    type: 'time',
    of: (run) => timeIn(stringOf(textOf(lastOf(run, 'outcomes', 'outcome'), OCCURRED_AT))),
  },
  lastText('last_outcome_description', 'outcomes', 'outcome', 'description'),
  countOf('feedback_count', 'feedback'),
  lastText('last_feedback_type', 'feedback', 'feedback', 'feedback_type'),
  {
    name: 'last_rating',
    type: 'number',
    of: (run) => memberNumber(lastOf(run, 'feedback', 'feedback'), RATING),
  },
  lastText('last_comment', 'feedback', 'feedback', 'comment'),
];

export const CSV_COLUMNS: readonly RecordColumn<Run>[] = [...RECORD_COLUMNS, ...LIST_COLUMNS];

const LINE_END = '\r\n';

const head = CSV_COLUMNS.map(({ name }) => name).join(',') + LINE_END;

/** For programs. */
export const csv = csvOf(PLAIN_CELLS);
/** For people who open it in a spreadsheet: ids stay what they are, and nothing is a formula of a sender's. */
export const spreadsheet = csvOf(SPREADSHEET_CELLS);

function csvOf(cells: Cells): FileFormat<BaseEvent> {
  return textFormat({
    head: cells.mark + head,
    between: LINE_END,
    tail: LINE_END,
    empty: cells.mark + head,
    text: (run, tally) => CSV_COLUMNS.map((column) => cellOf(column, run, cells, tally)).join(','),
  });
}

function cellOf(column: RecordColumn<Run>, run: Run, cells: Cells, tally: Tally): string {
  switch (column.type) {
    case 'text':
      return textCell(stringOf(column.of(run)), cells, tally);
    case 'texts':
      return textCell(column.of(run)?.join(' '), cells, tally);
    case 'number':
    case 'count':
    case 'flag':
      return String(column.of(run) ?? '');
    case 'time': {
      const time = column.of(run);
      return time === undefined ? '' : utcOf(time);
    }
  }
}

function textCell(text = '', cells: Cells, tally: Tally): string {
  if (cells.isTooLong(text)) tally.longCells++;
  return cells.cell(text);
}

/** In UTC to the millisecond: one form for all, so that a spreadsheet sorts by it. */
function utcOf(time: string): string {
  return new Date(millisecondsOf(time)).toISOString();
}
