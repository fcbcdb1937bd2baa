import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_KINDS } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createKey, type Grants, rotateKey } from '../../src/access/issuing.js';
import { KeyRing, type KeyRingOptions, newKeyId, newKeyText } from '../../src/access/key-ring.js';
import { Principal } from '../../src/access/principal.js';
import type { KeyStore } from '../../src/store/contract/keys.js';
import { openKeys, scratchDirectory } from './scratch-keys.js';

const NOW = Date.UTC(2026, 0, 1);
const ALL: Grants = { organisation: 'ward-7', permissions: 'all' };

async function ringWith(grants: Grants = ALL, options: KeyRingOptions = {}) {
  const store = openKeys();
  const issued = await createKey(store, grants, NOW);
  const ring = await KeyRing.open(store, options);
  return { store, ring, ...issued };
}

function accepted(answer: Principal | string): Principal {
  expect(answer).toBeInstanceOf(Principal);
  return answer as Principal;
}

describe('an answer', () => {
  test('is the principal of a valid key, the same one each time', async () => {
    const { ring, text, key } = await ringWith({
      ...ALL,
      permissions: ['outcome', 'human-output'],
      profile: 'full',
      rateLimit: { perSecond: 1, burst: 1 },
    });
    const principal = accepted(ring.authenticate(text, NOW));
    expect(principal).toMatchObject({ organisation: 'ward-7', keyId: key.keyId, profile: 'full' });
    expect(EVENT_KINDS.filter((kind) => principal.may(kind))).toEqual(['human-output', 'outcome']);
    expect([principal.bucket?.take(0), principal.bucket?.take(0)]).toEqual([0, 1]);
    expect(ring.authenticate(text, NOW)).toBe(principal);
  });

  test('is key_missing when no key or an empty one is presented', async () => {
    const { ring } = await ringWith();
    expect(ring.authenticate(undefined, NOW)).toBe('key_missing');
    expect(ring.authenticate('', NOW)).toBe('key_missing');
  });

  test('[R-404] is key_invalid for an unknown key, and for a known id with a wrong secret', async () => {
    const { ring, key } = await ringWith();
    expect(ring.authenticate(newKeyText(newKeyId()), NOW)).toBe('key_invalid');
    expect(ring.authenticate(newKeyText(key.keyId), NOW)).toBe('key_invalid');
  });

  test('is key_invalid for a wrong secret, also when that key has expired or was revoked', async () => {
    const { store, ring, key } = await ringWith({ ...ALL, expiresAt: NOW + 1 });
    expect(ring.authenticate(newKeyText(key.keyId), NOW + 2)).toBe('key_invalid');
    await store.revoke(key.keyId, NOW);
    await ring.refresh();
    expect(ring.authenticate(newKeyText(key.keyId), NOW)).toBe('key_invalid');
  });

  test('is key_invalid for any text that does not have the form of a key', async () => {
    const { ring, text } = await ringWith();
    for (const near of [` ${text}`, `${text} `, `${text}, ${text}`, text.slice(0, -1), text.toUpperCase()]) {
      expect(ring.authenticate(near, NOW)).toBe('key_invalid');
    }
    fc.assert(
      fc.property(
        fc.string({ minLength: 1, unit: 'binary' }),
        (any) => ring.authenticate(any, NOW) === 'key_invalid',
      ),
    );
  });

  test('to a huge key costs no more than to a short one', async () => {
    const { ring } = await ringWith();
    const huge = `cek_${'a'.repeat(50_000_000)}`;
    // To hash it so often would take longer than a test may.
    for (let i = 0; i < 10_000; i++) expect(ring.authenticate(huge, NOW)).toBe('key_invalid');
  });

  test('is key_expired from the instant of expiry on, and not a millisecond earlier', async () => {
    const { ring, text } = await ringWith({ ...ALL, expiresAt: NOW + 1000 });
    accepted(ring.authenticate(text, NOW + 999));
    expect(ring.authenticate(text, NOW + 1000)).toBe('key_expired');
    // A clock that is set back makes the key valid again: expiry is a matter of the clock.
    accepted(ring.authenticate(text, NOW + 999));
  });

  test('is key_revoked for a revoked key, whatever the clock says, and rather than key_expired', async () => {
    const { store, ring, text, key } = await ringWith({ ...ALL, expiresAt: NOW + 1000 });
    await store.revoke(key.keyId, NOW);
    await ring.refresh();
    for (const now of [NOW - 1000, NOW, NOW + 5000]) expect(ring.authenticate(text, now)).toBe('key_revoked');
  });
});

