/** Opens the table of API keys. */
import type { KeyStore, SharedKeyStore } from './contract/keys.js';
import { type StoreSettings } from './open.js';
export { KeyDatabase, keyDatabasePath } from './embedded/key-database.js';
/** API keys, for writing. */
export declare function openKeys(settings: StoreSettings): Promise<KeyStore | SharedKeyStore>;
