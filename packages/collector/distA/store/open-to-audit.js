/** Opens a log in files for `verify`, `doctor`, back-ups and compaction. */
import { AccessLogFile } from './embedded/access-log-file.js';
export { compactLog, segmentsOf } from './embedded/compacted-segment.js';
export { indexState } from './embedded/id-index/index-state.js';
export { copiedLog } from './embedded/log-copy.js';
export { LogReading as LogAudit } from './embedded/whole-log-audit.js';
/** For a copy of the access log: its bytes up to the last whole line; undefined when there is none. */
export function copiedAccessLog(dataDir) {
    return new AccessLogFile(dataDir).copy();
}
//# sourceMappingURL=open-to-audit.js.map