import { type ApiKey, type KeyStore, type RotationRefusal } from '../contract/keys.js';
/** Where the keys of a data directory are kept. */
export declare function keyDatabasePath(dataDir: string): string;
/** The embedded driver of the {@link KeyStore}. */
export declare class KeyDatabase implements KeyStore {
    #private;
    private constructor();
    /**
     * Opens the keys of a data directory, and makes the directory (mode 0700) and the file (mode 0600) when they
     * are not there.
     * @throws {@link KeyStoreError} when the file is damaged, was written by a newer collector, or cannot be opened.
     */
    static open(dataDir: string): KeyDatabase;
    /**
     * Opens the keys of a data directory, which may be a read-only snapshot, to look at them: nothing in the directory is
     * made, migrated or written, and every write is refused.
     * @throws {@link KeyStoreError} as {@link open} does, and when there is no file.
     */
    static openReadOnly(dataDir: string): KeyDatabase;
    list(): Promise<ApiKey[]>;
    version(): Promise<string>;
    insert(key: ApiKey): Promise<void>;
    insertFirst(key: ApiKey): Promise<boolean>;
    rotate(successor: ApiKey, oldExpiresAt: number, now: number): Promise<RotationRefusal | undefined>;
    revoke(keyId: string, now: number): Promise<boolean>;
    /**
     * Writes all keys as they are at one moment to a new file, beside anyone who is writing; its last bytes may not be on
     * stable storage on return. The same keys make the same bytes.
     * @throws KeyStoreDamaged when the copy is not sound, because this file is not.
     */
    copyTo(file: string): Promise<void>;
    close(): Promise<void>;
}
