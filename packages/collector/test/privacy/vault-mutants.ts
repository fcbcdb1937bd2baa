/**
 * Vaults that lack a rule, one each, to show that the suite finds it: wrappers of a vault, or of the disk calls that it makes.
 * Each names the cases that must fail on it.
 */
import path from 'node:path';
import { VaultAway, type KeyVault, type RecordName } from '../../src/privacy/key-vault.js';
import type { Files } from '../../src/files.js';
import type { VaultPlace, VaultSubject } from './vault-conformance.js';
import { epochOf, generationIn, storedGeneration } from './vault-records.js';

export interface Mutant {
  /** The rule that it lacks. */
  readonly lacks: string;
  readonly applies?: (subject: VaultSubject) => boolean;
  readonly cases: readonly string[];
  readonly vault?: (vault: KeyVault, place: VaultPlace) => KeyVault;
  readonly files?: (files: Files) => Files;
}

const isDatabase = (subject: VaultSubject) => subject.hasBackups;

/** The vault with some of its methods replaced. */
function changed(vault: KeyVault, methods: Partial<KeyVault>): KeyVault {
  return {
    copies: vault.copies,
    get unwritten() {
      return vault.unwritten;
    },
    refresh: () => vault.refresh(),
    list: (within) => vault.list(within),
    read: (name) => vault.read(name),
    write: (name, bytes, after) => vault.write(name, bytes, after),
    erase: (name, bytes, after) => vault.erase(name, bytes, after),
    prove: () => vault.prove(),
    close: () => vault.close(),
    ...methods,
  };
}

async function putEverywhere(place: VaultPlace, name: RecordName, bytes: Buffer | undefined): Promise<void> {
  for (const copy of place.copies) await copy.put(name, bytes);
}

/** The generation that is stored, as the vault finds it now. */
async function current(vault: KeyVault, name: RecordName): Promise<number> {
  await vault.refresh();
  return storedGeneration(vault, name);
}

/** Retries if another writer was faster. */
async function onCurrent<Outcome>(
  vault: KeyVault,
  name: RecordName,
  work: (after: number) => Promise<Outcome | 'stale'>,
): Promise<Outcome | 'stale'> {
  for (;;) {
    const after = await current(vault, name);
    const outcome = await work(after);
    if (outcome !== 'stale' || after === (await current(vault, name))) return outcome;
  }
}

