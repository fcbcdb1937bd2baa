/** Opens a log in files for copies of it. */
import { AccessLogFile } from './embedded/access-log-file.js';

export { copiedLog } from './embedded/log-copy.js';

/** For a copy of the access log: its bytes up to the last whole line; undefined when there is none. */
export function copiedAccessLog(dataDir: string): ReturnType<AccessLogFile['copy']> {
  return new AccessLogFile(dataDir).copy();
}
