/** Opens a log in files for `verify`, `doctor`, back-ups and compaction. */
import { AccessLogFile } from './embedded/access-log-file.js';

export { compactLog, type Compacted, segmentsOf } from './embedded/compacted-segment.js';
export { indexState, type IndexState } from './embedded/id-index/index-state.js';
export { EvidenceLog } from './embedded/evidence-log.js';
export { copiedLog } from './embedded/log-copy.js';
export { LogReading as LogAudit } from './embedded/whole-log-audit.js';

/** For a copy of the access log: its bytes up to the last whole line; undefined when there is none. */
export function copiedAccessLog(dataDir: string): ReturnType<AccessLogFile['copy']> {
  return new AccessLogFile(dataDir).copy();
}
