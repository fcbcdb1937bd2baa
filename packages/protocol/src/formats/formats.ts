import { isDateTime } from './date-time.js';
import { isUri } from './uri.js';
import { isUuid } from './uuid.js';

/**
 * The formats that the schemas name and that are checked, by the name that the schemas use. The generated
 * validators look them up here. `int32` is not among them: its range is stated in the schema itself.
 */
export const formats = { uuid: isUuid, 'date-time': isDateTime, uri: isUri } as const;
