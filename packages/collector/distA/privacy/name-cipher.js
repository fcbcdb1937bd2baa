/**
 * Encrypts the names in derived files so that the same name gives the same bytes and can be looked for: a synthetic IV
 * (Rogaway, Shrimpton, Deterministic Authenticated-Encryption, EUROCRYPT 2006) of HMAC-SHA-256, then AES-256-CTR.
 * Who has the file and not the key sees which rows have the same name, and how long it is.
 */
import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hash, } from 'node:crypto';
const IV_BYTES = 16;
export class SyntheticIv {
    id;
    #mac;
    #cipher;
    /** @param key of 32 bytes. */
    constructor(key) {
        const derive = (purpose) => hash('sha256', Buffer.concat([Buffer.from(`clinical-events names ${purpose}\0`), key]), 'buffer');
        this.#mac = createSecretKey(derive('mac'));
        this.#cipher = createSecretKey(derive('cipher'));
        this.id = derive('id').toString('hex', 0, 8);
    }
    seal(name) {
        const text = Buffer.from(name);
        const iv = this.#ivOf(text);
        return Buffer.concat([iv, createCipheriv('aes-256-ctr', this.#cipher, iv).update(text)]);
    }
    open(sealed) {
        if (sealed.length < IV_BYTES)
            return undefined;
        const iv = sealed.subarray(0, IV_BYTES);
        const text = createDecipheriv('aes-256-ctr', this.#cipher, iv).update(sealed.subarray(IV_BYTES));
        return this.#ivOf(text).equals(iv) ? text.toString() : undefined;
    }
    #ivOf(text) {
        return createHmac('sha256', this.#mac).update(text).digest().subarray(0, IV_BYTES);
    }
}
//# sourceMappingURL=name-cipher.js.map