import { describe, expect, test } from 'vitest';
import { Fingerprint, randomKey } from '../../../../src/store/embedded/id-index/sorted-run-format.js';
import { idOf } from './sample-log.js';

const SAMPLES = 1 << 16;

/** Chi-square over 256 equal classes, as its distance from the mean in standard deviations. */
function skew(classOf: (sample: number) => number): number {
  const counts = new Uint32Array(256);
  for (let sample = 0; sample < SAMPLES; sample++) {
    const at = classOf(sample);
    counts[at] = (counts[at] ?? 0) + 1;
  }
  const expected = SAMPLES / 256;
  const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  return (chiSquare - 255) / Math.sqrt(2 * 255);
}

/** The first 48 bits of a version 7 id are milliseconds; here 1,000 ids share each and the rest counts up. */
function version7(number: number): Uint8Array {
  const id = idOf(number % 1000);
  new DataView(id.buffer).setBigUint64(0, (BigInt(1.76e12 + Math.floor(number / 1000)) << 16n) | 0x7000n);
  return id;
}

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

  test('keeps organisations apart, and remembers them in any order', () => {
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

  test('differs under another key, so no one who lacks it can aim', () => {
    const [a, b] = [new Fingerprint(randomKey()), new Fingerprint(randomKey())];
    a.of('organisation', idOf(1), 0);
    b.of('organisation', idOf(1), 0);
    expect([a.hi, a.lo]).not.toEqual([b.hi, b.lo]);
  });

  test.each([
    ['counters', idOf],
    ['version 7 ids', version7],
  ])('spreads %s evenly over every byte', (_, id) => {
    const fingerprint = new Fingerprint(randomKey());
    for (const half of ['hi', 'lo'] as const) {
      for (const shift of [0, 8, 16, 24]) {
        const distance = skew((sample) => {
          fingerprint.of('organisation', id(sample), 0);
          return (fingerprint[half] >>> shift) & 0xff;
        });
        // Even for a true random function one draw in 10^9 lies further out.
        expect(Math.abs(distance)).toBeLessThan(7);
      }
    }
  });
});
