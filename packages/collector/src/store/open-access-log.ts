/** Opens the access log of a data directory. */
import type { LocalAccessLog } from './contract/access-log.js';
import { AccessLogFile, readingsLogPath } from './embedded/access-log-file.js';

export { accessLogPath, readingsLogPath } from './embedded/access-log-file.js';

export function openAccessLog(dataDir: string): LocalAccessLog {
  return new AccessLogFile(dataDir);
}

/** Opens the log of readings on a mirror, whose access log is a copy. */
export function openReadingsLog(dataDir: string): LocalAccessLog {
  return new AccessLogFile(dataDir, readingsLogPath(dataDir));
}
