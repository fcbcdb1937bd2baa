/** A vault in directories with the same records: the first one and its mirrors. */
import type { KeyFiles } from './key-files.js';
import { epochIn, epochName, epochOf, generationOf, stateNames } from './key-record.js';
import { type KeyVault, type RecordName, VaultAway } from './key-vault.js';

export interface DirectoryVaultOptions {
  /** The id of the log; a directory with the keys of another log is not overwritten. */
  readonly ledgerId?: string;
  /**
   * Directories that had keys. If one of them is empty, a mount has probably failed, and it is not filled.
   */
  readonly known?: readonly string[];
  /** The current copies: a command may have added a mirror. */
  readonly named?: () => readonly KeyFiles[];
}

/**
 * A vault in directories. A write is durable in the first directory and one more. An erasure returns the
 * directories that it did not reach.
 */
export class DirectoryVault implements KeyVault {
  readonly unwritten = new Map<string, unknown>();
  readonly #copies: KeyFiles[];
  readonly #known: Set<string>;

  constructor(
    copies: readonly KeyFiles[],
    private readonly options: DirectoryVaultOptions = {},
  ) {
    this.#copies = [...copies];
    this.#known = new Set(options.known);
  }

  get copies(): readonly string[] {
    return this.#copies.map(({ directory }) => directory);
  }

  /** Adds directories that were named since the last call. */
  refresh(): Promise<ReadonlyMap<RecordName, Buffer>> {
    for (const copy of this.options.named?.() ?? [])
      if (!this.copies.includes(copy.directory)) this.#copies.push(copy);
    return Promise.resolve(new Map());
  }

  list(within: string): RecordName[] {
    const names = [...this.#answers((copy) => copy.list(within)).values()].flat();
    return [...new Set(names)].sort();
  }

  read(name: RecordName): Buffer[] {
    const found: Buffer[] = [];
    for (const bytes of this.#answers((copy) => copy.read(name)).values())
      if (bytes !== undefined && !found.some((each) => each.equals(bytes))) found.push(bytes);
    return found;
  }

  async write(name: RecordName, bytes: Buffer, after: number): Promise<'written' | 'stale'> {
    const held = this.#answers((copy) => copy.read(name));
    if (this.#isStale([...held.values()], name, bytes, after)) return 'stale';
    await this.#change((copy) => this.#put(copy, held, name, bytes));
    return 'written';
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- a vault may be in a database
  async erase(
    name: RecordName,
    bytes: Buffer | undefined,
    after: number,
  ): Promise<readonly string[] | 'stale'> {
    this.unwritten.clear();
    try {
      const held = this.#answers((copy) => copy.read(name));
      if (this.#isStale([...held.values()], name, bytes, after)) return 'stale';
      for (const copy of this.#copies) this.#try(copy, () => this.#put(copy, held, name, bytes));
    } catch (error) {
      if (!(error instanceof VaultAway)) throw error;
      for (const copy of this.copies) this.unwritten.set(copy, error);
    }
    return [...this.unwritten.keys()];
  }

  prove(): Promise<void> {
    return this.#change((copy) => {
      this.#assertOurs(copy);
      copy.prove();
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /**
   * Whether a write is refused: another generation with other bytes is stored, the epoch of the new key
   * state is missing, or the epoch to remove is in use.
   */
  #isStale(
    held: readonly (Buffer | undefined)[],
    name: RecordName,
    bytes: Buffer | undefined,
    after: number,
  ): boolean {
    const generations = held.map((each) => (each === undefined ? 0 : generationOf(name, each)));
    const generation = Math.max(0, ...generations);
    const newest = held[generations.indexOf(generation)];
    if (newest === undefined ? bytes === undefined : bytes?.equals(newest) === true) return false;
    if (generation !== after) return true;
    if (bytes === undefined) return this.#isInUse(name);
    const epoch = epochOf(name, bytes);
    return epoch !== undefined && this.read(epochName(epoch)).length === 0;
  }

  /** Whether a key state in any copy is under this epoch. */
  #isInUse(name: RecordName): boolean {
    const epoch = epochIn(name);
    if (epoch === undefined) return false;
    return stateNames(this).some((each) => this.read(each).some((bytes) => epochOf(each, bytes) === epoch));
  }

  /**
   * @param held the records of the copies that answered; others are not written, since they may have a newer
   * one.
   */
  #put(
    copy: KeyFiles,
    held: ReadonlyMap<KeyFiles, Buffer | undefined>,
    name: RecordName,
    bytes: Buffer | undefined,
  ): void {
    if (!held.has(copy)) throw new VaultAway(`${copy.directory} cannot be read`);
    this.#assertOurs(copy);
    const epoch = bytes && epochOf(name, bytes);
    if (epoch !== undefined && copy.read(epochName(epoch)) === undefined)
      throw new VaultAway(`${copy.directory} lacks the epoch of ${name}`);
    copy.put(name, bytes, held.get(copy));
  }

  /** @throws VaultAway if a copy has lost its keys, or has the keys of another log. */
  #assertOurs(copy: KeyFiles): void {
    const ledger = copy.ledger();
    if (ledger !== undefined && this.options.ledgerId !== undefined && ledger !== this.options.ledgerId)
      throw new VaultAway(`${copy.directory} has the keys of another log, which are not overwritten`);
    if (ledger !== undefined) this.#known.add(copy.directory);
    else if (
      this.#known.has(copy.directory) &&
      ['epochs', 'buckets'].every((each) => copy.list(each).length === 0)
    )
      throw new VaultAway(
        `${copy.directory} has lost its keys: mount it, or fill it by collector encryption-keys copy ` +
          '--mirror',
      );
  }

  /** Changes all copies. @throws VaultAway unless the first one and one more were changed. */
  #change(work: (copy: KeyFiles) => void): Promise<void> {
    this.unwritten.clear();
    let written = 0;
    for (const [i, copy] of this.#copies.entries()) {
      if (this.#try(copy, () => work(copy))) written++;
      else if (i === 0) break;
    }
    if (written >= Math.min(2, this.#copies.length)) return Promise.resolve();
    const [[where, cause] = ['none of them', undefined]] = this.unwritten;
    return Promise.reject(new VaultAway(`too few key directories can be written: ${where}`, { cause }));
  }

  #try(copy: KeyFiles, work: () => void): boolean {
    try {
      work();
      return true;
    } catch (error) {
      this.unwritten.set(copy.directory, error);
      return false;
    }
  }

  /** Calls `ask` for each copy. @throws VaultAway if no copy answers. */
  #answers<Answer>(ask: (copy: KeyFiles) => Answer): Map<KeyFiles, Answer> {
    const answers = new Map<KeyFiles, Answer>();
    let failure: unknown;
    for (const copy of this.#copies) {
      try {
        answers.set(copy, ask(copy));
      } catch (error) {
        failure = error;
      }
    }
    if (answers.size > 0) return answers;
    throw new VaultAway('no key directory can be read', { cause: failure });
  }
}
