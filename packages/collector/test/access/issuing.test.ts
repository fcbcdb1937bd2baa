import { EVENT_KINDS } from '@clinical-events/protocol';
import { describe, expect, test } from 'vitest';
import { createKey, ensureFirstKey, type Grants, keyState, rotateKey } from '../../src/access/issuing.js';
import { KeyRing } from '../../src/access/key-ring.js';
import type { ApiKey } from '../../src/store/contract/keys.js';
import { openKeys, scratchDirectory } from './scratch-keys.js';
import { Unusable } from '../../src/unusable.js';

const NOW = Date.UTC(2026, 0, 1);
const GRANTS: Grants = {
  organisation: 'ward-7',
  permissions: ['outcome'],
  profile: 'full',
  rateLimit: { perSecond: 5, burst: 9 },
  clientCertificate: 'uri:spiffe://example.org/ward-7',
  expiresAt: NOW + 10_000,
  note: 'first',
};

async function rowOf(store: ReturnType<typeof openKeys>, keyId: string): Promise<ApiKey | undefined> {
  return (await store.list()).find((key) => key.keyId === keyId);
}

describe('creating', () => {
  test('[R-503] stores the grants and nothing of the secret', async () => {
    const store = openKeys();
    const { text, key } = await createKey(store, GRANTS, NOW);
    expect(await store.list()).toEqual([{ ...key, hash: new Uint8Array(key.hash) }]);
    expect(key).toMatchObject({ ...GRANTS, createdAt: NOW, revokedAt: undefined, replacedBy: undefined });
    expect(JSON.stringify(await store.list())).not.toContain(text.slice(17));
  });

  test.each<[string, Partial<Grants>]>([
    ['an organisation with a space', { organisation: 'ward 7' }],
    ['an empty organisation', { organisation: '' }],
    ['an organisation of 65 characters', { organisation: 'x'.repeat(65) }],
    ['no permission', { permissions: [] }],
    ['an expiry at the present time', { expiresAt: NOW }],
    ['a certificate name with an upper-case letter', { clientCertificate: 'dns:App.example.org' }],
    ['a note of 201 characters', { note: 'x'.repeat(201) }],
    ['a note that moves the cursor', { note: 'good\u001b[1A' }],
    ['a note over two lines', { note: 'a\nb' }],
  ])('refuses %s and stores nothing', async (_, wrong) => {
    const store = openKeys();
    await expect(createKey(store, { ...GRANTS, ...wrong }, NOW)).rejects.toThrow(Unusable);
    expect(await store.list()).toEqual([]);
  });
});

describe('rotating', () => {
  test('gives the new key the grants of the old one, and the old one the time of the overlap', async () => {
    const store = openKeys();
    const { key: old } = await createKey(store, GRANTS, NOW);
    const rotated = await rotateKey(store, old.keyId, 4000, NOW + 1000);
    if (typeof rotated === 'string') throw new Error(rotated);
    expect(rotated.key).toMatchObject({ ...GRANTS, createdAt: NOW + 1000, rotatedFrom: old.keyId });
    expect(await rowOf(store, old.keyId)).toMatchObject({
      expiresAt: NOW + 5000,
      replacedBy: rotated.key.keyId,
    });
  });

  test('without overlap ends the old key immediately', async () => {
    const store = openKeys();
    const { key: old, text } = await createKey(store, { ...GRANTS, expiresAt: undefined }, NOW);
    await rotateKey(store, old.keyId, 0, NOW + 1);
    const ring = await KeyRing.open(store);
    expect(ring.authenticate(text, NOW + 1)).toBe('key_expired');
  });

  test('is refused for keys that are unknown, revoked, expired or rotated before, and changes nothing', async () => {
    const store = openKeys();
    expect(await rotateKey(store, 'aaaaaaaaaaaa', 0, NOW)).toBe('unknown');
    const [revoked, expired, replaced] = await Promise.all(
      [1, 2, 3].map(() => createKey(store, GRANTS, NOW)),
    );
    await store.revoke(revoked?.key.keyId ?? '', NOW);
    await rotateKey(store, replaced?.key.keyId ?? '', 5000, NOW);
    const before = await store.list();
    expect(await rotateKey(store, revoked?.key.keyId ?? '', 0, NOW)).toBe('revoked');
    expect(await rotateKey(store, expired?.key.keyId ?? '', 0, NOW + 10_000)).toBe('expired');
    expect(await rotateKey(store, replaced?.key.keyId ?? '', 0, NOW)).toBe('replaced');
    expect(await store.list()).toEqual(before);
  });

  test('twice at once makes one successor', async () => {
    const dataDir = scratchDirectory();
    const [one, other] = [openKeys(dataDir), openKeys(dataDir)];
    const { key } = await createKey(one, GRANTS, NOW);
    const results = await Promise.all([one, other].map((store) => rotateKey(store, key.keyId, 0, NOW)));
    expect(results.filter((result) => typeof result === 'object')).toHaveLength(1);
    expect(await one.list()).toHaveLength(2);
  });
});

