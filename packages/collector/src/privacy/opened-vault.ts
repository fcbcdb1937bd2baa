/** Opens the records of a vault: epoch keys, and key states merged over all copies. */
import { createSecretKey, type KeyObject } from 'node:crypto';
import { KekFault, type KeyEncryptionKey } from './key-encryption-key.js';
import {
  checkOf,
  epochIn,
  epochName,
  epochRecordIn,
  generationOf,
  holdName,
  NAMES,
  type EpochRecord,
} from './key-record.js';
import { decodeKeyState, encodeKeyState, keyStateHeader, mergedStates, type KeyState } from './key-state.js';
import { KeyTree } from './key-tree.js';
import { KeysUnfit, type KeyVault, type RecordName } from './key-vault.js';

/** The content that every copy of a record should have. */
export interface Due {
  /** Undefined if no copy has a usable record. */
  readonly bytes: Buffer | undefined;
  /** Set for a key state. */
  readonly state?: KeyState;
  /** The highest generation of any copy, which a write replaces. */
  readonly generation: number;
}

export class OpenedVault {
  readonly #epochs = new Map<number, { readonly key: KeyObject; readonly check: string }>();

  constructor(
    readonly vault: KeyVault,
    private readonly kek: KeyEncryptionKey,
  ) {}

  /** @throws KeysUnfit if it is missing or damaged in every copy. */
  epochRecord(epoch: number): EpochRecord {
    const record = epochRecordOf(this.vault, epoch);
    if (record === undefined)
      throw new KeysUnfit(`${epochName(epoch)} is missing or damaged in ${this.where}`);
    return record;
  }

  /** @throws KeysUnfit, KekFault */
  epochKey(epoch: number): KeyObject {
    const known = this.#epochs.get(epoch)?.key;
    if (known !== undefined) return known;
    return this.learnEpoch(this.epochRecord(epoch));
  }

  /** The key of an epoch record, which may be missing in the vault. @throws KekFault */
  learnEpoch(record: EpochRecord): KeyObject {
    const known = this.#epochs.get(record.epoch);
    if (known?.check === record.check) return known.key;
    const key = createSecretKey(unwrapped(this.kek, record));
    this.#epochs.set(record.epoch, { key, check: record.check });
    return key;
  }

  /** Forgets epoch keys that another process has replaced or removed. */
  forgetEpochs(): void {
    for (const [epoch, { check }] of this.#epochs) {
      const name = epochName(epoch);
      const isThere = this.vault.read(name).some((bytes) => epochRecordIn(name, bytes)?.check === check);
      if (!isThere) this.#epochs.delete(epoch);
    }
  }

  /** The content that every copy of a record should have. @throws KeysUnfit, KekFault, VaultAway */
  due(name: RecordName): Due {
    const stored = this.vault.read(name);
    const generation = Math.max(0, ...stored.map((bytes) => generationOf(name, bytes)));
    if (name.endsWith('.keys')) return this.#dueState(stored, generation);
    if (epochIn(name) !== undefined) assertOneKey(this.vault, name, stored);
    return { bytes: newestOf(name, stored), generation };
  }

