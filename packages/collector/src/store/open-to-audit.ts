/** Opens a log in files for `verify` and `doctor`. */
import { nodeFiles } from '../files.js';
import type { AccessLogStore } from './contract/access-log.js';
import type { TreeReader } from './contract/tree.js';
import { TreeFiles } from './embedded/tree-files.js';
import { openAccessLog } from './open-access-log.js';

export { EvidenceLog } from './embedded/evidence-log.js';
export { OtherFormat } from './embedded/segment.js';
export { LogReading as LogAudit } from './embedded/whole-log-audit.js';

/** Opens the parts that an audit reads in addition to the segments. The tree must be closed. */
export function openProof(dataDir: string): {
  readonly tree: TreeReader;
  readonly accessLog: AccessLogStore;
} {
  return { tree: TreeFiles.read(dataDir, nodeFiles), accessLog: openAccessLog(dataDir) };
}
