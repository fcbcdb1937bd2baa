/**
 * Sealing what is written, by AES-256-GCM (NIST SP 800-38D). Each segment has a key of its own, derived by HKDF-SHA256
 * (RFC 5869) from the key that the host gives and from the whole of the segment's identity, which is drawn at random:
 * a number that no other frame of the segment has is then all that a nonce needs, and a header that was changed opens
 * nothing.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

export const KEY_BYTES = 32;
export const TAG_BYTES = 16;
export const KEY_CHECK_BYTES = 16;
const NONCE_BYTES = 12;

export class Seal {
  /** Tells whether a key is the right one, and nothing of the key. */
  readonly check: Buffer;
  readonly #key: Buffer;

  /** @param identity what no two keys are derived from twice; any length. */
  constructor(key: Uint8Array, purpose: string, identity: Uint8Array) {
    const derived = Buffer.from(hkdfSync('sha256', key, identity, purpose, KEY_BYTES + KEY_CHECK_BYTES));
    this.#key = derived.subarray(0, KEY_BYTES);
    this.check = derived.subarray(KEY_BYTES);
  }

  /**
   * Writes the ciphertext and its tag into `target` at `offset`: TAG_BYTES more than `plain` has.
   * @param nonce 12 bytes, never used before with this seal.
   * @param header authenticated with it.
   */
  sealInto(target: Buffer, offset: number, nonce: Uint8Array, header: Uint8Array, plain: Uint8Array): void {
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    cipher.setAAD(header);
    target.set(cipher.update(plain), offset);
    cipher.final();
    target.set(cipher.getAuthTag(), offset + plain.length);
  }

  /** @returns undefined when it was not sealed by this key with this nonce and header, or was changed since. */
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

const NO_HEADER = Buffer.alloc(0);
const TEXT_PURPOSE = 'clinical-events spool text 1';

/** Seals one text by itself, under 32 random bytes that stand in front of it: for lines, which are few. */
export function sealText(key: Uint8Array, text: string): Buffer {
  const identity = randomBytes(32);
  const plain = Buffer.from(text);
  const sealed = Buffer.alloc(identity.length + plain.length + TAG_BYTES);
  identity.copy(sealed);
  new Seal(key, TEXT_PURPOSE, identity).sealInto(
    sealed,
    identity.length,
    Buffer.alloc(NONCE_BYTES),
    NO_HEADER,
    plain,
  );
  return sealed;
}

/** @returns undefined when it was not sealed by this key, or was changed since. */
export function openText(key: Uint8Array, sealed: Uint8Array): string | undefined {
  const seal = new Seal(key, TEXT_PURPOSE, sealed.subarray(0, 32));
  return seal.open(Buffer.alloc(NONCE_BYTES), NO_HEADER, sealed.subarray(32))?.toString();
}
