/**
 * Writes the records of a vault without losing changes of other processes, and brings lagging copies up to
 * date. `mergedStates` is the only repair: if copies differ, or another process wrote first, the keys that
 * both can open are written.
 */
import assert from 'node:assert';
import { randomBytes } from 'node:crypto';
import type { KeyEncryptionKey } from './key-encryption-key.js';
import {
  checkOf,
  COPIES,
  epochBytes,
  epochIn,
  epochName,
  epochOf,
  epochRecordIn,
  generationOf,
  stateNames,
} from './key-record.js';
import { keyStateHeader, mergedStates, opensAlike, type KeyState } from './key-state.js';
import { KeysUnfit, type KeyVault, type RecordName, VaultAway } from './key-vault.js';
import { epochsOf, OpenedVault } from './opened-vault.js';

const KEY_BYTES = 32;
/** Maximum attempts to write a record that other processes change. */
const MOST_TRIES = 100;

/** Changes a key state; returns undefined to leave it. @param stored undefined if no copy has it. */
export type Change = (stored: KeyState | undefined) => KeyState | undefined;

export interface VaultWriterOptions {
  readonly vault: KeyVault;
  readonly kek: KeyEncryptionKey;
  readonly ledgerId: string;
  /** Called when one copy of the keys cannot be written; another copy is complete. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Called with each key state after it is stored. */
  readonly onStored: (state: KeyState) => void;
}

export class VaultWriter {
  readonly vault: KeyVault;
  readonly opened: OpenedVault;
  readonly #options: VaultWriterOptions;
  #epoch = 0;
  #epochBegun = 0;
  #isRotating = false;
  /** Records that the vault has lost by a restore from an older copy, until they are stored again. */
  readonly #lost = new Map<RecordName, Buffer | KeyState>();
  /** Copies that may lack records, or have older ones. */
  #lagging = new Set<string>();
  /** Copies whose last write failed. */
  readonly #inTrouble = new Set<string>();
  readonly #known = new Set<string>();

  constructor(options: VaultWriterOptions) {
    this.#options = options;
    this.vault = options.vault;
    this.opened = new OpenedVault(options.vault, options.kek);
  }

  /** The number of the newest epoch. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Start of the newest epoch, in ms since 1970. */
  get epochBegun(): number {
    return this.#epochBegun;
  }

  /** Whether an older epoch exists too. Reads memory only, because a disk may hang. */
  get isRotating(): boolean {
    return this.#isRotating;
  }

