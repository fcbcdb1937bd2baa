/** Copies of the keys that were missing or used separately: none is overwritten, forgotten, or taken for destroyed. */
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import type { KeyEncryptionKey } from '../../src/privacy/key-encryption-key.js';
import { epochName, holdName, NAMES } from '../../src/privacy/key-record.js';
import { KeysUnfit, type KeyVault } from '../../src/privacy/key-vault.js';
import { OpenedVault } from '../../src/privacy/opened-vault.js';
import { PayloadKeys } from '../../src/privacy/payload-keys.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { directoryVaults } from './directory-places.js';
import type { VaultCopy, VaultPlace } from './vault-conformance.js';
import { LEDGER, the } from './vault-records.js';

/** Of a test, which needs no secret. */
const kek: KeyEncryptionKey = {
  wrap: (key) => Promise.resolve(Buffer.from(key).reverse().toString('base64')),
  unwrap: (wrapped) => Buffer.from(wrapped, 'base64').reverse(),
};

let place: VaultPlace;
let copies: readonly VaultCopy[];

beforeEach(async () => {
  place = await directoryVaults(3).makePlace();
  copies = place.copies;
});

async function openKeys(vault?: KeyVault): Promise<PayloadKeys> {
  const options = { vault: vault ?? (await place.open()), kek, ledgerId: LEDGER };
  return PayloadKeys.open({ ...options, onTrouble: () => undefined });
}

/** On return these copies do not answer. @returns brings them back. */
async function away(...those: readonly VaultCopy[]): Promise<() => Promise<void>> {
  const backs = await Promise.all(those.map((copy) => copy.leave()));
  return async () => {
    for (const back of backs) await back();
  };
}

describe('[R-1325] copies of the keys', () => {
  test('that were used separately, and each began an epoch, are refused, and none is overwritten', async () => {
    await (await openKeys()).rotate();
    const apart = await directoryVaults(3).makePlace();
    const vault = await apart.open();
    await (await PayloadKeys.open({ vault, kek, ledgerId: LEDGER, onTrouble: () => undefined })).rotate();
    await the(copies[2]).put(epochName(2), await the(apart.copies[2]).get(epochName(2)));
    const records = () => Promise.all(copies.map((copy) => copy.get(epochName(2))));
    const before = await records();
    expect(before[0]).not.toEqual(before[2]);
    await expect(openKeys()).rejects.toThrow(KeysUnfit);
    expect(await records()).toEqual(before);
  });

  test('are repaired from another if any byte of an epoch record has changed in the first', async () => {
    await openKeys();
    const first = the(copies[0]);
    const whole = the(await first.get(epochName(1)));
    for (const member of ['ledger', 'begun', 'generation', 'check', 'wrapped', 'sha256']) {
      const bytes = Buffer.from(whole);
      const at = bytes.indexOf(`"${member}":`) + member.length + 5;
      bytes[at] = bytes[at] === 0x31 ? 0x32 : 0x31;
      await first.put(epochName(1), bytes);
      await openKeys();
      expect((await first.get(epochName(1)))?.toString(), member).toBe(whole.toString());
    }
  });

  test('do not get an ended epoch again from one that was missing when it ended', async () => {
    const keys = await openKeys();
    const third = the(copies[2]);
    const old = await third.get(epochName(1));
    await keys.rotate();
    await third.put(epochName(1), old);
    await openKeys();
    expect(await Promise.all(copies.slice(0, 2).map((copy) => copy.get(epochName(1))))).toEqual([
      undefined,
      undefined,
    ]);
    const again = await openKeys();
    expect(again.isRotating).toBe(true);
    expect(await again.finishRotation()).toEqual([]);
    expect(await third.get(epochName(1))).toBeUndefined();
  });

  test('that do not answer are named where only they may have a hold or a bucket', async () => {
    const keys = await openKeys();
    const action = randomUUID();
    await keys.newHoldKey(action);
    const { tag } = keys.keyFor('a', 1);
    await keys.flush();
    const [first, second, third] = copies.map(the);
    const [bucket = ''] = (await place.open()).list('buckets');
    for (const copy of [first, second])
      for (const name of [holdName(action), bucket]) await the(copy).put(name, undefined);
    const back = await away(the(third));
    const taken = [{ tag, organisation: 'a', sequences: SequenceSet.of([1]) }];
    expect(await keys.destroyHold(action)).toHaveLength(1);
    expect(await keys.destroy(taken)).toHaveLength(1);
    await back();
    expect(await keys.destroyHold(action)).toEqual([]);
    expect(await keys.destroy(taken)).toEqual([]);
    expect(keys.holdKey(action)).toBeUndefined();
    expect(keys.stored.keyOf(tag, 'a', 1)).toBeUndefined();
  });

  test('of a mirror keep the key of a hold that the other keys lack', async () => {
    const keys = await openKeys();
    const action = randomUUID();
    const own = await keys.newHoldKey(action);
    await keys.takeHoldKey(action, { holdKey: () => undefined });
    expect(keys.holdKey(action)?.equals(own)).toBe(true);
  });

  test('get a new names key where all of them have lost it, and none while one cannot be read', async () => {
    const keys = await openKeys();
    const { tag, key } = keys.keyFor('a', 1);
    await keys.flush();
    await keys.renewNames();
    for (const copy of copies.slice(0, 2)) await copy.put(NAMES, undefined);
    const back = await away(the(copies[2]));
    await expect(openKeys()).rejects.toThrow(KeysUnfit);
    await back();
    const numbers = async () =>
      new OpenedVault(await place.open(), kek).namesKeys().map(([number]) => number);
    await openKeys();
    expect(await numbers()).toEqual([1, 2]);
    for (const copy of copies) await copy.put(NAMES, Buffer.from('nothing'));
    const again = await openKeys();
    const [number = 0, ...others] = await numbers();
    expect([number > 2, others]).toEqual([true, []]);
    expect(again.stored.keyOf(tag, 'a', 1)).toBe(key);
    await again.renewNames();
    expect(await numbers()).toEqual([number, number + 1]);
  });

  test('have only the newest names key once older ones are ended, and get none from one that was missing', async () => {
    const keys = await openKeys();
    const third = the(copies[2]);
    const numbers = async () =>
      new OpenedVault(await place.open(), kek).namesKeys().map(([number]) => number);
    expect(await keys.renewNames()).toEqual([]);
    const before = await third.get(NAMES);
    expect(await numbers()).toEqual([1, 2]);
    const { id } = keys.names();
    expect(await keys.endOldNames()).toEqual([]);
    expect([await numbers(), keys.names().id]).toEqual([[2], id]);
    await third.put(NAMES, before);
    expect(await numbers()).toEqual([2]);
    await openKeys();
    const back = await away(...copies.slice(0, 2));
    expect(await numbers()).toEqual([2]);
    await back();
  });

  test('have the names keys of two processes that replace them at the same time', async () => {
    const [vault, others] = [await place.open(), await openKeys()];
    const keys = await openKeys(vault);
    const write = vault.write.bind(vault);
    let isFirst = true;
    vault.write = async (name, bytes, after) => {
      if (isFirst && name === NAMES) {
        isFirst = false;
        await others.renewNames();
      }
      return write(name, bytes, after);
    };
    await keys.renewNames();
    const opened = new OpenedVault(await place.open(), kek);
    const found = opened.namesKeys().map(([number, key]) => [number, key.toString('hex')] as const);
    expect(found.map(([number]) => number)).toEqual([1, 2, 3]);
    expect(new Set(found.map(([, key]) => key)).size).toBe(3);
  });
});
