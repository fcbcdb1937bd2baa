/**
 * Exchanges the key-encryption key. What it wraps is wrapped by the old and by the new one first; then the new one is noted;
 * then the old wrapping goes. No collector runs meanwhile (the lock of the data directory). Wherever it is cut off, the key that
 * is noted opens everything, and all of it may be repeated.
 */
import { KekFault, type KeyEncryptionKey } from './key-encryption-key.js';
import { checkOf, epochBytes, epochName } from './key-record.js';
import { type KeyVault, VaultAway } from './key-vault.js';
import { epochRecordOf, epochsOf } from './opened-vault.js';

/** @param isRight whether a key is the one that was wrapped. @returns the wrappings that stay. @throws KekFault */
export type Rewrapping = (
  wrapped: readonly string[],
  isRight: (key: Buffer) => boolean,
) => Promise<readonly string[]>;

/**
 * On return everything is wrapped by the next key alone.
 * @param rewrap wraps all that there is so. @param note notes the next key durably.
 */
export async function exchangeKek(
  [old, next]: readonly [old: KeyEncryptionKey, next: KeyEncryptionKey],
  rewrap: (rewrapping: Rewrapping) => Promise<void>,
  note: () => Promise<void>,
): Promise<void> {
  await rewrap(byBoth(old, next));
  await note();
  await rewrap(byOne(next));
}

function byBoth(old: KeyEncryptionKey, next: KeyEncryptionKey): Rewrapping {
  return async (wrapped, isRight) => {
    if (wrapped.some((each) => keyIn(next, each, isRight) !== undefined)) return wrapped;
    for (const each of wrapped) {
      const key = keyIn(old, each, isRight);
      if (key !== undefined) return [...wrapped, await next.wrap(key)];
    }
    throw new KekFault('the key that is in use does not open all that it should have wrapped');
  };
}

function byOne(kek: KeyEncryptionKey): Rewrapping {
  return (wrapped, isRight) => {
    const own = wrapped.filter((each) => keyIn(kek, each, isRight) !== undefined);
    return own.length > 0
      ? Promise.resolve(own)
      : Promise.reject(new KekFault('the new key does not open all that it should have wrapped'));
  };
}

/** The key in a wrapping; undefined where this KEK did not make it, or it is not the right one. */
export function keyIn(
  kek: KeyEncryptionKey,
  wrapped: string,
  isRight: (key: Buffer) => boolean,
): Buffer | undefined {
  try {
    const key = kek.unwrap(wrapped);
    return isRight(key) ? key : undefined;
  } catch (error) {
    if (error instanceof KekFault) return undefined;
    throw error;
  }
}

/** On return the epochs are wrapped so in every copy. @throws KekFault; VaultAway where a copy cannot be reached. */
export async function rewrapEpochs(vault: KeyVault, rewrap: Rewrapping): Promise<void> {
  for (const epoch of epochsOf(vault)) {
    const record = epochRecordOf(vault, epoch);
    if (record === undefined) throw new VaultAway(`${epochName(epoch)} is damaged`);
    const wrapped = await rewrap(record.wrapped, (key) => checkOf(key) === record.check);
    const isSame = wrapped.length === record.wrapped.length;
    const generation = record.generation + Number(!isSame);
    const done = await vault.erase(
      epochName(epoch),
      epochBytes({ ...record, generation, wrapped }),
      record.generation,
    );
    if (done === 'stale' || done.length > 0)
      throw new VaultAway(`${done === 'stale' ? epochName(epoch) : done.join(', ')} cannot be written`);
  }
}
