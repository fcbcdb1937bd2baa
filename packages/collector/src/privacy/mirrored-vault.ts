/** A vault of several directories that hold the same records: the first, and its mirrors. */
import type { DirectoryVault } from './directory-vault.js';
import { epochIn, epochName, epochOf, epochRecordIn, generationOf, stateNames } from './key-record.js';
import { type KeyVault, type RecordName, VaultAway } from './key-vault.js';

export interface MirroredVaultOptions {
  /** A directory with the keys of another log is not written over. */
  readonly ledgerId?: string;
  /** Directories that had keys: one of them without any is a mount that failed, and is not filled. */
  readonly known?: readonly string[];
  /** The copies as they are named by now: a command may have named another mirror. */
  readonly named?: () => readonly DirectoryVault[];
}

/** What a copy that answers has of a record. */
interface Held {
  readonly copy: DirectoryVault;
  readonly bytes: Buffer | undefined;
  readonly generation: number;
}

/** A write is durable in the first and in one more; an erasure reaches all, or names those that it did not reach. */
export class MirroredVault implements KeyVault {
  readonly unwritten = new Map<string, unknown>();
  readonly #copies: DirectoryVault[];
  readonly #known: Set<string>;

  constructor(
    copies: readonly DirectoryVault[],
    private readonly options: MirroredVaultOptions = {},
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
    return [...new Set(this.#answers((copy) => copy.list(within)).flat())].sort();
  }

  read(name: RecordName): Buffer[] {
    const found: Buffer[] = [];
    for (const bytes of this.#answers((copy) => copy.read(name)).flat())
      if (!found.some((each) => each.equals(bytes))) found.push(bytes);
    return found;
  }

  async write(name: RecordName, bytes: Buffer, after: number): Promise<'written' | 'stale'> {
    const held = this.#held(name);
    if (this.#isStale(held, name, bytes, after)) return 'stale';
    await this.#change((copy) => this.#writeTo(copy, held, name, bytes));
    return 'written';
  }

  async erase(
    name: RecordName,
    bytes: Buffer | undefined,
    after: number,
  ): Promise<readonly string[] | 'stale'> {
    this.unwritten.clear();
    try {
      const held = this.#held(name);
      if (this.#isStale(held, name, bytes, after)) return 'stale';
      for (const copy of this.#copies) await this.#try(copy, () => this.#writeTo(copy, held, name, bytes));
    } catch (error) {
      if (!(error instanceof VaultAway)) throw error;
      for (const copy of this.copies) this.unwritten.set(copy, error);
    }
    return [...this.unwritten.keys()];
  }

  prove(): Promise<void> {
    return this.#change((copy) => {
      this.#assertOurs(copy);
      return copy.prove();
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Whether the newest that is stored is neither these bytes nor of this generation, or an epoch is missing or in use. */
  #isStale(held: readonly Held[], name: RecordName, bytes: Buffer | undefined, after: number): boolean {
    const generation = Math.max(0, ...held.map((each) => each.generation));
    const newest = held.find((each) => each.generation === generation)?.bytes;
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

  /** What each copy that answers has. */
  #held(name: RecordName): Held[] {
    return this.#answers((copy) => {
      const [bytes] = copy.read(name);
      return { copy, bytes, generation: bytes === undefined ? 0 : generationOf(name, bytes) };
    });
  }

  async #writeTo(
    copy: DirectoryVault,
    held: readonly Held[],
    name: RecordName,
    bytes: Buffer | undefined,
  ): Promise<void> {
    const before = held.find((each) => each.copy === copy);
    if (before === undefined) throw new VaultAway(`${copy.directory} cannot be read`);
    this.#assertOurs(copy);
    const isDone =
      bytes === undefined
        ? await copy.erase(name, undefined, before.generation)
        : await copy.write(name, bytes, before.generation);
    if (isDone === 'stale')
      throw new VaultAway(`${copy.directory} lacks the epoch of ${name}, or has others`);
    if (isDone !== 'written' && isDone.length > 0)
      throw new VaultAway(`${copy.directory} cannot be written`, {
        cause: copy.unwritten.get(copy.directory),
      });
  }

  /** On return the first copy was changed, and one more where there are several. */
  async #change(work: (copy: DirectoryVault) => Promise<void>): Promise<void> {
    this.unwritten.clear();
    let written = 0;
    for (const [i, copy] of this.#copies.entries()) {
      if (await this.#try(copy, () => work(copy))) written++;
      else if (i === 0) break;
    }
    if (written >= Math.min(2, this.#copies.length)) return;
    const [[where, cause] = ['none of them', undefined]] = this.unwritten;
    throw new VaultAway(`too few of the directories of keys can be written: ${where}`, { cause });
  }

  async #try(copy: DirectoryVault, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      this.unwritten.set(copy.directory, error);
      return false;
    }
  }

  /** @throws for a copy that was given back empty, or has the keys of another log. */
  #assertOurs(copy: DirectoryVault): void {
    const epochs = copy.list('epochs');
    if (epochs.length > 0) this.#known.add(copy.directory);
    else if (this.#known.has(copy.directory))
      throw new VaultAway(
        `${copy.directory} has no keys any more: mount it, or have it filled by collector encryption-keys copy --mirror`,
      );
    const ledger = ledgerOf(copy);
    if (ledger !== undefined && this.options.ledgerId !== undefined && ledger !== this.options.ledgerId)
      throw new VaultAway(`${copy.directory} has the keys of another log, which would be written over`);
  }

  /** Of each copy that answers. @throws VaultAway when none does. */
  #answers<Answer>(ask: (copy: DirectoryVault) => Answer): Answer[] {
    const answers: Answer[] = [];
    let failure: unknown;
    for (const copy of this.#copies) {
      try {
        answers.push(ask(copy));
      } catch (error) {
        failure = error;
      }
    }
    if (answers.length > 0) return answers;
    throw new VaultAway('no directory of keys can be read', { cause: failure });
  }
}

/** The log whose keys a vault has; undefined where it has none. @throws VaultAway */
export function ledgerOf(vault: KeyVault): string | undefined {
  for (const name of vault.list('epochs'))
    for (const bytes of vault.read(name)) {
      const record = epochRecordIn(name, bytes);
      if (record !== undefined) return record.ledger;
    }
  return undefined;
}
