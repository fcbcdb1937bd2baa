/**
 * Encryption of the spool by AES-256-GCM (NIST SP 800-38D). Each segment has its own key, derived by
 * HKDF-SHA256 (RFC 5869) from the given key and the segment id, so the number of a frame is a sufficient
 * nonce.
 */
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

export const KEY_BYTES = 32;
export const TAG_BYTES = 16;
export const KEY_CHECK_BYTES = 16;
const NONCE_BYTES = 12;

export class Seal {
  /** Shows whether a key is the right one, and reveals nothing about it. */
  readonly check: Buffer;
  /** With a Buffer in place of a KeyObject, Node takes 25 µs more for each frame. */
  readonly #key: KeyObject;

  /** @param identity unique to this seal. */
  constructor(key: Uint8Array, purpose: string, identity: Uint8Array) {
    const derived = Buffer.from(hkdfSync('sha256', key, identity, purpose, KEY_BYTES + KEY_CHECK_BYTES));
    this.#key = createSecretKey(derived.subarray(0, KEY_BYTES));
    this.check = derived.subarray(KEY_BYTES);
  }

  /**
   * Writes ciphertext and tag into `target` at `offset`: TAG_BYTES more than `plain`.
   * @param nonce 12 bytes, used once with this seal.
   * @param header additional authenticated data.
   */
  sealInto(target: Buffer, offset: number, nonce: Uint8Array, header: Uint8Array, plain: Uint8Array): void {
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    cipher.setAAD(header);
    target.set(cipher.update(plain), offset);
    cipher.final();
    target.set(cipher.getAuthTag(), offset + plain.length);
  }

  /** @returns undefined if key, nonce or header differ, or the bytes were changed. */
  open(nonce: Uint8Array, header: Uint8Array, sealed: Uint8Array): Buffer | undefined {
    if (sealed.length < TAG_BYTES) return undefined;
    const end = sealed.length - TAG_BYTES;
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(header).setAuthTag(sealed.subarray(end));
    const plain = decipher.update(sealed.subarray(0, end));
    try {
      decipher.final();
      return plain;
    } catch {
      return undefined;
    }
  }
}

const TEXT_PURPOSE = 'clinical-events spool text 1';
const IDENTITY_BYTES = 32;
const NO_HEADER = Buffer.alloc(0);
const ZERO_NONCE = Buffer.alloc(NONCE_BYTES);

/**
 * Encrypts a line of the quarantine: 32 random bytes, from which its key is derived, then ciphertext and tag.
 */
export function sealText(key: Uint8Array, text: string): Buffer {
  const plain = Buffer.from(text);
  const sealed = Buffer.alloc(IDENTITY_BYTES + plain.length + TAG_BYTES);
  const identity = randomBytes(IDENTITY_BYTES);
  identity.copy(sealed);
  new Seal(key, TEXT_PURPOSE, identity).sealInto(sealed, IDENTITY_BYTES, ZERO_NONCE, NO_HEADER, plain);
  return sealed;
}

/** @returns undefined if the key is another one, or the bytes were changed. */
export function openText(key: Uint8Array, sealed: Uint8Array): string | undefined {
  const seal = new Seal(key, TEXT_PURPOSE, sealed.subarray(0, IDENTITY_BYTES));
  return seal.open(ZERO_NONCE, NO_HEADER, sealed.subarray(IDENTITY_BYTES))?.toString();
}
