/**
 * Where a log is, and the table of drivers. The doors of a store are `open-to-read`, `open-to-write`, `open-to-audit` and
 * `open-keys`: a command loads those that it uses. Only they name a driver.
 */
import { optionalPackage, PackageMissing } from '../optional-packages.js';
/** By the scheme of an address, the package that has the driver. */
const DRIVERS = { postgres: 'postgres', postgresql: 'postgres' };
function schemeOf(address) {
    const [scheme = ''] = /^[a-z]+(?=:\/\/)/.exec(address) ?? [];
    return Object.hasOwn(DRIVERS, scheme) ? scheme : undefined;
}
/** Whether the log is in a database, and its data directory holds only what one collector keeps for itself. */
export function isShared({ store }) {
    return schemeOf(store) !== undefined;
}
/** @throws PackageMissing, RangeError for an address that is not {@link isShared}. */
export async function driverOf(address) {
    const scheme = schemeOf(address);
    if (scheme === undefined)
        throw new RangeError('no driver opens this address');
    return (await optionalPackage(DRIVERS[scheme])).driver;
}
/** Why this is no place of a log that can be opened; undefined when it is one, or empty. */
export async function storeFault(store) {
    if (store === '')
        return undefined;
    if (!isShared({ store }))
        return 'it does not begin with postgres://';
    try {
        return (await driverOf(store)).addressFault(store);
    }
    catch (error) {
        if (!(error instanceof PackageMissing))
            throw error;
        return error.message;
    }
}
/** For messages: where the log is, without the role and the options of its address. */
export function describeStore({ dataDir, store }) {
    return store === '' ? dataDir : store.replace(/^(\w+:\/\/)(?:[^/?]*@)?([^?]*).*$/s, '$1$2');
}
//# sourceMappingURL=open.js.map