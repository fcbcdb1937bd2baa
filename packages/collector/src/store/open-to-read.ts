/** Opens a log for reading: one in files, and one in a database. */
import { nodeFiles } from '../files.js';
import type { KeyPlaces } from '../privacy/key-directory.js';
import type { LocalAccessLog } from './contract/access-log.js';
import type { SharedView } from './contract/driver.js';
import type { OpenSharedStore, OpenStore } from './contract/opened.js';
import type { Requests, SharedRequests } from './contract/requests.js';
import type { TreeReader } from './contract/tree.js';
import { Inbox } from './embedded/inbox.js';
import { LogReader } from './embedded/log-reader.js';
import { TreeFiles } from './embedded/tree-files.js';
import { notesKeys, readKeyPlaces } from './key-places.js';
import { openAccessLog } from './open-access-log.js';
import { driverOf, isShared, type StoreSettings } from './open.js';

export type { OpenSharedStore } from './contract/opened.js';
export { checkpointDirectory } from './open.js';

export interface OpenDirectory extends OpenStore {
  readonly accessLog: LocalAccessLog;
  readonly requests: Requests;
}

/** Nothing is made or read before it is asked for, and nothing is written. */
export function openStore(dataDir: string): OpenDirectory {
  const made: { -readonly [Part in keyof OpenDirectory]?: OpenDirectory[Part] } = {};
  return {
    get events() {
      return (made.events ??= new LogReader(dataDir, nodeFiles));
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
 * How many entries the newest checkpoint says that there are, in its second line (C2SP tlog-checkpoint); 0 without a
 * checkpoint. Nothing of it is verified: for a first look, before the log is read.
 */
export async function claimedSize(tree: TreeReader): Promise<number> {
  const size = /^[^\n]+\n(\d{1,15})\n/.exec((await tree.head()) ?? '')?.[1];
  return size === undefined ? 0 : Number(size);
}

/**
 * @param keys where those of its payloads are; without them what is encrypted stays closed.
 * @throws when the database cannot be reached, or holds no log that this collector can read; KeysUnfit, KekFault.
 */
export async function openSharedStore(
  { store }: Pick<StoreSettings, 'store'>,
  keys?: KeyPlaces,
): Promise<OpenSharedStore> {
  return (await driverOf(store)).openToRead(store, keys);
}

/** The same for the time of `work`, with a directory of what is public of the log, as a data directory has it. */
export async function withSharedView<Result>(
  { store, dataDir }: StoreSettings,
  work: (view: SharedView) => Promise<Result>,
): Promise<Result> {
  return (await driverOf(store)).withView(store, sharedKeyPlaces(dataDir), work);
}

/** Where the keys of a log in a database are, as a collector has noted in its data directory; undefined where none has. */
export function sharedKeyPlaces(dataDir: string): KeyPlaces | undefined {
  if (!notesKeys(dataDir)) return undefined;
  const places = readKeyPlaces(dataDir);
  return places.directories.some((store) => isShared({ store })) ? places : undefined;
}

/** What a mirror asks of the collectors of its log. @throws when the database cannot be reached, or holds no log. */
export async function openSharedRequests({ store }: Pick<StoreSettings, 'store'>): Promise<SharedRequests> {
  return (await driverOf(store)).openRequests(store);
}
