/** A vault in directories that hold the same records: the first, and its mirrors. */
import type { KeyFiles } from './key-files.js';
import { epochIn, epochName, epochOf, generationOf, stateNames } from './key-record.js';
import { type KeyVault, type RecordName, VaultAway } from './key-vault.js';

export interface DirectoryVaultOptions {
  /** A directory with the keys of another log is not written over. */
  readonly ledgerId?: string;
  /** Directories that had keys: one of them without any is a mount that failed, and is not filled. */
  readonly known?: readonly string[];
  /** The copies as they are named by now: a command may have named another mirror. */
  readonly named?: () => readonly KeyFiles[];
}

/** A write is durable in the first and in one more; an erasure reaches all, or names those that it did not reach. */
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

  /** On return each directory that is named by now is one of the copies. */
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

  /** Whether the newest that is stored is neither these bytes nor of this generation, or an epoch is missing or in use. */
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

  /** Whether a key state of any copy is under this epoch. */
  #isInUse(name: RecordName): boolean {
    const epoch = epochIn(name);
    if (epoch === undefined) return false;
    return stateNames(this).some((each) => this.read(each).some((bytes) => epochOf(each, bytes) === epoch));
  }

  /** @param held what each copy that answered had: another is not written, since it may have something newer. */
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

  /** @throws VaultAway for a copy that was given back empty, or has the keys of another log. */
  #assertOurs(copy: KeyFiles): void {
    const ledger = copy.ledger();
    if (ledger !== undefined && this.options.ledgerId !== undefined && ledger !== this.options.ledgerId)
      throw new VaultAway(`${copy.directory} has the keys of another log, which would be written over`);
    if (ledger !== undefined) this.#known.add(copy.directory);
    else if (
      this.#known.has(copy.directory) &&
      ['epochs', 'buckets'].every((each) => copy.list(each).length === 0)
    )
      throw new VaultAway(
        `${copy.directory} has no keys any more: mount it, or have it filled by collector encryption-keys copy --mirror`,
      );
  }

  /** On return the first copy was changed, and one more where there are several. */
  #change(work: (copy: KeyFiles) => void): Promise<void> {
    this.unwritten.clear();
    let written = 0;
    for (const [i, copy] of this.#copies.entries()) {
      if (this.#try(copy, () => work(copy))) written++;
      else if (i === 0) break;
    }
    if (written >= Math.min(2, this.#copies.length)) return Promise.resolve();
    const [[where, cause] = ['none of them', undefined]] = this.unwritten;
    return Promise.reject(
      new VaultAway(`too few of the directories of keys can be written: ${where}`, { cause }),
    );
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

  /** Of each copy that answers. @throws VaultAway when none does. */
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
    throw new VaultAway('no directory of keys can be read', { cause: failure });
  }
}
