/**
 * Records as CSV (RFC 4180): a row each, what it says in brief. The lists of a record do not fit a row: their number is
 * there, and of outputs, outcomes and feedback what the last one says.
 */
import type { BaseEvent, ClinicalRecord } from '@clinical-events/protocol';
import {
  millisecondsOf,
  RECORD_COLUMNS,
  stringOf,
  textIn,
  timeIn,
  type RecordColumn,
} from './record-columns.js';
import { numberIn } from '../raw-json.js';
import { type Cells, PLAIN_CELLS, SPREADSHEET_CELLS } from './csv-cell.js';
import { type FileFormat, type Tally, textFormat } from './file-format.js';

/** What a list has in a row: how many entries, and what the last of them says. */
const LIST_COLUMNS: readonly RecordColumn<ClinicalRecord>[] = [
  { name: 'artifact_count', type: 'count', of: ({ artifacts }) => artifacts.length },
  { name: 'output_count', type: 'count', of: ({ outputs }) => outputs.length },
  { name: 'last_output_uri', type: 'text', of: ({ outputs }) => textIn(outputs.at(-1)?.output.output_uri) },
  { name: 'last_output_summary', type: 'text', of: ({ outputs }) => textIn(outputs.at(-1)?.output.summary) },
  { name: 'outcome_count', type: 'count', of: ({ outcomes }) => outcomes.length },
  {
    name: 'last_outcome_type',
    type: 'text',
    of: ({ outcomes }) => textIn(outcomes.at(-1)?.outcome['outcome_type']),
  },
  {
    name: 'last_outcome_at',
    type: 'time',
    of: ({ outcomes }) => timeIn(outcomes.at(-1)?.outcome['occurred_at']),
  },
  {
    name: 'last_outcome_description',
    type: 'text',
    of: ({ outcomes }) => textIn(outcomes.at(-1)?.outcome['description']),
  },
  { name: 'feedback_count', type: 'count', of: ({ feedback }) => feedback.length },
  {
    name: 'last_feedback_type',
    type: 'text',
    of: ({ feedback }) => textIn(feedback.at(-1)?.feedback['feedback_type']),
  },
  {
    name: 'last_rating',
    type: 'number',
    of: ({ feedback }) => numberIn(feedback.at(-1)?.feedback['rating_value']),
  },
  { name: 'last_comment', type: 'text', of: ({ feedback }) => textIn(feedback.at(-1)?.feedback['comment']) },
];

export const CSV_COLUMNS: readonly RecordColumn<ClinicalRecord>[] = [...RECORD_COLUMNS, ...LIST_COLUMNS];

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
    text: (record, tally) => CSV_COLUMNS.map((column) => cellOf(column, record, cells, tally)).join(','),
  });
}

function cellOf(
  column: RecordColumn<ClinicalRecord>,
  record: ClinicalRecord,
  cells: Cells,
  tally: Tally,
): string {
  switch (column.type) {
    case 'text':
      return textCell(stringOf(column.of(record)), cells, tally);
    case 'texts':
      return textCell(column.of(record)?.join(' '), cells, tally);
    case 'number':
    case 'count':
      return String(column.of(record) ?? '');
    case 'time': {
      const time = column.of(record);
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
