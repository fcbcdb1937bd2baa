/** Opens the table of API keys. */
import type { KeyStore } from './contract/keys.js';
import { KeyDatabase } from './embedded/key-database.js';
import { isShared, postgres, type StoreSettings } from './open.js';
import { parseAddress } from './postgres/address.js';

export { KeyDatabase, keyDatabasePath } from './embedded/key-database.js';

/** API keys, for writing. */
export async function openKeys(settings: StoreSettings): Promise<KeyStore> {
  if (!isShared(settings)) return KeyDatabase.open(settings.dataDir);
  const { PostgresKeys } = await postgres();
  return new PostgresKeys(parseAddress(settings.store));
}
