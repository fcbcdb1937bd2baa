import { KeyDatabase } from './embedded/key-database.js';
import { driverOf, isShared } from './open.js';
export { KeyDatabase, keyDatabasePath } from './embedded/key-database.js';
/** API keys, for writing. */
export async function openKeys(settings) {
    if (!isShared(settings))
        return KeyDatabase.open(settings.dataDir);
    return (await driverOf(settings.store)).openKeys(settings.store);
}
//# sourceMappingURL=open-keys.js.map