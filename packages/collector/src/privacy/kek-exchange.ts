/**
 * Exchanges the key-encryption key: first the epoch keys are wrapped by both keys, then the new key is noted,
 * then the old wrappings are removed. The lock of the data directory excludes a collector. After an
 * interruption at any step the noted key opens everything, and the exchange may be repeated.
 */
import { KekFault, type KeyEncryptionKey } from './key-encryption-key.js';
import { checkOf, epochBytes, epochName } from './key-record.js';
import { type KeyVault, VaultAway } from './key-vault.js';
import { epochRecordOf, epochsOf } from './opened-vault.js';

/** @param isRight whether a key is the wrapped one. @returns the wrappings to keep. @throws KekFault */
export type Rewrapping = (
  wrapped: readonly string[],
  isRight: (key: Buffer) => boolean,
) => Promise<readonly string[]>;

/**
 * Exchanges `old` for `next`.
 * @param rewrap applies a rewrapping to every wrapped key. @param note notes the next key durably.
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
    throw new KekFault('the current key does not unwrap all epoch keys');
  };
}

function byOne(kek: KeyEncryptionKey): Rewrapping {
  return (wrapped, isRight) => {
    const own = wrapped.filter((each) => keyIn(kek, each, isRight) !== undefined);
    return own.length > 0
      ? Promise.resolve(own)
      : Promise.reject(new KekFault('the new key does not unwrap all epoch keys'));
  };
}

/** The key in a wrapping; undefined if this KEK cannot unwrap it, or it is not the right one. */
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

/** Rewraps all epochs in every copy. @throws KekFault; VaultAway if a copy cannot be reached. */
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
