/** Records as they are, in one JSON array. */
import { toJson } from '../raw-json.js';
import { textFormat } from './record-encoder.js';

export const json = textFormat({ head: '[\n', between: ',\n', tail: '\n]\n', empty: '[]\n', text: toJson });