describe('a refresh', () => {
  test('keeps the principal, and so the bucket, of a key whose grants are the same', async () => {
    const { store, ring, text, key } = await ringWith({ ...ALL, rateLimit: { perSecond: 1, burst: 1 } });
    const before = accepted(ring.authenticate(text, NOW));
    expect(before.bucket?.take(0)).toBe(0);
    await rotateKey(store, key.keyId, 60_000, NOW);
    await ring.refresh();
    expect(ring.authenticate(text, NOW)).toBe(before);
    expect(before.bucket?.take(0)).toBe(1);
    expect(ring.authenticate(text, NOW + 60_000)).toBe('key_expired');
  });

  test('replaces the principal when the grants have changed', async () => {
    const { store, text } = await ringWith();
    let permissions: Grants['permissions'] = 'all';
    let version = 0;
    const changing = new Proxy(store, {
      get: (target, name) => {
        if (name === 'version') return () => Promise.resolve(String(version++));
        if (name === 'list') return async () => (await target.list()).map((row) => ({ ...row, permissions }));
        return Reflect.get(target, name, target) as unknown;
      },
    });
    const ring = await KeyRing.open(changing);
    expect(accepted(ring.authenticate(text, NOW)).may('outcome')).toBe(true);
    permissions = ['human-output'];
    await ring.refresh();
    expect(accepted(ring.authenticate(text, NOW)).may('outcome')).toBe(false);
  });

  test('reads the keys only when the store says that they may have changed', async () => {
    const { store, ring } = await ringWith();
    const list = vi.spyOn(store, 'list');
    await ring.refresh();
    await ring.refresh();
    expect(list).not.toHaveBeenCalled();
    await createKey(store, ALL, NOW);
    await ring.refresh();
    expect(list).toHaveBeenCalledTimes(1);
  });

  test('that fails keeps the keys last read, and reports it once until one succeeds again', async () => {
    const onFailure = vi.fn();
    const onRecovery = vi.fn();
    const { store, ring, text } = await ringWith(ALL, { onFailure, onRecovery });
    const fault = new Error('unreadable');
    const broken = vi.spyOn(store, 'version').mockRejectedValue(fault);
    expect([await ring.refresh(), await ring.refresh()]).toEqual([false, false]);
    expect(onFailure.mock.calls).toEqual([[fault]]);
    accepted(ring.authenticate(text, NOW));
    broken.mockRestore();
    expect([await ring.refresh(), await ring.refresh()]).toEqual([true, true]);
    expect(onRecovery).toHaveBeenCalledTimes(1);
  });

  test('that fails half-way is tried again, although the version stays the same', async () => {
    const { store, ring } = await ringWith();
    const issued = await createKey(store, ALL, NOW);
    vi.spyOn(store, 'list').mockRejectedValueOnce(new Error('unreadable'));
    expect(await ring.refresh()).toBe(false);
    expect(await ring.refresh()).toBe(true);
    accepted(ring.authenticate(issued.text, NOW));
  });

  test('under way when the ring is stopped has ended when stop returns', async () => {
    const { store, ring } = await ringWith();
    let release = (): void => undefined;
    vi.spyOn(store, 'version').mockReturnValue(new Promise((resolve) => (release = () => resolve('x'))));
    let ended = false;
    const refreshing = ring.refresh().then(() => (ended = true));
    const stopping = ring.stop();
    release();
    await stopping;
    expect(ended).toBe(true);
    await refreshing;
  });
});

