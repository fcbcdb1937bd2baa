import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { open, seal, SUITES, tagBytes } from '../../src/privacy/sealing.js';

const KEY = randomBytes(32);
const LEAF = randomBytes(32);

function sealed(suite: 1 | 2, salted: Buffer, leaf = LEAF, key = KEY): Buffer {
  const target = Buffer.alloc(tagBytes(suite) + salted.length);
  seal(suite, key.toString('latin1'), leaf, salted, target, 0);
  return target;
}

describe.each(SUITES)('[R-1320] suite %i', (suite) => {
  test.each([16, 17, 300, 1216, 70_000])('opens its own output: %i bytes', (length) => {
    const salted = randomBytes(length);
    const bytes = sealed(suite, salted);
    const body = bytes.subarray(tagBytes(suite));
    const opened = open(suite, KEY.toString('latin1'), LEAF, body, hash('sha256', salted, 'buffer'));
    expect(opened?.equals(salted)).toBe(true);
    expect(bytes.includes(salted.subarray(0, 16))).toBe(false);
  });

  test('opens nothing with another key or leaf, or against another commitment', () => {
    const salted = randomBytes(100);
    const body = sealed(suite, salted).subarray(tagBytes(suite));
    const commitment = hash('sha256', salted, 'buffer');
    const key = KEY.toString('latin1');
    expect(open(suite, randomBytes(32).toString('latin1'), LEAF, body, commitment)).toBeUndefined();
    expect(open(suite, key, randomBytes(32), body, commitment)).toBeUndefined();
    expect(open(suite, key, LEAF, body.subarray(1), commitment)).toBeUndefined();
    expect(open(suite, key, LEAF, body, randomBytes(32))).toBeUndefined();
    for (let i = 0; i < body.length; i++) {
      const changed = Buffer.from(body);
      changed[i] = (changed[i] ?? 0) ^ 1;
      expect(open(suite, key, LEAF, changed, commitment)).toBeUndefined();
    }
  });

  test('two payloads under one key share no key stream', () => {
    const zeros = Buffer.alloc(64);
    expect(sealed(suite, zeros).equals(sealed(suite, zeros, randomBytes(32)))).toBe(false);
  });
});

test('[R-1320] suite 1 is AES-256-GCM with the leaf as nonce and associated data', () => {
  const salted = randomBytes(200);
  const bytes = sealed(1, salted);
  const decipher = createDecipheriv('aes-256-gcm', KEY, LEAF.subarray(0, 12));
  decipher.setAAD(LEAF);
  decipher.setAuthTag(bytes.subarray(0, 16));
  expect(Buffer.concat([decipher.update(bytes.subarray(16)), decipher.final()])).toEqual(salted);
});

test('[R-1320] suite 2 is AES-256-CTR from the leaf on', () => {
  const salted = randomBytes(200);
  const cipher = createCipheriv('aes-256-ctr', KEY, LEAF.subarray(0, 16));
  expect(sealed(2, salted)).toEqual(cipher.update(salted));
});
