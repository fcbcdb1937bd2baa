import { AccessLogFile, readingsLogPath } from './embedded/access-log-file.js';
export { accessLogPath, readingsLogPath } from './embedded/access-log-file.js';
export function openAccessLog(dataDir) {
    return new AccessLogFile(dataDir);
}
/** Where a mirror logs who reads on it: its access log is a copy. */
export function openReadingsLog(dataDir) {
    return new AccessLogFile(dataDir, readingsLogPath(dataDir));
}
//# sourceMappingURL=open-access-log.js.map