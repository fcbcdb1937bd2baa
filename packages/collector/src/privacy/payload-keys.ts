/**
 * The keys of payloads, for the process that writes a log: gives each event its key, makes new roots durable, destroys keys,
 * begins epochs. With VaultWriter and OpenedVault, which decode, merge and repair what a vault stores, it knows no file and
 * no SQL.
 *
 * A bucket is a stretch of at most BUCKET_PLACES entries and a day of one process, with a random root for each organisation:
 * no other process adds to it, so that two copies of the keys that are used apart never have different roots of one bucket.
 * `mergedStates` is the only repair: where copies differ, or another process was first, what both open is written.
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

/** What an event is encrypted by. */
export interface EventKey {
  /** Names the bucket in its frame. */
  readonly tag: number;
  readonly key: string;
}

export interface PayloadKeysOptions {
  readonly vault: KeyVault;
  /** Opens the epoch keys, and wraps new ones. */
  readonly kek: KeyEncryptionKey;
  readonly ledgerId: string;
  /** Whether there have to be keys: what is encrypted would be lost if others were made. */
  readonly isNeeded?: boolean;
  /** Keys are asked for by places that are no sequences: those of a log in a database. */
  readonly hasPlaces?: boolean;
  /** A copy of the keys cannot be written; another has what it lacks. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

export class PayloadKeys {
  /** Of what is stored, by the same opened keys. */
  readonly stored: StoredKeys;
  readonly #options: PayloadKeysOptions;
  readonly #writer: VaultWriter;
  readonly #reader: KeyReader;
  /** Whether this process was seen to write where keys are. */
  #isProven = false;
  /** The bucket of the events that are stored now. */
  #bucket: KeyState | undefined;
  #trees = new Map<string, KeyTree>();
  #begunAt = 0;
  /** Buckets with roots that may not be durable, by their names. A write that failed is tried again as it is. */
  readonly #unsaved = new Map<RecordName, KeyState>();

  private constructor(options: PayloadKeysOptions) {
    this.#options = options;
    this.#writer = new VaultWriter({ ...options, onStored: (state) => this.#follow(state) });
    this.stored = this.#reader = new KeyReader(this.#writer.opened, (tag) => this.#unsavedBucket(tag));
  }

  /**
   * Opens the keys, or makes them where there are none. On return every copy that can be written holds what the others hold.
   * @throws KeysUnfit when they are needed and not there; KekFault; VaultAway.
   */
  static async open(options: PayloadKeysOptions): Promise<PayloadKeys> {
    const keys = new PayloadKeys(options);
    await options.vault.refresh();
    await keys.#makeEpoch();
    await keys.refresh();
    await keys.#makeNames();
    return keys;
  }

  /** The key of the event that is to be stored next; in memory. The event may be durable once `flush` has returned. */
  keyFor(organisation: string, sequence: number): EventKey {
    const bucket = this.#bucketOf(sequence);
    const tree = this.#trees.get(organisation) ?? this.#addTree(organisation);
    const key = tree.keyAt(sequence - bucket.firstSequence);
    if (key === undefined) throw new Error('a place in a bucket has no key');
    return { tag: bucket.bucketId.readUInt32BE(0), key };
  }

  /** Whether every root that was given out is durable: then `flush` has nothing to do. */
  get isDurable(): boolean {
    return this.#unsaved.size === 0;
  }

