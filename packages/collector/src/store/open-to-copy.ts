/** Opens a log in files for copies of it. */
import { AccessLogFiles } from './embedded/access-log-files.js';

export { copiedLog } from './embedded/log-copy.js';

/** The files of the access log up to their last whole lines, for a copy. */
export function copiedAccessLog(dataDir: string): ReturnType<AccessLogFiles['copies']> {
  return new AccessLogFiles(dataDir).copies();
}
