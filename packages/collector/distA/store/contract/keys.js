/** The key store cannot be read or written. The message says what and where; `cause` says why. */
export class KeyStoreError extends Error {
    name = 'KeyStoreError';
}
/** The key store does not hold what was written to it. */
export class KeyStoreDamaged extends KeyStoreError {
    name = 'KeyStoreDamaged';
}
//# sourceMappingURL=keys.js.map