/** Records as they are, one JSON object a line or all in one array: nothing of what was sent is left out or rounded. */
import { recordOf } from '../assemble.js';
import { toJson } from '../raw-json.js';
import { lines, textFormat } from './file-format.js';

export const ndjson = lines(toJson);

export const json = textFormat({
  ...{ head: '[\n', between: ',\n', tail: '\n]\n', empty: '[]\n' },
  text: (run) => toJson(recordOf(run)),
});
