/** Opens a log in a database for reading. */
import type { KeyPlaces } from '../privacy/key-directories.js';
import type { SharedView } from './contract/driver.js';
import type { OpenSharedStore } from './contract/opened.js';
import type { SharedRequests } from './contract/requests.js';
import { notesKeys, readKeyPlaces } from './key-places.js';
import { driverOf, isShared, type StoreSettings } from './open.js';

/**
 * @param keys the locations of its payload keys; without them encrypted payloads are not opened.
 * @throws if the database cannot be reached, or contains no log that this collector can read; KeysUnfit,
 * KekFault.
 */
export async function openSharedStore(
  { store }: Pick<StoreSettings, 'store'>,
  keys?: KeyPlaces,
): Promise<OpenSharedStore> {
  return (await driverOf(store)).openToRead(store, keys);
}

/** Opens a log during `work`, with a directory of its public files, laid out like a data directory. */
export async function withSharedView<Result>(
  { store, dataDir }: StoreSettings,
  work: (view: SharedView) => Promise<Result>,
): Promise<Result> {
  return (await driverOf(store)).withView(store, sharedKeyPlaces(dataDir), work);
}

/**
 * The locations of the keys of a log in a database, by the note of a collector; undefined if there is none.
 */
export function sharedKeyPlaces(dataDir: string): KeyPlaces | undefined {
  if (!notesKeys(dataDir)) return undefined;
  const places = readKeyPlaces(dataDir);
  return places.directories.some((store) => isShared({ store })) ? places : undefined;
}

/**
 * Opens the requests of a mirror to collectors.
 * @throws if the database cannot be reached, or contains no log.
 */
export async function openSharedRequests({ store }: Pick<StoreSettings, 'store'>): Promise<SharedRequests> {
  return (await driverOf(store)).openRequests(store);
}
