import type { KeyPlaces } from '../privacy/key-directory.js';
import type { LocalAccessLog } from './contract/access-log.js';
import type { SharedView } from './contract/driver.js';
import type { OpenSharedStore, OpenStore } from './contract/opened.js';
import type { Requests, SharedRequests } from './contract/requests.js';
import { type StoreSettings } from './open.js';
export type { OpenSharedStore } from './contract/opened.js';
/** Where checkpoints lie. */
export { checkpointDirectory } from './embedded/tree-files.js';
export interface OpenDirectory extends OpenStore {
    readonly accessLog: LocalAccessLog;
    readonly requests: Requests;
}
/** Nothing is made or read before it is asked for, and nothing is written. */
export declare function openStore(dataDir: string): OpenDirectory;
/**
 * @param keys where those of its payloads are; without them what is encrypted stays closed.
 * @throws when the database cannot be reached, or holds no log that this collector can read; KeysUnfit, KekFault.
 */
export declare function openSharedStore({ store }: Pick<StoreSettings, 'store'>, keys?: KeyPlaces): Promise<OpenSharedStore>;
/** The same for the time of `work`, with a directory of what is public of the log, as a data directory has it. */
export declare function withSharedView<Result>({ store, dataDir }: StoreSettings, work: (view: SharedView) => Promise<Result>): Promise<Result>;
/** Where the keys of a log in a database are, as a collector has noted in its data directory; undefined where none has. */
export declare function sharedKeyPlaces(dataDir: string): KeyPlaces | undefined;
/** What a mirror asks of the collectors of its log. @throws when the database cannot be reached, or holds no log. */
export declare function openSharedRequests({ store }: Pick<StoreSettings, 'store'>): Promise<SharedRequests>;
