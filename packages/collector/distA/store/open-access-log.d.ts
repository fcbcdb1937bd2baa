/** Opens the access log of a data directory, without what else is in it. */
import type { LocalAccessLog } from './contract/access-log.js';
export { accessLogPath, readingsLogPath } from './embedded/access-log-file.js';
export declare function openAccessLog(dataDir: string): LocalAccessLog;
/** Where a mirror logs who reads on it: its access log is a copy. */
export declare function openReadingsLog(dataDir: string): LocalAccessLog;
