/**
 * Writes the records of a vault: no change of another process is lost, and no copy that can be written stays behind.
 * `mergedStates` is the only repair: where copies differ, or another process was first, what both open is written.
 */
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
/** Of a record that others change meanwhile. */
const MOST_TRIES = 100;

/** What a key state becomes; undefined leaves it. @param stored undefined where no copy has it. */
export type Change = (stored: KeyState | undefined) => KeyState | undefined;

export interface VaultWriterOptions {
  readonly vault: KeyVault;
  readonly kek: KeyEncryptionKey;
  readonly ledgerId: string;
  /** A copy of the keys cannot be written; another has what it lacks. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Called with each key state once it is stored. */
  readonly onStored: (state: KeyState) => void;
}

export class VaultWriter {
  readonly vault: KeyVault;
  readonly opened: OpenedVault;
  readonly #options: VaultWriterOptions;
  #epoch = 0;
  #epochBegun = 0;
  #isRotating = false;
  /** What a vault that was restored from an older copy has lost, and does not have again yet. */
  readonly #lost = new Map<RecordName, Buffer | KeyState>();
  /** Copies that may lack records, or have older ones. */
  #lagging = new Set<string>();
  /** Copies that could not be written the last time. */
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

  /** When it was begun, in ms since 1970. */
  get epochBegun(): number {
    return this.#epochBegun;
  }

  /** Whether there is an older epoch too. Asked of no disk, which may hang. */
  get isRotating(): boolean {
    return this.#isRotating;
  }

  /** How many copies there are, and how many could not be written the last time. */
  get directories(): { readonly all: number; readonly inTrouble: number } {
    return { all: this.vault.copies.length, inTrouble: new Set([...this.#inTrouble, ...this.#lagging]).size };
  }

  /** On return what others have stored is known here. @throws VaultAway, KeysUnfit, KekFault */
  async catchUp(): Promise<void> {
    for (const [name, bytes] of await this.vault.refresh()) this.#lost.set(name, bytes);
    // By the keys that they were written under, before those that the vault does not have are forgotten.
    for (const [name, lost] of this.#lost)
      if (Buffer.isBuffer(lost) && name.endsWith('.keys')) this.#lost.set(name, this.#openLost(lost));
    for (const copy of this.vault.copies) if (!this.#known.has(copy)) this.#lagging.add(copy);
    for (const copy of this.vault.copies) this.#known.add(copy);
    this.opened.forgetEpochs();
    this.lookAtEpochs();
  }

  /** On return the same, the vault has again what it had lost, and every copy that can be written what the others have. */
  async refresh(): Promise<void> {
    await this.catchUp();
    await this.#restoreLost();
    await this.level();
  }

  /** No copy can be reached: what was to be done is tried again. */
  noteAway(error: VaultAway): void {
    for (const copy of this.vault.copies) this.#noteTrouble(copy, error);
  }

  /** On return the epoch is stored; another process may have made it. @throws VaultAway, KekFault */
  async makeEpoch(epoch: number): Promise<void> {
    const key = randomBytes(KEY_BYTES);
    const record = {
      ...{ ledger: this.#options.ledgerId, epoch, begun: new Date().toISOString(), generation: 1 },
      ...{ check: checkOf(key), wrapped: [await this.#options.kek.wrap(key)] },
    };
    const done = await this.#noting(this.vault.write(epochName(epoch), epochBytes(record), 0));
    if (done === 'stale') await this.vault.refresh();
  }

  /** @throws VaultAway when a record could not be written now. */
  prove(): Promise<void> {
    return this.#noting(this.vault.prove());
  }

  /** On return what the write did not reach is noted. */
  async #noting<Done>(write: Promise<Done>): Promise<Done> {
    const done = await write.catch((error: unknown) => {
      this.#noteUnwritten(true);
      throw error;
    });
    this.#noteUnwritten(false);
    return done;
  }

  /** On return the record is durable as `change` has made it. @returns it. @throws VaultAway */
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
    throw new VaultAway(`${name} is changed by others all the time`);
  }

  /** On return no copy that was reached has anything but what `change` has left. @returns the copies that were not. */
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

  /** What is to be stored of a key state, under the newest epoch, and what it replaces; undefined where it is to be left. */
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
   * On return every copy that was reached has these bytes, or nothing of the record, also of one that is not sound.
   * @returns the copies that could not be reached.
   */
  async put(name: RecordName, bytes: Buffer | undefined): Promise<string[]> {
    const { generation } = this.opened.due(name);
    const done = await this.#noting(this.vault.erase(name, bytes, generation));
    return done === 'stale' ? [...this.vault.copies] : [...done];
  }

  /** @returns the copies that may have the key of an older epoch; `stale` where a key state is under one of them. */
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

  /** @param isRefused whether nothing is written of what was to be, but in copies before the last that was tried. */
  #noteUnwritten(isRefused: boolean): void {
    const { copies, unwritten } = this.vault;
    for (const [copy, error] of unwritten) {
      this.#noteTrouble(copy, error);
      // What the first copy did not take was tried in no other.
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

  /** On return every copy that can be written holds what the others hold. */
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
      // Nothing more can be won.
      if ([...this.#lagging].every((copy) => missing.has(copy))) break;
    }
    for (const copy of this.#lagging) if (!missing.has(copy)) this.#inTrouble.delete(copy);
    this.#lagging = missing;
  }

  /** Not an epoch that was ended and that a copy which was away brings back. */
  #isNeeded(epoch: number): boolean {
    if (epoch >= this.#epoch) return true;
    const isUnder = (name: RecordName) =>
      this.vault.read(name).some((bytes) => epochOf(name, bytes) === epoch);
    return stateNames(this.vault).some(isUnder);
  }

  /** On return the vault has again what it had lost, as far as others have not destroyed it. */
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

  #openLost(bytes: Buffer): KeyState {
    const name = epochName(keyStateHeader(bytes).epoch);
    const lostEpoch = this.#lost.get(name);
    const record = Buffer.isBuffer(lostEpoch) ? epochRecordIn(name, lostEpoch) : undefined;
    if (record !== undefined) this.opened.learnEpoch(record);
    return this.opened.decode(bytes);
  }

  /** On return the number of the newest epoch is known. @throws VaultAway where there is none. */
  lookAtEpochs(): void {
    const epochs = epochsOf(this.vault);
    const newest = epochs.at(-1);
    if (newest === undefined) throw new VaultAway(`there are no keys any more in ${this.opened.where}`);
    this.#isRotating = epochs.length > 1;
    if (newest !== this.#epoch) this.#epochBegun = Date.parse(this.opened.epochRecord(newest).begun);
    this.#epoch = newest;
  }
}
