import { isDateTime } from './date-time.js';
import { isUri } from './uri.js';
import { isUuid } from './uuid.js';

/**
 * The checked formats, by their names in the schemas. The generated validators use this table. `int32` is
 * absent: the schema itself states its range.
 */
export const formats = { uuid: isUuid, 'date-time': isDateTime, uri: isUri } as const;
