/** Opens the table of API keys. */
import type { KeyStore, SharedKeyStore } from './contract/keys.js';
import { KeyDatabase } from './embedded/key-database.js';
import { driverOf, isShared, type StoreSettings } from './open.js';

export { KeyDatabase, keyDatabasePath } from './embedded/key-database.js';

/** Opens the API keys for writing. */
export async function openKeys(settings: StoreSettings): Promise<KeyStore | SharedKeyStore> {
  if (!isShared(settings)) return KeyDatabase.open(settings.dataDir);
  return (await driverOf(settings.store)).openKeys(settings.store);
}
