/** Complete records, one JSON object per line or all in one array, with every value as sent. */
import { recordOf } from '../assemble.js';
import { toJson } from '../raw-json.js';
import { lines, textFormat } from './file-format.js';

export const ndjson = lines(toJson);

export const json = textFormat({
  ...{ head: '[\n', between: ',\n', tail: '\n]\n', empty: '[]\n' },
  text: (run) => toJson(recordOf(run)),
});