describe('a look for an unknown key', () => {
  test('[R-504] finds one that was made since the last look', async () => {
    const { store, ring } = await ringWith();
    const { text } = await createKey(store, ALL, NOW);
    expect(ring.authenticate(text, NOW)).toBe('key_invalid');
    await ring.lookAgain();
    accepted(ring.authenticate(text, NOW));
  });

  test('[R-504] does not reuse a look that began before it', async () => {
    const { store, ring } = await ringWith();
    const before = await store.version();
    let answer = (): void => undefined;
    vi.spyOn(store, 'version').mockReturnValueOnce(
      new Promise((resolve) => (answer = () => resolve(before))),
    );
    const begun = ring.refresh();
    const { text } = await createKey(store, ALL, NOW);
    const looked = ring.lookAgain();
    await sleep(40);
    answer();
    await Promise.all([begun, looked]);
    accepted(ring.authenticate(text, NOW));
  });

  test('[R-504] is shared by all who wait, at most 50 times a second, and no one waits for a second one', async () => {
    const { store, ring } = await ringWith();
    const version = vi.spyOn(store, 'version');
    const began = performance.now();
    for (let round = 0; round < 10; round++) {
      const waiting = Array.from({ length: 1000 }, () => ring.lookAgain());
      expect(new Set(waiting).size).toBe(1);
      await Promise.all(waiting);
    }
    expect(version).toHaveBeenCalledTimes(10);
    expect(performance.now() - began).toBeGreaterThan(9 * 19);
  });

  test('that fails refuses as before; after a stop no look is made', async () => {
    const { store, ring, text } = await ringWith();
    const version = vi.spyOn(store, 'version').mockRejectedValueOnce(new Error('unreadable'));
    await ring.lookAgain();
    accepted(ring.authenticate(text, NOW));
    const looking = ring.lookAgain();
    await ring.stop();
    await looking;
    expect(version).toHaveBeenCalledTimes(1);
  });
});

describe('a running ring on the file that another process writes', () => {
  async function follow(): Promise<{ writer: KeyStore; ring: KeyRing }> {
    const dataDir = scratchDirectory();
    const writer = openKeys(dataDir);
    const ring = await KeyRing.open(openKeys(dataDir));
    vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval'] });
    ring.start();
    onTestFinished(async () => {
      await ring.stop();
      vi.useRealTimers();
    });
    return { writer, ring };
  }
  const aSecondLater = () => vi.advanceTimersByTimeAsync(1000);

  test('knows a new key within a second', async () => {
    const { writer, ring } = await follow();
    const { text } = await createKey(writer, ALL, NOW);
    await aSecondLater();
    expect(typeof ring.authenticate(text, NOW)).toBe('object');
  });

  test('[R-504] refuses a revoked key within a second', async () => {
    const { writer, ring } = await follow();
    const { text, key } = await createKey(writer, ALL, NOW);
    await aSecondLater();
    expect(typeof ring.authenticate(text, NOW)).toBe('object');
    await writer.revoke(key.keyId, NOW);
    await aSecondLater();
    expect(ring.authenticate(text, NOW)).toBe('key_revoked');
  });

  test('[R-504] accepts both keys of a rotation during the overlap, and then the new one only', async () => {
    const { writer, ring } = await follow();
    const { text, key } = await createKey(writer, ALL, NOW);
    const successor = await rotateKey(writer, key.keyId, 1000, NOW);
    if (typeof successor === 'string') throw new Error(successor);
    await aSecondLater();
    expect(typeof ring.authenticate(successor.text, NOW)).toBe('object');
    accepted(ring.authenticate(text, NOW + 999));
    expect(ring.authenticate(text, NOW + 1000)).toBe('key_expired');
    accepted(ring.authenticate(successor.text, NOW + 1000));
  });
});

test('the ring records when, and how often, each key was accepted', async () => {
  const { store, ring, text, key } = await ringWith();
  await createKey(store, ALL, NOW);
  await ring.refresh();
  const used = () => [...ring.uses()].map(({ lastUsedAt, uses }) => ({ lastUsedAt, uses }));
  const never = { lastUsedAt: undefined, uses: 0 };
  expect(used()).toEqual([never, never]);
  ring.authenticate(text, NOW + 4);
  ring.authenticate(text, NOW + 5);
  ring.authenticate(newKeyText(key.keyId), NOW + 9);
  expect(used()).toEqual([{ lastUsedAt: NOW + 5, uses: 2 }, never]);
  await ring.refresh();
  expect([...ring.uses()][0]).toMatchObject({ key: { keyId: key.keyId }, uses: 2, overRate: 0 });
});
