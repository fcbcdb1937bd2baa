/**
 * The payload keys of a log, for the process that writes it: assigns keys to events, makes new roots durable,
 * destroys keys and begins epochs. Storage is behind VaultWriter and OpenedVault, which decode, merge and
 * repair the records of a vault; this module knows no file and no SQL.
 *
 * A bucket covers at most BUCKET_PLACES entries and one day of one process, with a random root per
 * organisation. No other process adds to it, so copies of the keys that diverge never have different roots in
 * one bucket. `mergedStates` is the only repair: if copies differ, or another process wrote first, the keys
 * that both can open are written.
 */
import { randomBytes, type KeyObject } from 'node:crypto';
import type { KeyEncryptionKey } from './key-encryption-key.js';
import {
  actionName,
  bucketName,
  bucketIn,
  holdId,
  holdName,
  NAMES,
  stateName,
  stateNames,
} from './key-record.js';
import {
  KINDS,
  mergedStates,
  newestNames,
  nextNames,
  opensAlike,
  without,
  withNewestNames,
  type KeyState,
} from './key-state.js';
import { BUCKET_ID_BYTES, type KeyTree, newRoot, onlyKey, type TreeNode } from './key-tree.js';
import { KeysUnfit, type KeyVault, type RecordName, VaultAway } from './key-vault.js';
import type { NameCipher } from './name-cipher.js';
import { epochsOf } from './opened-vault.js';
import { type Bucket, KeyReader, namesByTag, type StoredKeys, treesOf } from './stored-keys.js';
import { BUCKET_PLACES, bySequences, placesIn, type TakenKeys } from './taken-keys.js';
import { type Change, VaultWriter } from './vault-writer.js';

const BUCKET_MS = 24 * 3600 * 1000;
const KEY_BYTES = 32;
export type { TakenKeys } from './taken-keys.js';

/** The key of an event. */
export interface EventKey {
  /** Identifies the bucket in the frame of the event. */
  readonly tag: number;
  readonly key: string;
}

export interface PayloadKeysOptions {
  readonly vault: KeyVault;
  /** Unwraps the epoch keys and wraps new ones. */
  readonly kek: KeyEncryptionKey;
  readonly ledgerId: string;
  /** Whether keys must exist: new ones would make the encrypted events unreadable. */
  readonly isNeeded?: boolean;
  /** Whether keys are addressed by places instead of sequences, as for a log in a database. */
  readonly hasPlaces?: boolean;
  /** Called when one copy of the keys cannot be written; another copy is complete. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

export class PayloadKeys {
  /** Reads the stored keys. */
  readonly stored: StoredKeys;
  readonly #options: PayloadKeysOptions;
  readonly #writer: VaultWriter;
  readonly #reader: KeyReader;
  /** Whether a write of this process to the vault has succeeded. */
  #isProven = false;
  /** The bucket of new events. */
  #bucket: KeyState | undefined;
  #trees = new Map<string, KeyTree>();
  #begunAt = 0;
  /** Buckets with roots that may not be durable, by name. A failed write is repeated unchanged. */
  readonly #unsaved = new Map<RecordName, KeyState>();

  private constructor(options: PayloadKeysOptions) {
    this.#options = options;
    this.#writer = new VaultWriter({ ...options, onStored: (state) => this.#follow(state) });
    this.stored = this.#reader = new KeyReader(this.#writer.opened, (tag) => this.#unsavedBucket(tag));
  }

  /**
   * Opens the keys, or creates them if there are none. On return every writable copy is complete.
   * @throws KeysUnfit if they are needed and missing; KekFault; VaultAway.
   */
  static async open(options: PayloadKeysOptions): Promise<PayloadKeys> {
    const keys = new PayloadKeys(options);
    await options.vault.refresh();
    await keys.#makeEpoch();
    await keys.refresh();
    await keys.#makeNames();
    return keys;
  }

  /**
   * The key of the next event, from memory. The event may be made durable only after `flush` has returned.
   */
  keyFor(organisation: string, sequence: number): EventKey {
    const bucket = this.#bucketOf(sequence);
    const tree = this.#trees.get(organisation) ?? this.#addTree(organisation);
    const key = tree.keyAt(sequence - bucket.firstSequence);
    if (key === undefined) throw new Error('a place in a bucket has no key');
    return { tag: bucket.bucketId.readUInt32BE(0), key };
  }

