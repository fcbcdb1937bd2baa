import { SALT_BYTES } from '@clinical-events/protocol';
import { expect, test } from 'vitest';
import { fillSalt } from '../../src/ledger/salt.js';

test('[R-902] every event gets a salt of its own, and nothing but the salt is written', () => {
  const seen = new Set<string>();
  const target = Buffer.alloc(SALT_BYTES + 8, 0xa5);
  for (let i = 0; i < 10_000; i++) {
    fillSalt(target);
    seen.add(target.toString('hex', 0, SALT_BYTES));
  }
  expect(seen.size).toBe(10_000);
  expect(target.subarray(SALT_BYTES).equals(Buffer.alloc(8, 0xa5))).toBe(true);
});