  /** The number of copies, and the number of copies whose last write failed. */
  get directories(): { readonly all: number; readonly inTrouble: number } {
    return { all: this.vault.copies.length, inTrouble: new Set([...this.#inTrouble, ...this.#lagging]).size };
  }

  /** Reads the changes of other processes. @throws VaultAway, KeysUnfit, KekFault */
  async catchUp(): Promise<void> {
    for (const [name, bytes] of await this.vault.refresh()) this.#lost.set(name, bytes);
    // Lost states are decrypted before the epoch keys that the vault lacks are forgotten.
    for (const [name, lost] of this.#lost)
      if (Buffer.isBuffer(lost) && name.endsWith('.keys')) this.#lost.set(name, this.#openLost(lost));
    for (const copy of this.vault.copies) if (!this.#known.has(copy)) this.#lagging.add(copy);
    for (const copy of this.vault.copies) this.#known.add(copy);
    this.opened.forgetEpochs();
    this.lookAtEpochs();
  }

  /** Reads the changes of other processes, restores lost records, and brings lagging copies up to date. */
  async refresh(): Promise<void> {
    await this.catchUp();
    await this.#restoreLost();
    await this.level();
  }

  /** Reports that no copy can be reached; the caller retries. */
  noteAway(error: VaultAway): void {
    for (const copy of this.vault.copies) this.#noteTrouble(copy, error);
  }

  /** Stores an epoch, unless another process has stored it. @throws VaultAway, KekFault */
  async makeEpoch(epoch: number): Promise<void> {
    const key = randomBytes(KEY_BYTES);
    const record = {
      ...{ ledger: this.#options.ledgerId, epoch, begun: new Date().toISOString(), generation: 1 },
      ...{ check: checkOf(key), wrapped: [await this.#options.kek.wrap(key)] },
    };
    const done = await this.#noting(this.vault.write(epochName(epoch), epochBytes(record), 0));
    if (done === 'stale') await this.vault.refresh();
  }

  /** Tries to write. @throws VaultAway if a record cannot be written. */
  prove(): Promise<void> {
    return this.#noting(this.vault.prove());
  }

  /** Awaits a write, and notes the copies that it did not reach. */
  async #noting<Done>(write: Promise<Done>): Promise<Done> {
    const done = await write.catch((error: unknown) => {
      this.#noteUnwritten(true);
      throw error;
    });
    this.#noteUnwritten(false);
    return done;
  }

  /** Changes a key state durably. @returns the stored state. @throws VaultAway */
  async write(name: RecordName, change: Change): Promise<KeyState> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const next = this.#next(name, change);
      if (next === undefined) throw new KeysUnfit(`${name} is damaged in ${this.opened.where}`);
      const done = await this.#noting(this.vault.write(name, next.bytes, next.after));
      if (done === 'written') {
        this.#options.onStored(next.state);
        return next.state;
      }
      await this.catchUp();
    }
    throw new VaultAway(`${name} is changed repeatedly by other processes`);
  }

  /**
   * Changes a key state so that no reached copy keeps the old bytes.
   * @returns the copies that were not reached.
   */
  async erase(name: RecordName, change: Change): Promise<string[]> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const next = this.#next(name, change);
      if (next === undefined) break;
      const done = await this.#noting(this.vault.erase(name, next.bytes, next.after));
      if (done !== 'stale') {
        this.#options.onStored(next.state);
        return [...done];
      }
      await this.catchUp();
    }
    return [...this.vault.copies];
  }

  /**
   * The changed key state under the newest epoch, and the generation that it replaces; undefined for no
   * change.
   */
  #next(
    name: RecordName,
    change: Change,
  ): { readonly bytes: Buffer; readonly state: KeyState; readonly after: number } | undefined {
    const { state: stored, bytes, generation: after } = this.opened.due(name);
    const changed = change(stored);
    if (changed === undefined) return undefined;
    if (stored !== undefined && bytes !== undefined && stored.epoch === this.#epoch)
      if (opensAlike(changed, stored)) return { bytes, state: stored, after };
    const state = { ...changed, epoch: this.#epoch, generation: after + 1 };
    return { bytes: this.opened.encode(state), state, after };
  }

  /**
   * Replaces a record, valid or not, in every reached copy; undefined removes it.
   * @returns the copies that could not be reached.
   */
  async put(name: RecordName, bytes: Buffer | undefined): Promise<string[]> {
    const { generation } = this.opened.due(name);
    const done = await this.#noting(this.vault.erase(name, bytes, generation));
    return done === 'stale' ? [...this.vault.copies] : [...done];
  }

  /**
   * Removes old epochs.
   * @returns the copies that may still have one; `stale` if a key state is under one of them.
   */
  async endOldEpochs(): Promise<string[] | 'stale'> {
    const unreached = new Set<string>();
    for (const epoch of epochsOf(this.vault).filter((each) => each < this.#epoch)) {
      const name = epochName(epoch);
      const done = await this.#noting(this.vault.erase(name, undefined, this.opened.due(name).generation));
      if (done === 'stale') return 'stale';
      for (const copy of done) unreached.add(copy);
    }
    this.opened.forgetEpochs();
    return [...unreached];
  }

  /** Notes the copies that a write did not reach. @param isRefused whether the write failed as a whole. */
  #noteUnwritten(isRefused: boolean): void {
    const { copies, unwritten } = this.vault;
    for (const [copy, error] of unwritten) {
      this.#noteTrouble(copy, error);
      // After a failure of the first copy no other one was tried.
      if (!isRefused || copy !== copies[0]) this.#lagging.add(copy);
    }
    if (isRefused) return;
    for (const copy of this.#inTrouble)
      if (!unwritten.has(copy) && !this.#lagging.has(copy)) this.#inTrouble.delete(copy);
  }

  #noteTrouble(copy: string, error: unknown): void {
    if (this.#inTrouble.has(copy)) return;
    this.#inTrouble.add(copy);
    this.#options.onTrouble(`the keys of payloads in ${copy} cannot be written`, error);
  }

  /** Brings lagging copies up to date. */
  async level(): Promise<void> {
    if (this.#lagging.size === 0) return;
    const missing = new Set<string>();
    const epochs = epochsOf(this.vault).filter((epoch) => this.#isNeeded(epoch));
    const rest = [...this.vault.list('actions'), COPIES];
    for (const name of [...epochs.map(epochName), ...stateNames(this.vault), ...rest]) {
      const [first, ...others] = this.vault.read(name);
      if (first === undefined) continue;
      const alike = { bytes: first, generation: generationOf(name, first) };
      const { bytes, generation } = others.length > 0 ? this.opened.due(name) : alike;
      if (bytes === undefined) continue;
      const done = await this.#noting(this.vault.erase(name, bytes, generation));
      for (const copy of done === 'stale' ? this.#lagging : done) missing.add(copy);
      // No lagging copy can be reached.
      if ([...this.#lagging].every((copy) => missing.has(copy))) break;
    }
    for (const copy of this.#lagging) if (!missing.has(copy)) this.#inTrouble.delete(copy);
    this.#lagging = missing;
  }

  /** Whether an epoch is in use; false for an ended epoch that a formerly unreachable copy still has. */
  #isNeeded(epoch: number): boolean {
    if (epoch >= this.#epoch) return true;
    const isUnder = (name: RecordName) =>
      this.vault.read(name).some((bytes) => epochOf(name, bytes) === epoch);
    return stateNames(this.vault).some(isUnder);
  }

  /** Stores lost records again, unless other processes have destroyed them. */
  async #restoreLost(): Promise<void> {
    const isEpoch = (name: RecordName) => epochIn(name) !== undefined;
    const names = [...this.#lost.keys()].sort((a, b) => Number(isEpoch(b)) - Number(isEpoch(a)));
    for (const name of names) {
      const lost = this.#lost.get(name);
      if (Buffer.isBuffer(lost)) {
        const { generation } = this.opened.due(name);
        const isLacking = generation < generationOf(name, lost);
        if (isLacking && (await this.vault.write(name, lost, generation)) === 'stale') continue;
        if (isEpoch(name)) this.lookAtEpochs();
      } else if (lost !== undefined) {
        await this.write(name, (stored) => (stored ? mergedStates(lost, stored) : lost));
      }
      this.#lost.delete(name);
    }
  }

  /** @param bytes a record that the vault once had, which is therefore valid. */
  #openLost(bytes: Buffer): KeyState {
    const header = keyStateHeader(bytes);
    assert(header !== undefined);
    const name = epochName(header.epoch);
    const lostEpoch = this.#lost.get(name);
    const record = Buffer.isBuffer(lostEpoch) ? epochRecordIn(name, lostEpoch) : undefined;
    if (record !== undefined) this.opened.learnEpoch(record);
    const state = this.opened.decode(bytes);
    if (state === undefined)
      throw new KeysUnfit(`the key of epoch ${header.epoch} does not open a lost record`);
    return state;
  }

  /** Reads the number of the newest epoch. @throws VaultAway if there is none. */
  lookAtEpochs(): void {
    const epochs = epochsOf(this.vault);
    const newest = epochs.at(-1);
    if (newest === undefined) throw new VaultAway(`the keys in ${this.opened.where} were removed`);
    this.#isRotating = epochs.length > 1;
    if (newest !== this.#epoch) this.#epochBegun = Date.parse(this.opened.epochRecord(newest).begun);
    this.#epoch = newest;
  }
}
