/**
 * The text of an API key, the only form in which it ever leaves the collector:
 *
 *     cek_ <key id: 12 of a-z 2-7> _ <secret: 43 of A-Z a-z 0-9, 256 bits>
 *
 * The key id is public: it stands in logs, in the ledger and in `collector keys list`. The prefix lets secret
 * scanners recognise a key that was committed somewhere by mistake. A double click selects the whole secret, which
 * `-` would cut in two; keys made before this rule have it and `_` in their secret, and stay valid.
 */
import { hash, randomBytes, randomInt } from 'node:crypto';

const PREFIX = 'cek_';
const KEY_ID_LENGTH = 12;
/** The alphabet of base32 (RFC 4648 section 6) in lower case: no two of its characters look alike. */
const KEY_ID_ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const KEY_ID = /^[a-z2-7]{12}$/;
const SECRET_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
/** The least with 256 bits: 62^43 > 2^256. */
const SECRET_LENGTH = 43;
const KEY_TEXT = /^cek_[a-z2-7]{12}_[A-Za-z0-9_-]{43}$/;

/** Every key text has this many characters. */
export const KEY_TEXT_LENGTH = 60;

/** A new key id: 60 random bits. */
export function newKeyId(): string {
  return Array.from(randomBytes(KEY_ID_LENGTH), (byte) => KEY_ID_ALPHABET.charAt(byte & 31)).join('');
}

/** @returns the text of a new key with this id and a fresh 256-bit secret. */
export function newKeyText(keyId: string): string {
  const secret = Array.from({ length: SECRET_LENGTH }, () => SECRET_ALPHABET.charAt(randomInt(62)));
  return `${PREFIX}${keyId}_${secret.join('')}`;
}

/** Whether this could be a key id. */
export function isKeyId(text: string): boolean {
  return KEY_ID.test(text);
}

/**
 * @returns the key id when the text has the form of a key, else undefined. Says nothing of whether there is such
 *   a key. The cost does not grow with the length of the text.
 */
export function keyIdOf(text: string): string | undefined {
  if (text.length !== KEY_TEXT_LENGTH || !KEY_TEXT.test(text)) return undefined;
  return text.slice(PREFIX.length, PREFIX.length + KEY_ID_LENGTH);
}

/**
 * What is stored instead of the key: SHA-256 of its whole text, 32 bytes. A slow password hash would protect
 * nothing more: a secret of 256 random bits cannot be guessed at any speed.
 */
export function hashKeyText(text: string): Uint8Array {
  return hash('sha256', text, 'buffer');
}
