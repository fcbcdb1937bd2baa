import type { StoreDriver } from './contract/driver.js';
/** Where a log is: in a data directory, or in a database where `store` is not empty. */
export interface StoreSettings {
    readonly dataDir: string;
    readonly store: string;
}
/** Whether the log is in a database, and its data directory holds only what one collector keeps for itself. */
export declare function isShared({ store }: Pick<StoreSettings, 'store'>): boolean;
/** @throws PackageMissing, RangeError for an address that is not {@link isShared}. */
export declare function driverOf(address: string): Promise<StoreDriver>;
/** Why this is no place of a log that can be opened; undefined when it is one, or empty. */
export declare function storeFault(store: string): Promise<string | undefined>;
/** For messages: where the log is, without the role and the options of its address. */
export declare function describeStore({ dataDir, store }: StoreSettings): string;
