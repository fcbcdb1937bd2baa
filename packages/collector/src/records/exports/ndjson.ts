/** Records as they are, one JSON object a line: nothing of what was sent is left out or rounded. */
import { toJson } from '../raw-json.js';
import type { RecordFormat } from './record-format.js';

export const ndjson: RecordFormat = { name: 'ndjson', extension: '.ndjson', document: toJson };
