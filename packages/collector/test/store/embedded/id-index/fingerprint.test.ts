import { describe, expect, test } from 'vitest';
import { Fingerprint, randomKey } from '../../../../src/store/embedded/id-index/sorted-run-format.js';
import { idOf } from './sample-log.js';

describe('the fingerprint', () => {
  test.each([
    [0, 'c83cb8b9591f8d21'],
    [15, '2c9814ecb0b7d21'],
    [16, 'b5f37b5fd2aa3673'],
  ])('is HalfSipHash-2-4-64 by the reference vector of %i bytes', (length, vector) => {
    const key = { k0: 0x0302_0100, k1: 0x0706_0504 };
    const fingerprint = new Fingerprint(key);
    fingerprint.hash(
      key,
      Uint8Array.from({ length: 64 }, (_, i) => i),
      0,
      length,
    );
    const value = (BigInt(fingerprint.hi) << 32n) | BigInt(fingerprint.lo);
    expect(value.toString(16)).toBe(vector);
  });

  test('reads exactly the 16 bytes at the offset', () => {
    const fingerprint = new Fingerprint(randomKey());
    const frame = new Uint8Array(40).fill(0xff);
    frame.set(idOf(7), 11);
    fingerprint.of('organisation', frame, 11);
    const inFrame = [fingerprint.hi, fingerprint.lo];
    fingerprint.of('organisation', idOf(7), 0);
    expect(inFrame).toEqual([fingerprint.hi, fingerprint.lo]);
    expect(() => fingerprint.of('organisation', frame, 25)).toThrow(RangeError);
  });

  test('differs between organisations, and stays the same in any order', () => {
    const fingerprint = new Fingerprint(randomKey());
    const seen = new Map<string, string>();
    for (const round of [1, 2]) {
      for (let i = 0; i < 5000; i++) {
        const organisation = `organisation ${i}`;
        fingerprint.of(organisation, idOf(1), 0);
        const value = `${fingerprint.hi}/${fingerprint.lo}`;
        if (round === 1) seen.set(organisation, value);
        else expect(value).toBe(seen.get(organisation));
      }
    }
    expect(new Set(seen.values()).size).toBe(5000);
  });
});
