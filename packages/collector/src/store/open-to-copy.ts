/** Opens a log in files for copies of it. */
import { AccessLogFile } from './embedded/access-log-file.js';

export { copiedLog } from './embedded/log-copy.js';

/** The access log up to its last whole line, for a copy; undefined if there is none. */
export function copiedAccessLog(dataDir: string): ReturnType<AccessLogFile['copy']> {
  return new AccessLogFile(dataDir).copy();
}
