/**
 * Where a log is, and the table of drivers. The doors of a store are `open-to-read`, `open-to-write`, `open-to-audit` and
 * `open-keys`: a command loads those that it uses. Only they name a driver.
 */
import path from 'node:path';
import { optionalPackage } from '../optional-packages.js';
import { Unusable } from '../unusable.js';
import type { StoreDriver } from './contract/driver.js';

/** By the scheme of an address, the package that has the driver. */
const DRIVERS = { postgres: 'postgres', postgresql: 'postgres' } as const;

type Scheme = keyof typeof DRIVERS;

/** Where a log is: in a data directory, or in a database where `store` is not empty. */
export interface StoreSettings {
  readonly dataDir: string;
  readonly store: string;
}

function schemeOf(address: string): Scheme | undefined {
  const [scheme = ''] = /^[a-z]+(?=:\/\/)/.exec(address) ?? [];
  return Object.hasOwn(DRIVERS, scheme) ? (scheme as Scheme) : undefined;
}

/** Whether the log is in a database, and its data directory holds only what one collector keeps for itself. */
export function isShared({ store }: Pick<StoreSettings, 'store'>): boolean {
  return schemeOf(store) !== undefined;
}

/** @throws Unusable if the driver is not installed, RangeError for an address that is not {@link isShared}. */
export async function driverOf(address: string): Promise<StoreDriver> {
  const scheme = schemeOf(address);
  if (scheme === undefined) throw new RangeError('no driver opens this address');
  return (await optionalPackage<{ readonly driver: StoreDriver }>(DRIVERS[scheme])).driver;
}

/** In a directory that a back-up is restored to: the copy, until it is proved and moved into place. */
export const RESTORING = 'restoring';

/** Where the checkpoints of a data directory are. */
export function checkpointDirectory(dataDir: string): string {
  return path.join(dataDir, 'checkpoints');
}

/** Why this is no place of a log that can be opened; undefined when it is one, or empty. */
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

/** For messages: where the log is, without the role and the options of its address. */
export function describeStore({ dataDir, store }: StoreSettings): string {
  return store === '' ? dataDir : store.replace(/^(\w+:\/\/)(?:[^/?]*@)?([^?]*).*$/s, '$1$2');
}
