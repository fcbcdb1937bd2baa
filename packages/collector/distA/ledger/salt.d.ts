/** Writes SALT_BYTES random bytes to the beginning of `target`, never the same ones twice. */
export declare function fillSalt(target: Buffer): void;