  /** On return every root that was given out is durable. @throws VaultAway; it is tried again as it is. */
  async flush(): Promise<void> {
    if (this.isDurable) return;
    await this.#writer.refresh();
    while (this.#unsaved.size > 0)
      for (const [name, state] of this.#unsaved) {
        const saved = await this.#writer.write(name, (stored) =>
          stored ? mergedStates(state, stored) : state,
        );
        // Else a root was added meanwhile.
        if (opensAlike(saved, this.#unsaved.get(name) ?? saved)) this.#unsaved.delete(name);
        this.#isProven = true;
      }
  }

  /** On return a key can be made durable, and every one that was given out is. @throws VaultAway */
  async prove(): Promise<void> {
    if (this.isDurable && !this.#isProven) await this.#writer.prove();
    this.#isProven = true;
    await this.flush();
  }

  /**
   * On return what other processes have done to the keys holds here, and what the vault had lost is in it again.
   * @throws VaultAway
   */
  async refresh(): Promise<void> {
    await this.#writer.refresh();
    this.#reader.readAgain();
    const stored = this.#bucket && this.#writer.opened.state(stateName(this.#bucket));
    if (stored !== undefined) this.#follow(stored);
  }

  /**
   * Destroys keys, a bucket at a time. On return no copy that was reached has them, nor does `stored`; other readers have them
   * until their next `readAgain` that is ten seconds later. May be done again at any time.
   * @returns the copies that could not be reached, and may still have them.
   */
  async destroy(taken: readonly TakenKeys[]): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    const unreached = new Set<string>();
    const names = namesByTag(this.#options.vault);
    const own = this.#options.hasPlaces === true ? taken : bySequences(taken, names.values());
    for (const [tag, ofBucket] of Map.groupBy(own, (each) => each.tag)) {
      const name = names.get(tag);
      const change: Change = (stored) => stored && without(stored, placesIn(stored, ofBucket));
      // A record that no copy has is a fault, which `verify` finds. A copy that does not answer may have it.
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
   * Notes an action beside the keys that it destroys, under a name that is made of what it says: of two states of the log
   * it may say different things. @returns the copies that could not be reached.
   */
  async noteAction(body: object): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    const text = `${JSON.stringify(body)}\n`;
    return this.#writer.put(actionName(text), Buffer.from(text));
  }

  /**
   * Begins an epoch, and brings all key states under its key. On return no record of an older epoch is left, if every copy
   * could be reached: a remnant of a replaced key state opens only by a remnant of that record and the KEK. Where another
   * process was first, its epoch is brought to its end.
   * @returns the copies that could not be reached. @throws VaultAway, KekFault where none was begun.
   */
  async rotate(): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    await this.#writer.makeEpoch(this.#writer.epoch + 1);
    this.#writer.lookAtEpochs();
    return this.finishRotation();
  }

  /** On return the rotation that was begun last is at its end, as `rotate` has it. */
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
      // Else others have added a key state under one of them meanwhile.
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

  /** When the newest epoch was begun, in ms since 1970. */
  get epochBegun(): number {
    return this.#writer.epochBegun;
  }

  /** How many copies of the keys there are, and how many could not be written the last time. */
  get directories(): { readonly all: number; readonly inTrouble: number } {
    return this.#writer.directories;
  }

  /** Of the newest names key. */
  names(): NameCipher {
    return this.stored.names();
  }

  /** Adds a names key, which is the newest from now on. On return it is durable. @returns the copies that lack it. */
  async renewNames(): Promise<string[]> {
    if (!(await this.#canRefresh()))
      throw new VaultAway(`no names key can be made in ${this.#writer.opened.where}`);
    const nodes = onlyKey(randomBytes(KEY_BYTES));
    const change: Change = (stored) => {
      if (stored === undefined) throw new KeysUnfit(`${NAMES} is missing in ${this.#writer.opened.where}`);
      return { ...stored, trees: new Map([...stored.trees, [nextNames(newestNames(stored)), nodes]]) };
    };
    await this.#writer.write(NAMES, change);
    this.#reader.forget();
    return this.#writer.erase(NAMES, (stored) => stored);
  }

  /** Removes all names keys but the newest. @returns the copies that could not be reached, and may have older ones. */
  async endOldNames(): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    return this.#writer.erase(NAMES, (stored) => stored && withNewestNames(stored));
  }

  /** Makes the key of a legal hold, or gives the one that is there. On return it is durable. @throws VaultAway */
  async newHoldKey(action: string): Promise<KeyObject> {
    await this.#putHold(action, randomBytes(KEY_BYTES));
    const key = this.holdKey(action);
    if (key === undefined) throw new KeysUnfit(`the key of the hold ${action} was destroyed`);
    return key;
  }

  /** Undefined when it is destroyed, or was never made. @throws KeysUnfit, KekFault, VaultAway */
  holdKey(action: string): KeyObject | undefined {
    return this.#writer.opened.holdKey(action);
  }

  /**
   * On return this vault has the hold key that the other one has: for a mirror. A key that the other one lacks is left: it may
   * be away or damaged there, and its release destroys it here. @throws VaultAway
   */
  async takeHoldKey(action: string, from: Pick<StoredKeys, 'holdKey'>): Promise<void> {
    const key = from.holdKey(action);
    if (key !== undefined) await this.#putHold(action, key.export());
  }

  /** Destroys the key of a hold; what was destroyed or never made is left so. @returns the copies that could not be reached. */
  async destroyHold(action: string): Promise<string[]> {
    if (!(await this.#canRefresh())) return this.#all;
    if (this.#options.vault.read(holdName(action)).length === 0)
      return this.#writer.put(holdName(action), undefined);
    return this.#writer.erase(
      holdName(action),
      (stored) => stored && { ...stored, trees: new Map([['', []]]) },
    );
  }

  /** Whether what others have done could be taken in. Else that is reported, and nothing can be reached. */
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

  /** On return there is an epoch, whoever made it. */
  async #makeEpoch(): Promise<void> {
    if (epochsOf(this.#options.vault).length > 0) return;
    if (this.#hasBuckets) throw this.#unfit('the directory epochs has no key in it');
    await this.#writer.makeEpoch(1);
  }

  /** On return there is a names key, whoever made it. */
  async #makeNames(): Promise<void> {
    const { vault } = this.#options;
    this.#writer.opened.epochKey(this.#writer.epoch);
    if (vault.read(NAMES).length > 0) return;
    // The epoch of a first start that was cut off stays: nothing is encrypted under it.
    const isLost = this.#hasBuckets;
    if (isLost) await this.#noteLostNames();
    const ids = { kind: KINDS.names, bucketId: randomBytes(BUCKET_ID_BYTES) };
    // Later than any number that was lost: what is under that one is made again.
    const number = isLost ? String(Math.floor(Date.now() / 1000)) : nextNames('');
    const first = [[number, onlyKey(randomBytes(KEY_BYTES))]] as const;
    await this.#writer.write(NAMES, (stored) => stored ?? this.#newState(ids, first));
  }

  /** Names are in derived files alone, which are made again. @throws KeysUnfit where a copy that does not answer may have them. */
  async #noteLostNames(): Promise<void> {
    const [away] = await this.#writer.put(NAMES, undefined);
    if (away !== undefined) throw this.#unfit(`${NAMES} is missing or damaged, and ${away} cannot be asked`);
    this.#options.onTrouble(
      `${NAMES} was missing or damaged in every copy of the keys: another is made`,
      undefined,
    );
  }

  /** Whether there are keys of events, or have to be. */
  get #hasBuckets(): boolean {
    return this.#options.isNeeded === true || this.#options.vault.list('buckets').length > 0;
  }

  #unfit(why: string): KeysUnfit {
    return new KeysUnfit(`the keys in ${this.#writer.opened.where} are not whole: ${why}`);
  }

  /** On return what is destroyed in a state that is stored is destroyed in memory too. */
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

  /** With a tree for each organisation of the bucket before, so that they cost one flush and not one each. */
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

  /** Events of a batch are compared with each other before their keys are durable. */
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

  /** On return the state is in use, and is written by the next `flush`. */
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
