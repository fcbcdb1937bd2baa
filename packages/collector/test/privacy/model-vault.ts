/** A vault in memory, by the contract alone: the first subject of the suite, and the reference for the others. */
import { VaultAway, type KeyVault, type RecordName } from '../../src/privacy/key-vault.js';
import type { Mutant } from './vault-mutants.js';
import type { VaultPlace, VaultSubject } from './vault-conformance.js';
import { epochOf, generationIn, isSound, the } from './vault-records.js';

class ModelCopy {
  readonly records = new Map<RecordName, Buffer>();
  isAway = false;
}

class ModelVault implements KeyVault {
  readonly copies: readonly string[];
  readonly unwritten = new Map<string, unknown>();

  constructor(private readonly stored: readonly ModelCopy[]) {
    this.copies = stored.map((_, i) => `copy ${i}`);
  }

  refresh(): Promise<ReadonlyMap<RecordName, Buffer>> {
    return Promise.resolve().then(() => {
      this.#there();
      return new Map();
    });
  }

  list(within: string): RecordName[] {
    const names = this.#there().flatMap(({ records }) => [...records.keys()]);
    return [...new Set(names)].filter((name) => name.startsWith(`${within}/`)).sort();
  }

  read(name: RecordName): Buffer[] {
    const found: Buffer[] = [];
    for (const { records } of this.#there()) {
      const bytes = records.get(name);
      if (bytes !== undefined && isSound(name, bytes) && !found.some((each) => each.equals(bytes)))
        found.push(bytes);
    }
    return found;
  }

  async write(name: RecordName, bytes: Buffer, after: number): Promise<'written' | 'stale'> {
    await Promise.resolve();
    if (this.#isStale(name, bytes, after)) return 'stale';
    const reached = this.stored.filter((copy) => this.#put(copy, name, bytes));
    if (!reached.includes(the(this.stored[0])) || reached.length < Math.min(2, this.stored.length))
      throw new VaultAway('too few copies can be written');
    return 'written';
  }

  async erase(
    name: RecordName,
    bytes: Buffer | undefined,
    after: number,
  ): Promise<readonly string[] | 'stale'> {
    await Promise.resolve();
    if (this.stored.every(({ isAway }) => isAway)) return this.copies;
    if (this.#isStale(name, bytes, after)) return 'stale';
    return this.copies.filter((_, i) => !this.#put(the(this.stored[i]), name, bytes));
  }

  async prove(): Promise<void> {
    await Promise.resolve();
    this.#there();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #isStale(name: RecordName, bytes: Buffer | undefined, after: number): boolean {
    const isUnderIt = (each: RecordName) => this.read(each).some((state) => epochOf(each, state) === name);
    if (bytes === undefined && [...this.list('buckets'), 'names.keys'].some(isUnderIt)) return true;
    const epoch = bytes && epochOf(name, bytes);
    if (epoch !== undefined && this.read(epoch).length === 0) return true;
    const found = this.read(name);
    const generation = Math.max(0, ...found.map((each) => generationIn(name, each)));
    const newest = found.find((each) => generationIn(name, each) === generation);
    const isDone = bytes === undefined ? newest === undefined : newest?.equals(bytes) === true;
    return !isDone && generation !== after;
  }

  #put(copy: ModelCopy, name: RecordName, bytes: Buffer | undefined): boolean {
    if (copy.isAway) return false;
    if (bytes === undefined) copy.records.delete(name);
    else copy.records.set(name, bytes);
    return true;
  }

  #there(): ModelCopy[] {
    const there = this.stored.filter(({ isAway }) => !isAway);
    if (there.length === 0) throw new VaultAway('no copy can be reached');
    return there;
  }
}

export function modelVaults(copies: number): VaultSubject {
  return {
    name: `a model of ${copies === 1 ? 'one copy' : `${copies} copies`}`,
    ...{ copies, hasDisks: false, hasBackups: false },
    makePlace(mutant?: Mutant) {
      const stored = Array.from({ length: copies }, () => new ModelCopy());
      const place: VaultPlace = {
        copies: stored.map((copy) => ({
          get: (name) => Promise.resolve(copy.records.get(name)),
          put: (name, bytes) => {
            if (bytes === undefined) copy.records.delete(name);
            else copy.records.set(name, bytes);
            return Promise.resolve();
          },
          leave: () => {
            copy.isAway = true;
            return Promise.resolve(() => {
              copy.isAway = false;
              return Promise.resolve();
            });
          },
        })),
        open() {
          const vault = new ModelVault(stored);
          return Promise.resolve(mutant?.vault?.(vault, place) ?? vault);
        },
        close: () => Promise.resolve(),
      };
      return Promise.resolve(place);
    },
  };
}
