import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isKeyId, KEY_TEXT_LENGTH, keyIdOf, newKeyId, newKeyText } from '../../src/access/key-ring.js';

test('[R-502] a new key has the documented form, and its id can be read from it', () => {
  for (let i = 0; i < 1000; i++) {
    const keyId = newKeyId();
    const text = newKeyText(keyId);
    expect(isKeyId(keyId)).toBe(true);
    expect(text).toMatch(/^cek_[a-z2-7]{12}_[A-Za-z0-9]{43}$/);
    expect(text).toHaveLength(KEY_TEXT_LENGTH);
    expect(keyIdOf(text)).toBe(keyId);
  }
});

test('[R-502] a secret has 256 bits: each of its characters is any of 62', () => {
  const places = Array.from({ length: 43 }, () => new Set<string>());
  for (let i = 0; i < 2000; i++) {
    const secret = newKeyText(newKeyId()).slice(17);
    for (const [place, seen] of places.entries()) seen.add(secret.charAt(place));
  }
  expect(places.map(({ size }) => size)).toEqual(places.map(() => 62));
  expect(62n ** 43n).toBeGreaterThan(2n ** 256n);
});

test('[R-502] a key with - and _ in its secret, as earlier versions made them, is still valid', () => {
  expect(keyIdOf(`cek_abcdefghijkl_${'Ab-_9'.repeat(9).slice(0, 43)}`)).toBe('abcdefghijkl');
});

test('text that is not a key has no key id', () => {
  const text = newKeyText(newKeyId());
  for (const near of [
    '',
    text.slice(1),
    `${text}x`,
    `x${text}`,
    text.toUpperCase(),
    `${text.slice(0, -1)}=`,
    ` ${text.slice(1)}`,
  ]) {
    expect(keyIdOf(near)).toBeUndefined();
  }
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (any) => keyIdOf(any) === undefined));
  fc.assert(
    fc.property(
      fc.nat(KEY_TEXT_LENGTH - 1),
      fc.constantFrom('\0', ' ', '\n', ',', 'é', '𝟘'),
      (place, foreign) => {
        const changed = text.slice(0, place) + foreign + text.slice(place + foreign.length);
        return keyIdOf(changed) === undefined;
      },
    ),
  );
});
