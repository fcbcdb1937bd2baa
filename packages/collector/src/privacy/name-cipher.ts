/**
 * Encrypts names in derived files deterministically, so that they can be searched: a synthetic IV (Rogaway,
 * Shrimpton, Deterministic Authenticated-Encryption, EUROCRYPT 2006) of HMAC-SHA-256, then AES-256-CTR. The
 * file without the key reveals which rows have equal names, and their lengths.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hash,
  type KeyObject,
} from 'node:crypto';

const IV_BYTES = 16;

/** Digits of the number of a names key, at the beginning of its id. */
const NUMBER_DIGITS = 10;

/** Whether a names key is newer than another one, by the ids of their ciphers. */
export function isLater(id: string, than: string): boolean {
  return id.slice(0, NUMBER_DIGITS) > than.slice(0, NUMBER_DIGITS);
}

/** A cipher for names in derived files. */
export interface NameCipher {
  /** The number of the key and eight bytes derived from it, which reveal nothing else about the key. */
  readonly id: string;
  seal(name: string): Buffer;
  /** @returns undefined if the bytes were not sealed by this key. */
  open(sealed: Uint8Array): string | undefined;
}

export class SyntheticIv implements NameCipher {
  readonly id: string;
  readonly #mac: KeyObject;
  readonly #cipher: KeyObject;

  /** @param key 32 bytes. @param number number of the names key in its log. */
  constructor(key: Buffer, number = 1) {
    const derive = (purpose: string) =>
      hash('sha256', Buffer.concat([Buffer.from(`clinical-events names ${purpose}\0`), key]), 'buffer');
    this.#mac = createSecretKey(derive('mac'));
    this.#cipher = createSecretKey(derive('cipher'));
    this.id = `${String(number).padStart(NUMBER_DIGITS, '0')}-${derive('id').toString('hex', 0, 8)}`;
  }

  seal(name: string): Buffer {
    const text = Buffer.from(name);
    const iv = this.#ivOf(text);
    return Buffer.concat([iv, createCipheriv('aes-256-ctr', this.#cipher, iv).update(text)]);
  }

  open(sealed: Uint8Array): string | undefined {
    if (sealed.length < IV_BYTES) return undefined;
    const iv = sealed.subarray(0, IV_BYTES);
    const text = createDecipheriv('aes-256-ctr', this.#cipher, iv).update(sealed.subarray(IV_BYTES));
    return this.#ivOf(text).equals(iv) ? text.toString() : undefined;
  }

  #ivOf(text: Buffer): Buffer {
    return createHmac('sha256', this.#mac).update(text).digest().subarray(0, IV_BYTES);
  }
}
