/**
 * The location of a log, and the table of drivers. A command opens a store by one of the modules `open-*`; no
 * other module names a driver.
 */
import path from 'node:path';
import { optionalPackage } from '../optional-packages.js';
import { Unusable } from '../unusable.js';
import type { StoreDriver } from './contract/driver.js';

/** The packages of drivers by the scheme of an address. */
const DRIVERS = { postgres: 'postgres', postgresql: 'postgres' } as const;

type Scheme = keyof typeof DRIVERS;

/** The location of a log: a data directory, or a database if `store` is not empty. */
export interface StoreSettings {
  readonly dataDir: string;
  readonly store: string;
}

function schemeOf(address: string): Scheme | undefined {
  const [scheme = ''] = /^[a-z]+(?=:\/\/)/.exec(address) ?? [];
  return Object.hasOwn(DRIVERS, scheme) ? (scheme as Scheme) : undefined;
}

/** Whether the log is in a database; its data directory then contains only the files of one collector. */
export function isShared({ store }: Pick<StoreSettings, 'store'>): boolean {
  return schemeOf(store) !== undefined;
}

/**
 * Loads the driver of an address.
 * @throws Unusable if it is not installed; RangeError if the address is not {@link isShared}.
 */
export async function driverOf(address: string): Promise<StoreDriver> {
  const scheme = schemeOf(address);
  if (scheme === undefined) throw new RangeError('there is no driver for this address');
  return (await optionalPackage<{ readonly driver: StoreDriver }>(DRIVERS[scheme])).driver;
}

/** The directory of a restored copy until it is verified and moved into place. */
export const RESTORING = 'restoring';

/** The directory of checkpoints of a data directory. */
export function checkpointDirectory(dataDir: string): string {
  return path.join(dataDir, 'checkpoints');
}

/** The fault of a `store` setting; undefined if it is valid or empty. */
export async function storeFault(store: string): Promise<string | undefined> {
  if (store === '') return undefined;
  if (!isShared({ store })) return 'it does not begin with postgres://';
  try {
    return (await driverOf(store)).addressFault(store);
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    return error.message;
  }
}

/** The location of a log for messages, without the role and the options of its address. */
export function describeStore({ dataDir, store }: StoreSettings): string {
  return store === '' ? dataDir : store.replace(/^(\w+:\/\/)(?:[^/?]*@)?([^?]*).*$/s, '$1$2');
}