  /**
   * Merges the copies that answer. Keys that only a lagging copy still has are left out; the next write
   * destroys them.
   */
  #dueState(stored: readonly Buffer[], generation: number): Due {
    const opened = new Map<KeyState, Buffer>();
    let unfit: KeysUnfit | undefined;
    for (const bytes of stored) {
      try {
        const state = this.decode(bytes);
        if (state !== undefined) opened.set(state, bytes);
      } catch (error) {
        if (!(error instanceof KeysUnfit)) throw error;
        unfit = error;
      }
    }
    const [first, ...others] = opened.keys();
    if (first === undefined && unfit !== undefined) throw unfit;
    if (first === undefined) return { bytes: undefined, generation };
    const state = others.reduce(mergedStates, first);
    const bytes = state.generation === generation ? opened.get(state) : undefined;
    return { state, generation, bytes: bytes ?? this.encode({ ...state, generation: generation + 1 }) };
  }

  /** @throws KeysUnfit, KekFault, VaultAway */
  state(name: RecordName): KeyState | undefined {
    return this.due(name).state;
  }

  /** The remaining names keys with their numbers, oldest first. @throws as `state`. */
  namesKeys(): (readonly [number: number, key: Buffer])[] {
    const state = this.state(NAMES);
    const numbers = [...(state?.trees.keys() ?? [])].sort();
    return numbers.flatMap((number) => {
      const key = state && firstKey(state, number);
      return key === undefined ? [] : [[Number(number), Buffer.from(key, 'latin1')] as const];
    });
  }

  /** @throws KeysUnfit if there is none; as `state`. */
  newestNamesKey(): readonly [number: number, key: Buffer] {
    const newest = this.namesKeys().at(-1);
    if (newest === undefined) throw new KeysUnfit(`${NAMES} is missing or damaged in ${this.where}`);
    return newest;
  }

  /** The key of a legal hold; undefined if it is destroyed or was never created. @throws as `state`. */
  holdKey(action: string): KeyObject | undefined {
    const state = this.state(holdName(action));
    const key = state && firstKey(state, '');
    return key === undefined ? undefined : createSecretKey(key, 'latin1');
  }

  /** Decrypts a key state; undefined if it is damaged. @throws KeysUnfit, KekFault */
  decode(bytes: Buffer): KeyState | undefined {
    const header = keyStateHeader(bytes);
    return header && decodeKeyState(bytes, this.epochKey(header.epoch));
  }

  /** @throws KeysUnfit, KekFault */
  encode(state: KeyState): Buffer {
    return encodeKeyState(state, this.epochKey(state.epoch));
  }

  get where(): string {
    return this.vault.copies.join(', ');
  }
}

/** The numbers of the epochs, oldest first. @throws VaultAway */
export function epochsOf(vault: Pick<KeyVault, 'list'>): number[] {
  return vault.list('epochs').flatMap((name) => epochIn(name) ?? []);
}

/** The id of the log of a vault; undefined if the vault is empty. @throws VaultAway */
export function ledgerOf(vault: KeyVault): string | undefined {
  const records = epochsOf(vault).flatMap((epoch) => epochRecordOf(vault, epoch) ?? []);
  return records[0]?.ledger;
}

/**
 * The record of an epoch; undefined if it is missing or damaged in every copy.
 * @throws VaultAway; KeysUnfit if copies have different keys.
 */
export function epochRecordOf(vault: KeyVault, epoch: number): EpochRecord | undefined {
  const name = epochName(epoch);
  const stored = vault.read(name);
  assertOneKey(vault, name, stored);
  const newest = newestOf(name, stored);
  return newest && epochRecordIn(name, newest);
}

/**
 * Checks that all copies have the same epoch key. Diverged copies are never overwritten.
 * @throws KeysUnfit
 */
function assertOneKey({ copies }: KeyVault, name: RecordName, stored: readonly Buffer[]): void {
  const checks = new Set(stored.map((bytes) => epochRecordIn(name, bytes)?.check));
  if (checks.size > 1)
    throw new KeysUnfit(
      `${copies.join(', ')} have different keys in ${name}: they were used separately. Pass those ` +
        'that belong together to --encryption-keys, and keep the others',
    );
}

/** The first content with the highest generation. */
export function newestOf(name: RecordName, contents: readonly Buffer[]): Buffer | undefined {
  const generation = Math.max(0, ...contents.map((bytes) => generationOf(name, bytes)));
  return contents.find((bytes) => generationOf(name, bytes) === generation);
}

/** @throws KekFault if no wrapping opens to the wrapped key; the payload keys may still be intact. */
export function unwrapped(kek: KeyEncryptionKey, { epoch, check, wrapped }: EpochRecord): Buffer {
  let fault = new KekFault(`epoch ${epoch} of the keys of payloads has no wrapping`);
  for (const each of wrapped) {
    try {
      const key = kek.unwrap(each);
      if (checkOf(key) === check) return key;
      fault = new KekFault('the key-encryption key unwraps a different key than was wrapped');
    } catch (error) {
      if (!(error instanceof KekFault)) throw error;
      fault = error;
    }
  }
  throw fault;
}

/** The key at place 0 of a tree, which holds and names use. */
function firstKey({ bucketId, trees }: KeyState, tree: string): string | undefined {
  return new KeyTree(bucketId, trees.get(tree) ?? []).keyAt(0);
}