  /** Whether every root in use is durable: then `flush` has nothing to do. */
  get isDurable(): boolean {
    return this.#unsaved.size === 0;
  }

  /** Makes every root in use durable. @throws VaultAway, after which the same call may be repeated. */
  async flush(): Promise<void> {
    if (this.isDurable) return;
    await this.#writer.refresh();
    while (this.#unsaved.size > 0)
      for (const [name, state] of this.#unsaved) {
        const saved = await this.#writer.write(name, (stored) =>
          stored ? mergedStates(state, stored) : state,
        );
        // Otherwise a root was added during the write.
        if (opensAlike(saved, this.#unsaved.get(name) ?? saved)) this.#unsaved.delete(name);
        this.#isProven = true;
      }
  }

  /** Checks that the vault can be written, and makes every root in use durable. @throws VaultAway */
  async prove(): Promise<void> {
    if (this.isDurable && !this.#isProven) await this.#writer.prove();
    this.#isProven = true;
    await this.flush();
  }

  /**
   * Reads the changes of other processes, and restores records that the vault has lost.
   * @throws VaultAway
   */
  async refresh(): Promise<void> {
    await this.#writer.refresh();
    this.#reader.readAgain();
    const stored = this.#bucket && this.#writer.opened.state(stateName(this.#bucket));
    if (stored !== undefined) this.#follow(stored);
  }

  /**
   * Destroys keys, bucket by bucket. On return neither `stored` nor any reached copy has them; other readers
   * keep them for at most ten seconds, until their next `readAgain`. May be repeated at any time.
   * @returns the copies that could not be reached and may still have them.
   */
  async destroy(taken: readonly TakenKeys[]): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    const unreached = new Set<string>();
    const names = namesByTag(this.#options.vault);
    const own = this.#options.hasPlaces === true ? taken : bySequences(taken, names.values());
    for (const [tag, ofBucket] of Map.groupBy(own, (each) => each.tag)) {
      const name = names.get(tag);
      const change: Change = (stored) => stored && without(stored, placesIn(stored, ofBucket));
      // If no copy has the record, `verify` reports it. A copy that does not answer may have it.
      const left = await (name === undefined
        ? this.#writer.put(bucketName(0, tag), undefined)
        : this.#writer.erase(name, change));
      for (const copy of left) unreached.add(copy);
      this.#reader.forget();
      await new Promise(setImmediate);
    }
    return [...unreached];
  }

  /**
   * Stores an action beside the keys that it destroys. Its name is the hash of its text, because diverged
   * copies of the log may contain different actions. @returns the copies that could not be reached.
   */
  async noteAction(body: object): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    const text = `${JSON.stringify(body)}\n`;
    return this.#writer.put(actionName(text), Buffer.from(text));
  }

  /**
   * Begins an epoch and encrypts all key states under its key. If every copy could be reached, no record of
   * an older epoch remains: then remnants of replaced key states on a disk can no longer be opened. If
   * another process has begun an epoch, that epoch is completed.
   * @returns the copies that could not be reached. @throws VaultAway, KekFault if no epoch was begun.
   */
  async rotate(): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    await this.#writer.makeEpoch(this.#writer.epoch + 1);
    this.#writer.lookAtEpochs();
    return this.finishRotation();
  }

  /** Completes the last rotation: see `rotate`. */
  async finishRotation(): Promise<string[]> {
    for (;;) {
      if (!(await this.#canRefresh())) return this.#all;
      const unreached = new Set<string>();
      for (const name of stateNames(this.#options.vault)) {
        for (const copy of await this.#writer.erase(name, (stored) => stored)) unreached.add(copy);
        await new Promise(setImmediate);
      }
      if (unreached.size > 0) return [...unreached];
      const left = await this.#writer.endOldEpochs();
      this.#writer.lookAtEpochs();
      // Otherwise another process has added a key state under an old epoch.
      if (left !== 'stale') return left;
    }
  }

  get isRotating(): boolean {
    return this.#writer.isRotating;
  }

  /** The number of the newest epoch. */
  get epoch(): number {
    return this.#writer.epoch;
  }

  /** Start of the newest epoch, in ms since 1970. */
  get epochBegun(): number {
    return this.#writer.epochBegun;
  }

  /** The number of copies of the keys, and the number of copies whose last write failed. */
  get directories(): { readonly all: number; readonly inTrouble: number } {
    return this.#writer.directories;
  }

  /** The cipher of the newest names key. */
  names(): NameCipher {
    return this.stored.names();
  }

  /** Adds a names key, durably. @returns the copies that lack it. */
  async renewNames(): Promise<string[]> {
    if (!(await this.#canRefresh()))
      throw new VaultAway(`no names key can be created in ${this.#writer.opened.where}`);
    const nodes = onlyKey(randomBytes(KEY_BYTES));
    const change: Change = (stored) => {
      if (stored === undefined) throw new KeysUnfit(`${NAMES} is missing in ${this.#writer.opened.where}`);
      return { ...stored, trees: new Map([...stored.trees, [nextNames(newestNames(stored)), nodes]]) };
    };
    await this.#writer.write(NAMES, change);
    this.#reader.forget();
    return this.#writer.erase(NAMES, (stored) => stored);
  }

  /**
   * Removes all names keys but the newest.
   * @returns the copies that could not be reached and may have older ones.
   */
  async endOldNames(): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    return this.#writer.erase(NAMES, (stored) => stored && withNewestNames(stored));
  }

  /** Returns the key of a legal hold, durable; creates it if there is none. @throws VaultAway */
  async newHoldKey(action: string): Promise<KeyObject> {
    await this.#putHold(action, randomBytes(KEY_BYTES));
    const key = this.holdKey(action);
    if (key === undefined) throw new KeysUnfit(`the key of the hold ${action} was destroyed`);
    return key;
  }

  /**
   * The key of a legal hold; undefined if it is destroyed or was never created.
   * @throws KeysUnfit, KekFault, VaultAway
   */
  holdKey(action: string): KeyObject | undefined {
    return this.#writer.opened.holdKey(action);
  }

  /**
   * Copies a hold key from another vault, for a mirror. Does nothing if the other vault lacks it: the key may
   * be unavailable there, and the release of the hold destroys it here. @throws VaultAway
   */
  async takeHoldKey(action: string, from: Pick<StoredKeys, 'holdKey'>): Promise<void> {
    const key = from.holdKey(action);
    if (key !== undefined) await this.#putHold(action, key.export());
  }

  /** Destroys the key of a hold, if there is one. @returns the copies that could not be reached. */
  async destroyHold(action: string): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    if (this.#options.vault.read(holdName(action)).length === 0)
      return this.#writer.put(holdName(action), undefined);
    return this.#writer.erase(
      holdName(action),
      (stored) => stored && { ...stored, trees: new Map([['', []]]) },
    );
  }

  /** Whether `refresh` succeeded. Otherwise reports that no copy can be reached. */
  async #canRefresh(): Promise<boolean> {
    try {
      await this.refresh();
      return true;
    } catch (error) {
      if (!(error instanceof VaultAway)) throw error;
      this.#writer.noteAway(error);
      return false;
    }
  }

  /** All copies. */
  get #all(): string[] {
    return [...this.#options.vault.copies];
  }

  async #putHold(action: string, key: Buffer): Promise<void> {
    await this.refresh();
    const ids = { kind: KINDS.hold, bucketId: holdId(action) };
    await this.#writer.write(
      holdName(action),
      (stored) => stored ?? this.#newState(ids, [['', onlyKey(key)]]),
    );
  }

  /** Creates an epoch if there is none. */
  async #makeEpoch(): Promise<void> {
    if (epochsOf(this.#options.vault).length > 0) return;
    if (this.#hasBuckets) throw this.#unfit('the directory epochs contains no key');
    await this.#writer.makeEpoch(1);
  }

  /** Creates a names key if there is none. */
  async #makeNames(): Promise<void> {
    const { vault } = this.#options;
    this.#writer.opened.epochKey(this.#writer.epoch);
    if (vault.read(NAMES).length > 0) return;
    // After an interrupted first start an epoch may exist without buckets.
    const isLost = this.#hasBuckets;
    if (isLost) await this.#noteLostNames();
    const ids = { kind: KINDS.names, bucketId: randomBytes(BUCKET_ID_BYTES) };
    // Higher than any lost number, so that derived files under lost keys are rebuilt.
    const number = isLost ? String(Math.floor(Date.now() / 1000)) : nextNames('');
    const first = [[number, onlyKey(randomBytes(KEY_BYTES))]] as const;
    await this.#writer.write(NAMES, (stored) => stored ?? this.#newState(ids, first));
  }

  /**
   * Reports that the names keys are lost. Only derived files depend on them, and these are rebuilt.
   * @throws KeysUnfit if a copy that does not answer may have them.
   */
  async #noteLostNames(): Promise<void> {
    const [away] = await this.#writer.put(NAMES, undefined);
    if (away !== undefined) throw this.#unfit(`${NAMES} is missing or damaged, and ${away} cannot be read`);
    this.#options.onTrouble(
      `${NAMES} was missing or damaged in every copy of the keys: a new one is created`,
      undefined,
    );
  }

  /** Whether keys of events exist or must exist. */
  get #hasBuckets(): boolean {
    return this.#options.isNeeded === true || this.#options.vault.list('buckets').length > 0;
  }

  #unfit(why: string): KeysUnfit {
    return new KeysUnfit(`the keys in ${this.#writer.opened.where} are incomplete: ${why}`);
  }

