import { expect, test } from 'vitest';
import type { KeyUse } from '../../src/access/key-ring.js';
import { MOST_KEYS, shownKeys } from '../../src/operate/snapshot.js';

function use(number: number, revoked: boolean): KeyUse {
  const key = { keyId: String(number), revokedAt: revoked ? 1 : undefined, expiresAt: undefined };
  return { key: key as unknown as KeyUse['key'], lastUsedAt: undefined, uses: 0, overRate: 0 };
}

test('of too many keys those that can be used are shown, and the newest of the others as far as there is room', () => {
  const all = Array.from({ length: 1500 }, (_, i) => use(i, i < 700));
  const shown = shownKeys(all, 0).map(({ keyId }) => Number(keyId));
  expect(shown.length).toBe(MOST_KEYS);
  expect(shown.slice(0, 800)).toEqual(Array.from({ length: 800 }, (_, i) => 700 + i));
  expect(shown.slice(800)).toEqual(Array.from({ length: 200 }, (_, i) => 500 + i));
  const usable = Array.from({ length: 1500 }, (_, i) => use(i, false));
  expect(shownKeys(usable, 0).map(({ keyId }) => Number(keyId))).toEqual(
    Array.from({ length: MOST_KEYS }, (_, i) => i),
  );
});
