/** Vaults of one directory, and of several that mirror each other, each on a disk in memory of its own. */
import path from 'node:path';
import type { Files } from '../../src/files.js';
import { DirectoryVault } from '../../src/privacy/directory-vault.js';
import { KeyFiles } from '../../src/privacy/key-files.js';
import { MemoryDisk } from '../store/embedded/memory-disk.js';
import type { VaultCopy, VaultPlace, VaultSubject } from './vault-conformance.js';
import { LEDGER } from './vault-records.js';
import type { Mutant } from './vault-mutants.js';

class DirectoryCopy implements VaultCopy {
  readonly files: Files;
  #isAway = false;

  constructor(
    readonly directory: string,
    readonly disk: MemoryDisk,
    mutant: Mutant | undefined,
  ) {
    const files = mutant?.files?.(disk.files) ?? disk.files;
    this.files = new Proxy(files, {
      get: (target, call: keyof Files) => {
        if (this.#isAway) throw Object.assign(new Error('EIO'), { code: 'EIO' });
        return Reflect.get(target, call) as unknown;
      },
    });
  }

  get(name: string): Promise<Buffer | undefined> {
    const [file, disk] = [path.join(this.directory, name), this.disk];
    const isThere = disk.fileNames(path.dirname(file)).includes(path.basename(file));
    return Promise.resolve(isThere ? Buffer.from(disk.bytesOf(file)) : undefined);
  }

  put(name: string, bytes: Buffer | undefined): Promise<void> {
    const file = path.join(this.directory, name);
    this.disk.files.makeDirectory(path.dirname(file));
    if (bytes === undefined) this.disk.remove(file);
    else this.disk.put(file, bytes);
    return Promise.resolve();
  }

  leave(): Promise<() => Promise<void>> {
    this.#isAway = true;
    return Promise.resolve(() => {
      this.#isAway = false;
      return Promise.resolve();
    });
  }
}

export function directoryVaults(count: number): VaultSubject {
  return {
    name: count === 1 ? 'a directory' : `${count} directories`,
    ...{ copies: count, hasDisks: true, hasBackups: false },
    makePlace(mutant) {
      const disks = Array.from({ length: count }, () => new MemoryDisk());
      for (const [i, disk] of disks.entries()) disk.files.makeDirectory(directoryOf(i));
      return Promise.resolve(placeOn(disks, mutant));
    },
  };
}

const directoryOf = (i: number) => `/keys-${i}`;

function placeOn(disks: readonly MemoryDisk[], mutant: Mutant | undefined): VaultPlace {
  const copies = disks.map((disk, i) => new DirectoryCopy(directoryOf(i), disk, mutant));
  const place: VaultPlace = {
    copies,
    open() {
      const all = copies.map(({ directory, files }) => new KeyFiles(directory, files));
      const vault = new DirectoryVault(all, { ledgerId: LEDGER });
      return Promise.resolve(mutant?.vault?.(vault, place) ?? vault);
    },
    onDisks: (others) => placeOn(others, mutant),
    close: () => Promise.resolve(),
  };
  return place;
}
