/**
 * How a payload is sealed to its leaf, and opened again. Pure. What is sealed is salt and body, side by side.
 *
 *   suite 1   AES-256-GCM (NIST SP 800-38D), nonce: the first 12 bytes of the leaf hash, associated data: the leaf hash
 *   suite 2   AES-256-CTR (NIST SP 800-38A), first counter block: the first 16 bytes of the leaf hash
 *
 * The leaf hash binds the commitment, and so salt and body. Two payloads that are sealed by one key (a batch that was
 * undone, a restored copy that goes on differently) have different leaves and so different nonces; a counted nonce would
 * not. And what is opened has to come to the commitment, which is a stronger check than a tag: so GCM is opened as the
 * CTR mode that it is (its counter begins at nonce | 2), and the commitment is the tag of suite 2.
 */
import { createCipheriv, createDecipheriv, hash } from 'node:crypto';
export const SUITES = [1, 2];
const TAG_BYTES = 16;
const NONCE_BYTES = 12;
const COUNTER_BYTES = 16;
/**
 * Keys go into a cipher as the strings that they are (key-tree.ts). A key object takes two microseconds more of each event,
 * a Buffer 25. That `encoding` is read for the key is not documented, and Node does so since 2017; one that did not would
 * refuse the key for its length.
 */
const STRING_KEY = { encoding: 'latin1' };
/** The bytes of the tag of a suite. */
export function tagBytes(suite) {
    return suite === 1 ? TAG_BYTES : 0;
}
/**
 * Writes the tag of the suite, if it has one, and behind it the sealed payload, which is as long as `salted`.
 * @param leaf the 32 bytes of the event's leaf hash. @param key of its place (key-tree.ts).
 */
export function seal(suite, key, leaf, salted, target, at) {
    if (suite === 2) {
        const cipher = createCipheriv('aes-256-ctr', key, leaf.subarray(0, COUNTER_BYTES), STRING_KEY);
        target.set(cipher.update(salted), at);
        return;
    }
    const cipher = createCipheriv('aes-256-gcm', key, leaf.subarray(0, NONCE_BYTES), STRING_KEY);
    cipher.setAAD(leaf);
    target.set(cipher.update(salted), at + TAG_BYTES);
    cipher.final();
    target.set(cipher.getAuthTag(), at);
}
/**
 * @param sealed without its tag. @param tag that has to fit too; without it the commitment alone is asked, which is
 *   quicker by a third.
 * @returns salt and body; undefined when they do not come to the commitment: another key, or not what was sealed.
 */
export function open(suite, key, leaf, sealed, commitment, tag) {
    const salted = suite === 1 && tag !== undefined
        ? openByTag(key, leaf, sealed, tag)
        : createDecipheriv('aes-256-ctr', key, firstCounter(suite, leaf), STRING_KEY).update(sealed);
    if (salted === undefined)
        return undefined;
    return hash('sha256', salted, 'binary') === commitment.toString('latin1') ? salted : undefined;
}
function openByTag(key, leaf, sealed, tag) {
    const decipher = createDecipheriv('aes-256-gcm', key, leaf.subarray(0, NONCE_BYTES), STRING_KEY);
    decipher.setAAD(leaf);
    decipher.setAuthTag(tag);
    const salted = decipher.update(sealed);
    try {
        decipher.final();
        return salted;
    }
    catch {
        return undefined;
    }
}
/** Of GCM the first counter is for the tag, the second for the payload. */
function firstCounter(suite, leaf) {
    if (suite === 2)
        return leaf.subarray(0, COUNTER_BYTES);
    leaf.copy(counter, 0, 0, NONCE_BYTES);
    return counter;
}
/** Of GCM; its last number stays. */
const counter = Buffer.alloc(COUNTER_BYTES);
counter[COUNTER_BYTES - 1] = 2;
//# sourceMappingURL=sealing.js.map