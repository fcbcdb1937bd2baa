import { csvCell, millisecondsOf, RECORD_COLUMNS, stringOf, textIn, timeIn, } from './record-columns.js';
import { numberIn } from '../raw-json.js';
import { textFormat } from './file-format.js';
/** What a list has in a row: how many entries, and what the last of them says. */
const LIST_COLUMNS = [
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
export const CSV_COLUMNS = [...RECORD_COLUMNS, ...LIST_COLUMNS];
const LINE_END = '\r\n';
const head = CSV_COLUMNS.map(({ name }) => name).join(',') + LINE_END;
export const csv = textFormat({
    head,
    between: LINE_END,
    tail: LINE_END,
    empty: head,
    text: (record) => CSV_COLUMNS.map((column) => cell(column, record)).join(','),
});
function cell(column, record) {
    switch (column.type) {
        case 'text':
            return csvCell(stringOf(column.of(record)) ?? '');
        case 'texts':
            return csvCell(column.of(record)?.join(' ') ?? '');
        case 'number':
        case 'count':
            return String(column.of(record) ?? '');
        case 'time': {
            const time = column.of(record);
            return time === undefined ? '' : utcOf(time);
        }
    }
}
/** In UTC to the millisecond: one form for all, so that a spreadsheet sorts by it. */
function utcOf(time) {
    return new Date(millisecondsOf(time)).toISOString();
}
//# sourceMappingURL=csv.js.map