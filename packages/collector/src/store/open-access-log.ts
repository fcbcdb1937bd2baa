/** Opens the access log of a data directory. */
import path from 'node:path';
import type { AccessLogStore, LocalAccessLog } from './contract/access-log.js';
import { AccessLogFile, readingsLogPath } from './embedded/access-log-file.js';
import { AccessLogFiles } from './embedded/access-log-files.js';

export { readingsLogPath } from './embedded/access-log-file.js';
export { accessLogPath } from './embedded/access-log-files.js';

export function openAccessLog(dataDir: string): AccessLogFiles {
  return new AccessLogFiles(dataDir);
}

/** Opens the copy that a mirror has of the access log in a database: one file, for its heads count all. */
export function openMirroredLog(dataDir: string): LocalAccessLog {
  return new AccessLogFile(dataDir);
}

/** Opens the log of readings on a mirror, whose access log is a copy. It is forwarded, and never divided. */
export function openReadingsLog(dataDir: string): LocalAccessLog {
  return new AccessLogFile(dataDir, readingsLogPath(dataDir));
}

/** Opens a closed file of an access log that was moved elsewhere. */
export function openClosedLog(file: string): AccessLogStore {
  return new AccessLogFile(path.dirname(file), file);
}
