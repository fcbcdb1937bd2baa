/**
 * The suite of vaults of keys (privacy/key-vault.ts). `vaultConformance` runs all cases over a way to make vaults;
 * `mutantsFail` shows that they find a vault which lacks one of the rules (vault-mutants.ts).
 */
import { describe, expect, test } from 'vitest';
import type { KeyVault, RecordName } from '../../src/privacy/key-vault.js';
import type { MemoryDisk } from '../store/embedded/memory-disk.js';
import { RECORD_CASES } from './vault-cases.js';
import { DISK_CASES } from './vault-disk-cases.js';
import { MUTANTS, type Mutant } from './vault-mutants.js';

/** A copy of the records, accessed without the vault. */
export interface VaultCopy {
  get(name: RecordName): Promise<Buffer | undefined>;
  /** @param bytes undefined removes the record. */
  put(name: RecordName, bytes: Buffer | undefined): Promise<void>;
  /** On return it cannot be reached. @returns a function that restores it. */
  leave(): Promise<() => Promise<void>>;
  /** Of a directory. */
  readonly disk?: MemoryDisk;
}

/** Where vaults are made that have the same records. */
export interface VaultPlace {
  /** As `KeyVault.copies` has them. */
  readonly copies: readonly VaultCopy[];
  /** As a process of its own opens it. */
  open(): Promise<KeyVault>;
  /** The same place, on other disks. */
  readonly onDisks?: (disks: readonly MemoryDisk[]) => VaultPlace;
  /** Of a database: backs up its state. @returns a function that restores it. */
  readonly backUp?: () => Promise<() => Promise<void>>;
  /** Closes what it has opened. */
  close(): Promise<void>;
}

export interface VaultSubject {
  readonly name: string;
  readonly copies: number;
  readonly hasDisks: boolean;
  readonly hasBackups: boolean;
  /** @param mutant what the vaults lack. */
  makePlace(mutant?: Mutant): Promise<VaultPlace>;
}

export interface VaultCase {
  /** Whether a subject can have it. */
  readonly applies?: (subject: VaultSubject) => boolean;
  readonly run: (place: VaultPlace) => Promise<void>;
}

const CASES: Readonly<Record<string, VaultCase>> = { ...RECORD_CASES, ...DISK_CASES };

export function vaultConformance(subject: VaultSubject): void {
  describe(`${subject.name} as a vault`, () => {
    for (const [name, { applies, run }] of Object.entries(CASES)) {
      if (applies?.(subject) === false) continue;
      test(`[R-1325] ${name}`, () => runIn(subject, undefined, run));
    }
  });
}

/** Without a rule, a vault fails each of the cases that are named for it. */
export function mutantsFail(subject: VaultSubject): void {
  describe(`${subject.name} without a rule`, () => {
    for (const mutant of MUTANTS) {
      const cases = mutant.cases.filter((name) => caseOf(name).applies?.(subject) !== false);
      if (cases.length === 0 || mutant.applies?.(subject) === false) continue;
      test(`[R-1325] ${mutant.lacks}: a case fails`, async () => {
        for (const name of cases)
          await expect(runIn(subject, mutant, caseOf(name).run), name).rejects.toThrow();
      });
    }
  });
}

function caseOf(name: string): VaultCase {
  const found = CASES[name];
  if (found === undefined) throw new Error(`there is no case ${name}`);
  return found;
}

async function runIn(
  subject: VaultSubject,
  mutant: Mutant | undefined,
  run: VaultCase['run'],
): Promise<void> {
  const place = await subject.makePlace(mutant);
  try {
    await run(place);
  } finally {
    await place.close();
  }
}
