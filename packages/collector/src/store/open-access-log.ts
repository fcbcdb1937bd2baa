/** Opens the access log of a data directory, without what else is in it. */
import type { LocalAccessLog } from './contract/access-log.js';
import { AccessLogFile, readingsLogPath } from './embedded/access-log-file.js';

export { accessLogPath, readingsLogPath } from './embedded/access-log-file.js';

export function openAccessLog(dataDir: string): LocalAccessLog {
  return new AccessLogFile(dataDir);
}

/** Where a mirror logs who reads on it: its access log is a copy. */
export function openReadingsLog(dataDir: string): LocalAccessLog {
  return new AccessLogFile(dataDir, readingsLogPath(dataDir));
}
