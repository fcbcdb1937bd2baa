/** The key cannot be had, or does not open what it should. The message names a place, never a key. */
export declare class KekFault extends Error {
    name: string;
}
export interface KeyEncryptionKey {
    /** What is wrapped by it, in base64, and was seen to unwrap: what is under a key that does not is lost. @throws KekFault */
    wrap(key: Buffer): string;
    /** The same, while this thread goes on: a program may take ten seconds. */
    wrapLater(key: Buffer): Promise<string>;
    /** @throws KekFault */
    unwrap(wrapped: string): Buffer;
}
/** Why this names no key; undefined when it does, which is not looked at. */
export declare function kekFault(kek: string): string | undefined;
/**
 * @param kek `file:` and the path of 32 random bytes in base64, or `command:` and that of a program which is given `wrap`
 *   or `unwrap`, reads base64 and prints base64.
 * @throws KekFault when the file holds no such key, or others may read it.
 */
export declare function openKek(kek: string): KeyEncryptionKey;
/** What a file of a new key holds. */
export declare function newKekFile(): Buffer;
/** Whether the content of a file is a key. */
export declare function isKekFile(content: Buffer): boolean;
