/**
 * Where a log is, and the table of drivers. The doors of a store are `open-to-read`, `open-to-write`, `open-to-audit`,
 * `open-keys` and `administration`: a command loads those that it uses. Only they name a driver.
 */
import { AddressFault, describeAddress, isPostgres, parseAddress } from './postgres/address.js';

/** Loaded where a log is in a database: its library takes longer to load than most commands run. */
export const postgres = () => import('./postgres/driver.js');

/** Where a log is: in a data directory, or in a database where `store` is not empty. */
export interface StoreSettings {
  readonly dataDir: string;
  readonly store: string;
}

/** Why this is no place of a log; undefined when it is one, or empty. */
export function storeFault(store: string): string | undefined {
  if (store === '') return undefined;
  try {
    parseAddress(store);
    return undefined;
  } catch (error) {
    if (!(error instanceof AddressFault)) throw error;
    return error.message;
  }
}

/** For messages: where the log is. */
export function describeStore({ dataDir, store }: StoreSettings): string {
  return store === '' ? dataDir : describeAddress(parseAddress(store));
}

/** Whether the log is in a database, and its data directory holds only what one collector keeps for itself. */
export function isShared({ store }: Pick<StoreSettings, 'store'>): boolean {
  return isPostgres(store);
}
