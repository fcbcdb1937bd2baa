/** A log in a database, for the people who look after the database. */
import type { Quarantine, StoreFinding } from './contract/administration.js';
import { postgres } from './open.js';
import { parseAddress } from './postgres/address.js';
import type { Maintained, Migrated } from './postgres/administration.js';
import type { QuarantineOptions } from './postgres/quarantine.js';

export interface StoreAdministration {
  /** @param durability of a log that is begun. */
  migrate(durability?: 'replicated' | 'local'): Promise<Migrated>;
  /** The SQL of the roles. */
  roles(): Promise<string>;
  /** On return there are partitions for a year, and no payload is left whose key is destroyed. */
  maintain(): Promise<Maintained>;
  /** On return the log belongs to the database cluster that it is on now. */
  adopt(): Promise<void>;
  examine(): Promise<StoreFinding[]>;
  /** On return what no collector has stored is moved out of the way, unless that is only to be said. */
  quarantine(options: QuarantineOptions): Promise<Quarantine>;
}

export function storeAdministration(store: string): StoreAdministration {
  const address = parseAddress(store);
  return {
    migrate: async (durability) => (await postgres()).migrateLog(address, durability),
    roles: async () => (await postgres()).rolesOf(address),
    maintain: async () => (await postgres()).maintainLog(address),
    adopt: async () => (await postgres()).adoptLog(address),
    examine: async () => (await postgres()).examineLog(address),
    quarantine: async (options) => (await postgres()).quarantineLog(address, options),
  };
}
