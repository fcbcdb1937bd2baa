/**
 * Encrypts the names in derived files so that the same name gives the same bytes and can be looked for: a synthetic IV
 * (Rogaway, Shrimpton, Deterministic Authenticated-Encryption, EUROCRYPT 2006) of HMAC-SHA-256, then AES-256-CTR.
 * Who has the file and not the key sees which rows have the same name, and how long it is.
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

/** Digits of the number of a names key, with which its id begins. */
const NUMBER_DIGITS = 10;

/** Whether a names key was made later than another one. @param id of its cipher. */
export function isLater(id: string, than: string): boolean {
  return id.slice(0, NUMBER_DIGITS) > than.slice(0, NUMBER_DIGITS);
}

/** How names stand in a derived file. */
export interface NameCipher {
  /** The number of the key and eight bytes that it gives; the same for the same key. Tells nothing else of it. */
  readonly id: string;
  seal(name: string): Buffer;
  /** Undefined for what this key has not made. */
  open(sealed: Uint8Array): string | undefined;
}

export class SyntheticIv implements NameCipher {
  readonly id: string;
  readonly #mac: KeyObject;
  readonly #cipher: KeyObject;

  /** @param key of 32 bytes. @param number counts up with each names key of a log. */
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
