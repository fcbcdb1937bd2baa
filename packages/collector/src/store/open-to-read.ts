/** Opens a log in files for reading; open-shared.ts opens one in a database. */
import { nodeFiles } from '../files.js';
import type { LocalAccessLog } from './contract/access-log.js';
import type { OpenStore } from './contract/opened.js';
import type { Requests } from './contract/requests.js';
import type { TreeReader } from './contract/tree.js';
import { Inbox } from './embedded/inbox.js';
import { LogReader } from './embedded/log-reader.js';
import type { KeyReading } from './embedded/sealed-frame.js';
import { TreeFiles } from './embedded/tree-files.js';
import { openAccessLog } from './open-access-log.js';

export type { KeyReading };
export type { OpenSharedStore } from './contract/opened.js';
export { checkpointDirectory } from './open.js';
export { askForCompaction, isCompactionAsked } from './embedded/inbox.js';
export { openSharedRequests, openSharedStore, sharedKeyPlaces, withSharedView } from './open-shared.js';

export interface OpenDirectory extends OpenStore {
  readonly accessLog: LocalAccessLog;
  readonly requests: Requests;
}

/** Opens a data directory for reading. Each part is opened at its first use. */
export function openStore(dataDir: string, keys?: KeyReading): OpenDirectory {
  const made: { -readonly [Part in keyof OpenDirectory]?: OpenDirectory[Part] } = {};
  return {
    get events() {
      return (made.events ??= new LogReader(dataDir, nodeFiles, keys));
    },
    get tree() {
      return (made.tree ??= TreeFiles.read(dataDir, nodeFiles));
    },
    get accessLog() {
      return (made.accessLog ??= openAccessLog(dataDir));
    },
    get requests() {
      return (made.requests ??= new Inbox(dataDir));
    },
  };
}

/**
 * The number of entries in the second line of the newest checkpoint (C2SP tlog-checkpoint), which is not
 * verified; 0 without a checkpoint.
 */
export async function claimedSize(tree: TreeReader): Promise<number> {
  const size = /^[^\n]+\n(\d{1,15})\n/.exec((await tree.head()) ?? '')?.[1];
  return size === undefined ? 0 : Number(size);
}