export const MUTANTS: readonly Mutant[] = [
  {
    lacks: 'the generation is compared',
    cases: [
      'of two writers that replace one generation exactly one has written',
      'a writer that has not refreshed since a write by another is stale',
      'a mirror one generation ahead is not overwritten by a write that does not know it',
    ],
    vault: (vault) =>
      changed(vault, {
        write: (name, bytes) => onCurrent(vault, name, (after) => vault.write(name, bytes, after)),
        erase: (name, bytes) => onCurrent(vault, name, (after) => vault.erase(name, bytes, after)),
      }),
  },
  {
    lacks: 'generation 0 means a new record',
    cases: ['a missing record has generation 0'],
    vault: (vault) =>
      changed(vault, {
        write: async (name, bytes, after) =>
          vault.write(name, bytes, after === 0 ? await current(vault, name) : after),
      }),
  },
  {
    lacks: 'a stale write changes nothing',
    cases: [
      'a missing record has generation 0',
      'of two writers that replace one generation exactly one has written',
      'a write of a state under an erased epoch is stale',
    ],
    vault: (vault, place) =>
      changed(vault, {
        async write(name, bytes, after) {
          const outcome = await vault.write(name, bytes, after);
          if (outcome === 'stale') await putEverywhere(place, name, bytes);
          await vault.refresh();
          return outcome;
        },
      }),
  },
  {
    lacks: 'a write may be repeated',
    cases: ['a repeated write is written'],
    vault: (vault) =>
      changed(vault, {
        write: async (name, bytes, after) =>
          storedGeneration(vault, name) === generationIn(name, bytes)
            ? 'stale'
            : vault.write(name, bytes, after),
      }),
  },
  {
    lacks: 'an erased record is gone',
    cases: ['an erased record is gone for every process', 'an epoch is not erased while a state is under it'],
    vault: (vault) =>
      changed(vault, {
        erase: async (name, bytes, after) => (bytes === undefined ? [] : vault.erase(name, bytes, after)),
      }),
  },
  {
    lacks: 'the epoch of a state must exist',
    cases: ['a write of a state under an erased epoch is stale'],
    vault: (vault, place) =>
      changed(vault, {
        async write(name, bytes, after) {
          const outcome = await vault.write(name, bytes, after);
          const isNext = after === (await current(vault, name));
          const epoch = epochOf(name, bytes);
          if (outcome === 'written' || !isNext || epoch === undefined || vault.read(epoch).length > 0)
            return outcome;
          await putEverywhere(place, name, bytes);
          return 'written';
        },
      }),
  },
  {
    lacks: 'an epoch that is still used is not erased',
    cases: ['an epoch is not erased while a state is under it'],
    vault: (vault, place) =>
      changed(vault, {
        async erase(name, bytes, after) {
          const outcome = await vault.erase(name, bytes, after);
          if (outcome !== 'stale' || !name.startsWith('epochs/')) return outcome;
          await putEverywhere(place, name, bytes);
          return [];
        },
      }),
  },
  {
    lacks: 'the name of a key state agrees with its header',
    cases: ["a key state under another record's name is not sound"],
    vault: (vault, place) => {
      const raw = new Map<RecordName, Buffer>();
      return changed(vault, {
        async refresh() {
          const lost = await vault.refresh();
          for (const name of vault.list('buckets')) {
            const bytes = await place.copies[0]?.get(name);
            if (bytes !== undefined) raw.set(name, bytes);
          }
          return lost;
        },
        read: (name) => [raw.get(name) ?? vault.read(name)].flat(),
      });
    },
  },
  {
    lacks: 'a refresh reads changes by others',
    applies: isDatabase,
    cases: ['a refresh brings what others have written and erased'],
    vault: (vault) => changed(vault, { refresh: () => Promise.resolve(new Map()) }),
  },
  {
    lacks: 'an older state of the database is noticed',
    cases: [
      'a database restored to an older state gets back what a process knows, and nothing erased',
      'an older state of the database is noticed also after a write by another process',
    ],
    vault: (vault) =>
      changed(vault, {
        async refresh() {
          await vault.refresh();
          return new Map();
        },
      }),
  },
  {
    lacks: 'too few copies end a write',
    cases: [
      'a write needs the first copy and another one',
      'without a reachable copy nothing is written, and with the copies back all works again',
      'on a full disk a write fails and an erasure names the copy; both leave what was there',
    ],
    vault: (vault) =>
      changed(vault, {
        async write(name, bytes, after) {
          try {
            return await vault.write(name, bytes, after);
          } catch (error) {
            if (error instanceof VaultAway) return 'written';
            throw error;
          }
        },
      }),
  },
  {
    lacks: 'a proof writes',
    cases: [
      'without a reachable copy nothing is written, and with the copies back all works again',
      'on a full disk a write fails and an erasure names the copy; both leave what was there',
    ],
    vault: (vault) => changed(vault, { prove: () => Promise.resolve() }),
  },
  {
    lacks: 'an erasure names the copies that it did not reach',
    cases: [
      'an erasure names an unreachable copy, whose old bytes are later returned with the others',
      'a full disk of a mirror is named by an erasure; one of the first copy ends a write',
      'on a full disk a write fails and an erasure names the copy; both leave what was there',
    ],
    vault: (vault) =>
      changed(vault, {
        async erase(name, bytes, after) {
          const outcome = await vault.erase(name, bytes, after);
          return outcome === 'stale' ? outcome : [];
        },
      }),
  },
  {
    lacks: 'the content of each copy is returned',
    cases: [
      'an erasure names an unreachable copy, whose old bytes are later returned with the others',
      'a mirror two generations behind is returned with the others, and gets the next write',
    ],
    vault: (vault) => changed(vault, { read: (name) => vault.read(name).slice(0, 1) }),
  },
  {
    lacks: 'a copy that lags gets what the others have',
    cases: ['a mirror that is behind gets what the others have'],
    vault: (vault) =>
      changed(vault, {
        write: async (name, bytes, after) =>
          vault.read(name)[0]?.equals(bytes) ? 'written' : vault.write(name, bytes, after),
        erase: async (name, bytes, after) =>
          bytes !== undefined && vault.read(name)[0]?.equals(bytes) ? [] : vault.erase(name, bytes, after),
      }),
  },
  {
    lacks: 'a copy with the keys of another log, or without the keys that it had, is left out',
    cases: [
      'a mirror with the keys of another log is not overwritten, and is named',
      'a mirror that had keys and has none is not filled, and is named',
    ],
    vault: (vault, place) =>
      changed(vault, {
        async write(name, bytes, after) {
          const outcome = await vault.write(name, bytes, after);
          if (outcome === 'written') await putEverywhere(place, name, bytes);
          return outcome;
        },
      }),
  },
  {
    lacks: 'old bytes are overwritten',
    cases: ['an erasure that returned leaves none of the old bytes in any file, with a name or without'],
    files: (files) => ({
      ...files,
      write(fd, source, length, position) {
        if (source.subarray(0, length).some((byte) => byte !== 0)) files.write(fd, source, length, position);
      },
    }),
  },
  {
    lacks: 'overwritten bytes are flushed',
    cases: ['an erasure that returned leaves none of the old bytes in any file, with a name or without'],
    files(files) {
      const zeroed = new Set<number>();
      return {
        ...files,
        write(fd, source, length, position) {
          if (source.subarray(0, length).some((byte) => byte !== 0)) zeroed.delete(fd);
          else zeroed.add(fd);
          files.write(fd, source, length, position);
        },
        datasync(fd) {
          if (!zeroed.has(fd)) files.datasync(fd);
        },
        close(fd) {
          zeroed.delete(fd);
          files.close(fd);
        },
      };
    },
  },
  {
    lacks: 'a file is flushed before it is renamed',
    cases: [
      'a kill or a loss of power at any call of an erasure leaves the old bytes or the new ones',
      'a kill or a loss of power at any call of a write leaves the old bytes or the new ones',
    ],
    files: (files) => ({ ...files, datasync: () => undefined, datasyncLater: () => Promise.resolve() }),
  },
  {
    lacks: 'a name is flushed',
    cases: [
      'a kill or a loss of power at any call of an erasure leaves the old bytes or the new ones',
      'a kill or a loss of power at any call of a write leaves the old bytes or the new ones',
    ],
    files: (files) => ({ ...files, syncDirectory: () => undefined }),
  },
  {
    lacks: 'a record is replaced by a rename',
    cases: [
      'a kill or a loss of power at any call of an erasure leaves the old bytes or the new ones',
      'a kill or a loss of power at any call of a write leaves the old bytes or the new ones',
    ],
    files: (files) => ({
      ...files,
      rename(from, to) {
        if (files.look(to) === undefined) {
          files.rename(from, to);
          return;
        }
        const [source, target] = [files.open(from, 'r'), files.open(to, 'r+')];
        const bytes = Buffer.alloc(files.size(source));
        files.read(source, bytes, 0, bytes.length, 0);
        files.truncate(target, 0);
        files.write(target, bytes, bytes.length, 0);
        files.datasync(target);
        [source, target].forEach((fd) => files.close(fd));
        files.remove(from);
        files.syncDirectory(path.dirname(to));
      },
    }),
  },
  {
    lacks: 'old bytes are overwritten after the new ones are there',
    applies: ({ copies }) => copies === 1,
    cases: ['a kill or a loss of power at any call of an erasure leaves the old bytes or the new ones'],
    files: (files) => ({
      ...files,
      rename(from, to) {
        if (files.look(to) !== undefined) {
          const old = files.open(to, 'r+');
          files.write(old, Buffer.alloc(files.size(old)), files.size(old), 0);
          files.datasync(old);
          files.close(old);
        }
        files.rename(from, to);
      },
    }),
  },
  {
    lacks: 'a full disk is an error',
    cases: [
      'on a full disk a write fails and an erasure names the copy; both leave what was there',
      'a full disk of a mirror is named by an erasure; one of the first copy ends a write',
    ],
    files: (files) => ({
      ...files,
      write(fd, source, length, position) {
        try {
          files.write(fd, source, length, position);
        } catch (error) {
          if ((error as { code?: string }).code !== 'ENOSPC') throw error;
        }
      },
    }),
  },
];
