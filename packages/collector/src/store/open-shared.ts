/** Opens a log in a database for reading. */
import type { KeyPlaces } from '../privacy/key-directories.js';
import type { SharedView } from './contract/driver.js';
import type { OpenSharedStore } from './contract/opened.js';
import type { SharedRequests } from './contract/requests.js';
import { notesKeys, readKeyPlaces } from './key-places.js';
import { driverOf, isShared, type StoreSettings } from './open.js';

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