  /** Destroys in memory the keys that are destroyed in a stored state. */
  #follow(stored: KeyState): void {
    const name = stateName(stored);
    const unsaved = this.#unsaved.get(name);
    if (unsaved !== undefined) this.#unsaved.set(name, mergedStates(unsaved, stored));
    if (this.#bucket !== undefined && stateName(this.#bucket) === name)
      this.#use(mergedStates(this.#bucket, stored));
  }

  #bucketOf(sequence: number): KeyState {
    const place = this.#bucket === undefined ? -1 : sequence - this.#bucket.firstSequence;
    const isOver = place < 0 || place >= BUCKET_PLACES || Date.now() - this.#begunAt >= BUCKET_MS;
    return this.#bucket !== undefined && !isOver ? this.#bucket : this.#begin(sequence);
  }

  /**
   * Begins a bucket with the organisations of the previous one, so that their roots need one flush in all.
   */
  #begin(firstSequence: number): KeyState {
    const trees = [...this.#trees.keys()].map((organisation) => [organisation, [newRoot()]] as const);
    const names = [...this.#options.vault.list('buckets'), ...this.#unsaved.keys()];
    const taken = new Set(names.map((name) => bucketIn(name).tag));
    let bucketId: Buffer;
    do bucketId = randomBytes(BUCKET_ID_BYTES);
    while (taken.has(bucketId.readUInt32BE(0)));
    this.#begunAt = Date.now();
    return this.#keep(this.#newState({ kind: KINDS.bucket, bucketId, firstSequence }, trees));
  }

  #addTree(organisation: string): KeyTree {
    if (this.#bucket === undefined) throw new Error('no bucket has begun');
    this.#keep({ ...this.#bucket, trees: new Map([...this.#bucket.trees, [organisation, [newRoot()]]]) });
    const tree = this.#trees.get(organisation);
    if (tree === undefined) throw new Error('a tree that was just made is not there');
    return tree;
  }

  /** A bucket that is not durable yet: events of one batch are compared before their keys are flushed. */
  #unsavedBucket(tag: number): Bucket | undefined {
    for (const state of this.#unsaved.values()) {
      if (state.bucketId.readUInt32BE(0) !== tag) continue;
      return {
        firstSequence: state.firstSequence,
        trees: state === this.#bucket ? this.#trees : treesOf(state),
      };
    }
    return undefined;
  }

  /** Starts to use a state, which the next `flush` writes. */
  #keep(state: KeyState): KeyState {
    this.#unsaved.set(stateName(state), state);
    this.#use(state);
    return state;
  }

  #use(state: KeyState): void {
    this.#bucket = state;
    this.#trees = treesOf(state);
  }

  #newState(
    ids: Pick<KeyState, 'kind' | 'bucketId'> & { readonly firstSequence?: number },
    trees: readonly (readonly [string, readonly TreeNode[]])[],
  ): KeyState {
    const { ledgerId } = this.#options;
    return {
      firstSequence: 0,
      ...ids,
      ...{ ledgerId, generation: 1, epoch: this.#writer.epoch, trees: new Map(trees) },
    };
  }
}
