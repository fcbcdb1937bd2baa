/** The keys of stored events for readers, with or without a running collector. */
import type { KeyObject } from 'node:crypto';
import type { KeyEncryptionKey } from './key-encryption-key.js';
import { bucketIn } from './key-record.js';
import type { KeyState } from './key-state.js';
import { KeyTree } from './key-tree.js';
import type { KeyVault, RecordName } from './key-vault.js';
import { SyntheticIv, type NameCipher } from './name-cipher.js';
import { epochsOf, OpenedVault } from './opened-vault.js';

/** Maximum number of buckets in memory. */
const MOST_BUCKETS = 256;
/** Maximum time in memory: another process may destroy keys. */
const KEPT_MS = 10_000;

export interface StoredKeys {
  /**
   * The key of an event; undefined if it is missing or destroyed.
   * @param tag tag of its bucket, from its frame.
   * @throws KekFault, KeysUnfit if the keys cannot be used.
   */
  keyOf(tag: number, organisation: string, sequence: number): string | undefined;
  /** Whether the bucket exists and has or had keys of the organisation. @throws as `keyOf`. */
  knows(tag: number, organisation: string): boolean;
  /** The cipher of the newest names key, for derived files. @throws KekFault, KeysUnfit */
  names(): NameCipher;
  /**
   * The cipher with an id, during a replacement of names keys; undefined if it does not exist.
   * @throws as `names`.
   */
  namesBy(id: string): NameCipher | undefined;
  /**
   * The key of a legal hold's record; undefined if it is destroyed or was never created.
   * @throws as `keyOf`.
   */
  holdKey(action: string): KeyObject | undefined;
  /** The bodies of the actions noted beside the keys; the log may be an older copy without them. */
  noted(): Buffer[];
  /**
   * Allows missing keys to be looked up again. Keys in memory are read again if the version of the vault has
   * changed, or after ten seconds if it has none. For a vault in a database, call `await vault.refresh()`
   * first.
   */
  readAgain(): void;
}

export interface Bucket {
  readonly firstSequence: number;
  readonly trees: ReadonlyMap<string, KeyTree>;
}

export class KeyReader implements StoredKeys {
  readonly #buckets = new Map<number, Bucket>();
  #bucketNames = new Map<number, RecordName>();
  #names: NameCipher | undefined;
  /** Keys that were not found since `readAgain`. */
  readonly #missed = new Set<string>();
  /** Time of the oldest bucket in memory. */
  #keptSince = performance.now();
  /** Version of the vault at that time. */
  #version: number | undefined;

  /** @param unsaved returns a bucket of this process that is newer than in the vault. */
  constructor(
    private readonly opened: OpenedVault,
    private readonly unsaved: (tag: number) => Bucket | undefined = () => undefined,
  ) {}

  /** @returns undefined if there are no keys. @throws VaultAway */
  static open(vault: KeyVault, kek: KeyEncryptionKey): KeyReader | undefined {
    return epochsOf(vault).length === 0 ? undefined : new KeyReader(new OpenedVault(vault, kek));
  }

  keyOf(tag: number, organisation: string, sequence: number): string | undefined {
    const bucket = this.#bucket(tag, organisation);
    return bucket?.trees.get(organisation)?.keyAt(sequence - bucket.firstSequence);
  }

  knows(tag: number, organisation: string): boolean {
    return this.#bucket(tag, organisation) !== undefined;
  }

  names(): NameCipher {
    if (this.#names !== undefined) return this.#names;
    const [number, key] = this.opened.newestNamesKey();
    return (this.#names = new SyntheticIv(key, number));
  }

  namesBy(id: string): NameCipher | undefined {
    const ciphers = [...this.opened.namesKeys()].map(([number, key]) => new SyntheticIv(key, number));
    return ciphers.find((cipher) => cipher.id === id);
  }

  holdKey(action: string): KeyObject | undefined {
    return this.opened.holdKey(action);
  }

  noted(): Buffer[] {
    const { vault } = this.opened;
    return vault.list('actions').flatMap((name) => vault.read(name).slice(0, 1));
  }

  readAgain(): void {
    this.#missed.clear();
    this.#names = undefined;
    const { version } = this.opened.vault;
    const isOld =
      version === undefined ? performance.now() - this.#keptSince > KEPT_MS : version !== this.#version;
    if (isOld) this.forget();
  }

  /** Forgets all keys in memory. */
  forget(): void {
    this.#buckets.clear();
    this.#missed.clear();
    this.#names = undefined;
    this.opened.forgetEpochs();
    this.#keptSince = performance.now();
    this.#version = this.opened.vault.version;
  }

  #bucket(tag: number, organisation: string): Bucket | undefined {
    const bucket = this.unsaved(tag) ?? this.#buckets.get(tag);
    return bucket?.trees.has(organisation) === true ? bucket : this.#look(tag, organisation);
  }

  #look(tag: number, organisation: string): Bucket | undefined {
    const sought = `${tag} ${organisation}`;
    if (this.#missed.has(sought)) return undefined;
    if (!this.#bucketNames.has(tag)) this.#bucketNames = namesByTag(this.opened.vault);
    const name = this.#bucketNames.get(tag);
    const state = name === undefined ? undefined : this.opened.state(name);
    if (state?.trees.has(organisation) !== true) {
      this.#missed.add(sought);
      return undefined;
    }
    const bucket = { firstSequence: state.firstSequence, trees: treesOf(state) };
    if (this.#buckets.size >= MOST_BUCKETS) this.#buckets.clear();
    this.#buckets.set(tag, bucket);
    return bucket;
  }
}

export function namesByTag(vault: KeyVault): Map<number, RecordName> {
  return new Map(vault.list('buckets').map((name) => [bucketIn(name).tag, name]));
}

export function treesOf({ bucketId, trees }: KeyState): Map<string, KeyTree> {
  return new Map([...trees].map(([organisation, nodes]) => [organisation, new KeyTree(bucketId, nodes)]));
}
