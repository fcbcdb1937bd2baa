/** How names stand in a derived file. */
export interface NameCipher {
    /** The same for the same key; tells nothing of it. */
    readonly id: string;
    seal(name: string): Buffer;
    /** Undefined for what this key has not made. */
    open(sealed: Uint8Array): string | undefined;
}
export declare class SyntheticIv implements NameCipher {
    #private;
    readonly id: string;
    /** @param key of 32 bytes. */
    constructor(key: Buffer);
    seal(name: string): Buffer;
    open(sealed: Uint8Array): string | undefined;
}
