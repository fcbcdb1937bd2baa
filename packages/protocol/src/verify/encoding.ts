/**
 * Base 64 of RFC 4648 section 4, strict: padded, without other characters, unused bits zero. Bytes therefore
 * have one spelling, and any change of a proof changes its meaning.
 *
 * Hand-written, because `atob` accepts white space, missing padding and unused bits, and `Buffer` exists only
 * in Node.
 */
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const NO_DIGIT = 64;

function digitTable(): Uint8Array {
  const table = new Uint8Array(128).fill(NO_DIGIT);
  for (let digit = 0; digit < ALPHABET.length; digit++) table[ALPHABET.charCodeAt(digit)] = digit;
  return table;
}

const DIGITS = digitTable();

export function encodeBase64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const left = bytes.length - at;
    const group = ((bytes[at] ?? 0) << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
    text += ALPHABET.charAt(group >>> 18) + ALPHABET.charAt((group >>> 12) & 63);
    text += left > 1 ? ALPHABET.charAt((group >>> 6) & 63) : '=';
    text += left > 2 ? ALPHABET.charAt(group & 63) : '=';
  }
  return text;
}

/** @returns the bytes; undefined for a text that `encodeBase64` does not produce. */
export function decodeBase64(text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0) return undefined;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const digits = text.length - padding;
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  let bits = 0;
  let held = 0;
  let written = 0;
  for (let at = 0; at < digits; at++) {
    const digit = DIGITS[text.charCodeAt(at)] ?? NO_DIGIT;
    if (digit === NO_DIGIT) return undefined;
    bits = ((bits << 6) | digit) & 0xffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes[written++] = bits >>> held;
    }
  }
  const leftOver = bits & ((1 << held) - 1);
  return leftOver === 0 ? bytes : undefined;
}

const DECIMAL = /^(?:0|[1-9][0-9]{0,15})$/;

/**
 * A whole number in the form of C2SP: ASCII digits without leading zeros.
 * @returns undefined for any other text, and for a number above 2^53 - 1, which a double may not hold
 *   exactly.
 */
export function parseDecimal(text: string): number | undefined {
  if (!DECIMAL.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}