test('a key is active, then replaced, then expired, and revoked in any case', async () => {
  const store = openKeys();
  const { key } = await createKey(store, GRANTS, NOW);
  const expiresAt = NOW + 10_000;
  expect(keyState(key, expiresAt - 1)).toBe('active');
  expect(keyState({ ...key, replacedBy: 'x' }, expiresAt - 1)).toBe('replaced');
  expect(keyState({ ...key, replacedBy: 'x' }, expiresAt)).toBe('expired');
  expect(keyState({ ...key, replacedBy: 'x', revokedAt: NOW }, NOW)).toBe('revoked');
});

describe('the first key', () => {
  const seen = (): { texts: string[]; show: (text: string) => Promise<boolean> } => {
    const texts: string[] = [];
    return { texts, show: (text) => Promise.resolve(texts.push(text) > 0) };
  };

  test('[R-505] is made in an empty store, for the organisation "default", with all permissions', async () => {
    const store = openKeys();
    const { texts, show } = seen();
    expect(await ensureFirstKey(store, show, NOW)).toBe('made');
    const ring = await KeyRing.open(store);
    const principal = ring.authenticate(texts[0], NOW);
    if (typeof principal === 'string') throw new Error(principal);
    expect(principal.organisation).toBe('default');
    expect(EVENT_KINDS.every((kind) => principal.may(kind))).toBe(true);
  });

  test('[R-505] is stored only after it was shown, and not if it could not be', async () => {
    const store = openKeys();
    const stored: number[] = [];
    const show = async (taken: boolean) => {
      stored.push((await store.list()).length);
      return taken;
    };
    expect(await ensureFirstKey(store, () => show(false), NOW)).toBe('unseen');
    expect(await store.list()).toEqual([]);
    expect(await ensureFirstKey(store, () => show(true), NOW)).toBe('made');
    expect(stored).toEqual([0, 0]);
  });

  test('is not made again, not even when all keys are revoked', async () => {
    const store = openKeys();
    const { key } = await createKey(store, GRANTS, NOW);
    await store.revoke(key.keyId, NOW);
    const { texts, show } = seen();
    expect(await ensureFirstKey(store, show, NOW)).toBe('present');
    expect(texts).toEqual([]);
    expect(await store.list()).toHaveLength(1);
  });

  test('is the only one, also when two collectors ask for it at once', async () => {
    const dataDir = scratchDirectory();
    const { show } = seen();
    const made = await Promise.all(
      [openKeys(dataDir), openKeys(dataDir)].map((store) => ensureFirstKey(store, show, NOW)),
    );
    expect(made.toSorted()).toEqual(['made', 'overtaken']);
    expect(await openKeys(dataDir).list()).toHaveLength(1);
  });
});
