/**
 * The keys of payloads on disk, apart from the data: a directory, and mirrors of it that hold the same files.
 *
 *   kek                             the key that wraps the others, where no other is named by --kek
 *   names.json                      the key of names in derived files (name-cipher.ts), wrapped by it
 *   epochs/0000001.json             an epoch key, wrapped by it; the states of an epoch are written under it
 *   actions/<sequence>-<id>.json    each action that destroyed keys, by its entry in the log and the first digits of its id: for
 *                                   a log that is restored from before it, and may have another one at that entry
 *   copies.json                     when copies of all this were made, and how long they are kept
 *   buckets/<sequence>-<tag>.keys   the trees of a bucket (key-state.ts), by its first sequence and the tag in its frames
 *
 * A bucket is a stretch of at most BUCKET_PLACES entries of the log, and of a day of one process: no other adds to it, so
 * that two copies of these directories that go on apart never have different roots under one name. No event is flushed
 * whose root is not on stable storage here, and in one of the mirrors where there are any.
 */
import { createSecretKey, hash, randomBytes, type KeyObject } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { exists, isFile, nodeFiles, readFrom, replaceNow, type Files } from '../files.js';
import {
  decodeKeyState,
  encodeKeyState,
  keyStateHeader,
  KeyStateDamaged,
  mergedStates,
  opensAlike,
  type KeyState,
} from './key-state.js';
import { isKekFile, KekFault, newKekFile, openKek, type KeyEncryptionKey } from './key-encryption-key.js';
import { KeysUnfit } from './key-vault.js';
export { KeysUnfit } from './key-vault.js';
import { BUCKET_ID_BYTES, KeyTree, newRoot, TREE_PLACES } from './key-tree.js';
import { SyntheticIv, type NameCipher } from './name-cipher.js';
import { SequenceSet } from './sequence-set.js';

/** As many as a segment of the usual size holds. */
const BUCKET_PLACES = 65_536;
const BUCKET_MS = 24 * 3600 * 1000;
const WRAPPED_FORMAT = 'clinical-events/encryption-key/v1';
const EPOCH_NAME = /^(\d{7})\.json$/;
const BUCKET_NAME = /^(\d{16})-([0-9a-f]{8})\.keys$/;
const KEK_NAME = 'kek';
/** Beside the keys that an event would need; it is none. */
const TRIAL_NAME = path.join('buckets', 'trial');
const COPIES_NAME = 'copies.json';
const ACTION_NAME = /^[0-9a-f]{32}\.json$/;
/** Of an action that is noted, by far. */
const MOST_NOTED_BYTES = 4 << 20;
/** Buckets that a reader keeps in memory. */
const MOST_BUCKETS = 256;
/** And how long, in milliseconds: keys are destroyed by another process. */
const KEPT_MS = 10_000;
/** No event has these places of a bucket. */
const BEYOND = SequenceSet.ofStretches([{ first: BUCKET_PLACES, end: TREE_PLACES }]);

/** Where the keys are: the directory that is written to, its mirrors, and what wraps them. */
export interface KeyPlaces {
  /** At least one. */
  readonly directories: readonly string[];
  /** As `--kek` has it; empty: the file `kek` in each directory. */
  readonly kek: string;
  /** Directories that were among them until then (RFC 3339), and may still have the keys. */
  readonly leftOut?: readonly LeftOut[];
}

export interface LeftOut {
  readonly directory: string;
  readonly since: string;
}

/** A key as it stands in a file of its own. */
interface WrappedKey {
  readonly format: string;
  readonly ledger: string;
  /** 0 for the key of names. */
  readonly epoch: number;
  readonly begun: string;
  readonly wrapped: string;
}

/** Where files of keys are kept: on a disk, or in a database (packages/postgres, key-rows.ts). */
export interface KeyFiles {
  /** The names in `within` of a directory; none where that is not there. */
  list(directory: string, within: string): string[];
  /** Undefined when there is no such file. */
  read(directory: string, name: string): Buffer | undefined;
  /** On return the file holds these bytes, durably; until then it holds what it held. */
  replace(directory: string, name: string, bytes: Buffer): void;
  /** On return the directory has no such file any more, durably. */
  remove(directory: string, name: string): void;
}

/** What a file held that has no name any more is overwritten: for what it is worth on a disk that writes elsewhere. */
export function onDisk(files: Files): KeyFiles {
  return {
    list(directory, within) {
      const where = path.join(directory, within);
      return exists(where) ? files.list(where) : [];
    },
    read(directory, name) {
      const file = path.join(directory, name);
      return isFile(file) ? readFrom(files, file) : undefined;
    },
    replace(directory, name, bytes) {
      // One that is not there is not made: it may be a mount that failed.
      if (!exists(directory)) throw new Error(`there is no directory ${directory}`);
      const file = path.join(directory, name);
      const old = exists(file) ? files.open(file, 'r+') : undefined;
      try {
        replaceNow(files, file, bytes);
        if (old !== undefined) overwrite(files, old);
      } finally {
        if (old !== undefined) files.close(old);
      }
    },
    remove(directory, name) {
      const file = path.join(directory, name);
      if (!exists(file)) return;
      const fd = files.open(file, 'r+');
      try {
        files.remove(file);
        files.syncDirectory(path.dirname(file));
        overwrite(files, fd);
      } finally {
        files.close(fd);
      }
    },
  };
}

/** Those of this host. */
export const keysOnDisk = onDisk(nodeFiles);

function overwrite(files: Files, fd: number): void {
  try {
    const size = files.size(fd);
    files.write(fd, Buffer.alloc(size), size, 0);
    files.datasync(fd);
  } catch {
    // What replaced it is durable, and the old epoch's key goes.
  }
}

function namesIn(files: KeyFiles, directory: string, within: string, kind: RegExp): string[] {
  return files.list(directory, within).filter((name) => kind.test(name));
}

/** Undefined for what is none. */
function wrappedKeyIn(bytes: Buffer, number: number): WrappedKey | undefined {
  try {
    const key = Object(JSON.parse(bytes.toString())) as WrappedKey;
    const isOne = key.format === WRAPPED_FORMAT && key.epoch === number && typeof key.wrapped === 'string';
    return isOne ? key : undefined;
  } catch {
    return undefined;
  }
}

/** -1 of what is no key state. */
function generationOf(file: Buffer): number {
  try {
    return keyStateHeader(file).generation;
  } catch (error) {
    if (error instanceof KeyStateDamaged) return -1;
    throw error;
  }
}

function wrappedName(number: number): string {
  return number === 0 ? 'names.json' : path.join('epochs', `${String(number).padStart(7, '0')}.json`);
}

function bucketName({ firstSequence, bucketId }: Pick<KeyState, 'firstSequence' | 'bucketId'>): string {
  return `${String(firstSequence).padStart(16, '0')}-${bucketId.toString('hex', 0, 4)}.keys`;
}

function tagOf(bucket: string): number {
  return Number.parseInt(bucket.slice(17, 25), 16);
}

/** The file `kek` of a directory. */
interface KekFile {
  readonly directory: string;
  readonly kek?: KeyEncryptionKey;
  readonly fault?: KekFault;
}

/** What is in the directory and its mirrors. One that cannot be read is passed over while another can. */
class Shelf {
  readonly #epochs = new Map<number, { readonly key: KeyObject; readonly wrapped: string }>();
  #kek: KeyEncryptionKey | undefined;
  #names: NameCipher | undefined;

  constructor(
    readonly files: KeyFiles,
    readonly places: KeyPlaces,
  ) {}

  /** Of each directory that answers. @throws when none does. */
  each<Answer>(ask: (directory: string) => Answer): Answer[] {
    const answers: Answer[] = [];
    let failure: unknown;
    for (const directory of this.places.directories) {
      try {
        answers.push(ask(directory));
      } catch (error) {
        failure = error;
      }
    }
    if (answers.length === 0) throw new Error('no directory of keys can be read', { cause: failure });
    return answers;
  }

  /** The contents of the files of this name. */
  contents(name: string): Buffer[] {
    const found = this.each((directory) => this.files.read(directory, name));
    return found.filter((bytes) => bytes !== undefined);
  }

  /** The first of them that is sound; of key states the one of the highest generation; of KEKs the one that opens. */
  best(name: string): Buffer | undefined {
    const kek = name === KEK_NAME ? this.kekFiles().find(({ fault }) => fault === undefined) : undefined;
    if (kek !== undefined) return this.files.read(kek.directory, KEK_NAME);
    let best: { bytes: Buffer; rank: number } | undefined;
    for (const bytes of this.contents(name)) {
      const rank = rankOf(name, bytes);
      if (rank >= 0 && rank > (best?.rank ?? -1)) best = { bytes, rank };
    }
    return best?.bytes;
  }

  /** @throws KekFault */
  get kek(): KeyEncryptionKey {
    return (this.#kek ??= this.places.kek === '' ? this.#kekOfDirectories() : openKek(this.places.kek));
  }

  #kekOfDirectories(): KeyEncryptionKey {
    const found = this.kekFiles();
    const right = found.find(({ fault }) => fault === undefined);
    if (right?.kek === undefined) throw found[0]?.fault ?? new KekFault(`no file kek in ${this.where}`);
    const held = (directory: string) => contentOrNothing(this.files, directory, KEK_NAME);
    const kek = held(right.directory);
    // The same key where others may read it, say: that has to be corrected first.
    for (const { directory, fault } of found)
      if (fault !== undefined && kek !== undefined && held(directory)?.equals(kek) === true) throw fault;
    return right.kek;
  }

  /** The file `kek` of each directory that answers, and why it does not wrap the keys that are there. */
  kekFiles(): KekFile[] {
    const newest = this.newestEpoch();
    const wrapped = newest === 0 ? undefined : this.wrapped(newest).wrapped;
    return this.each((directory) => {
      // One that cannot be reached is passed over.
      this.files.list(directory, '');
      try {
        const kek = openKek(`file:${path.join(directory, KEK_NAME)}`);
        if (wrapped !== undefined) kek.unwrap(wrapped);
        return { directory, kek };
      } catch (error) {
        if (!(error instanceof KekFault)) throw error;
        return { directory, fault: error };
      }
    });
  }

  /** @param number of an epoch; 0 for the key of names. @throws KeysUnfit */
  wrapped(number: number): WrappedKey {
    const name = wrappedName(number);
    const bytes = this.best(name);
    const key = bytes && wrappedKeyIn(bytes, number);
    if (key === undefined) throw new KeysUnfit(`${name} is missing or damaged in ${this.where}`);
    return key;
  }

  get where(): string {
    return this.places.directories.join(', ');
  }

  /** The numbers of the epochs, oldest first. */
  epochs(): number[] {
    const names = this.each((directory) => namesIn(this.files, directory, 'epochs', EPOCH_NAME)).flat();
    return [...new Set(names.map((name) => Number.parseInt(name, 10)))].sort((a, b) => a - b);
  }

  /** The number of the newest epoch; 0 when there is none. */
  newestEpoch(): number {
    return this.epochs().at(-1) ?? 0;
  }

  /** @throws KeysUnfit, KekFault */
  epochKey(number: number): KeyObject {
    const known = this.#epochs.get(number);
    if (known !== undefined) return known.key;
    const { wrapped } = this.wrapped(number);
    const key = createSecretKey(this.kek.unwrap(wrapped));
    this.know(number, key, wrapped);
    return key;
  }

  /** Another process may have made others: what is wrapped as before need not be unwrapped again. */
  readAnew(): void {
    for (const [number, { wrapped }] of this.#epochs) {
      const bytes = this.best(wrappedName(number));
      if (bytes === undefined || wrappedKeyIn(bytes, number)?.wrapped !== wrapped)
        this.#epochs.delete(number);
    }
  }

  /** Of an epoch that was just made, or unwrapped. */
  know(number: number, key: KeyObject, wrapped: string): void {
    this.#epochs.set(number, { key, wrapped });
  }

  /** @throws KeysUnfit, KekFault */
  names(): NameCipher {
    return (this.#names ??= new SyntheticIv(this.namesKey()));
  }

  /** @throws KeysUnfit, KekFault */
  namesKey(): Buffer {
    return this.kek.unwrap(this.wrapped(0).wrapped);
  }

  /** The names of all buckets, oldest first. */
  buckets(): string[] {
    const names = this.each((directory) => namesIn(this.files, directory, 'buckets', BUCKET_NAME)).flat();
    return [...new Set(names)].sort();
  }

  /** The copies that were noted. */
  copies(): KeyCopy[] {
    const noted = this.contents(COPIES_NAME).flatMap((bytes) => {
      try {
        return JSON.parse(bytes.toString()) as KeyCopy[];
      } catch {
        return [];
      }
    });
    return [...new Map(noted.map((copy) => [copy.made, copy])).values()];
  }

  /** Everything that each directory has to hold. */
  all(): string[] {
    return [
      ...(this.places.kek === '' ? [KEK_NAME] : []),
      ...[0, ...this.epochs()].map(wrappedName),
      ...this.buckets().map((name) => path.join('buckets', name)),
      ...this.actions().map((name) => path.join('actions', name)),
      ...(this.contents(COPIES_NAME).length > 0 ? [COPIES_NAME] : []),
    ];
  }

  /** The names of all actions that are noted. */
  actions(): string[] {
    const names = this.each((directory) => namesIn(this.files, directory, 'actions', ACTION_NAME)).flat();
    return [...new Set(names)].sort();
  }

  noted(): Buffer[] {
    const found = this.actions().flatMap((name) => this.best(path.join('actions', name)) ?? []);
    return found.filter(({ length }) => length <= MOST_NOTED_BYTES);
  }

  /**
   * The state of a bucket: what all of the directories still open. What a mirror that lags opens besides is not to be
   * opened.
   * @returns undefined when none of them holds one that can be read.
   */
  state(name: string): KeyState | undefined {
    return this.#states(name)?.merged;
  }

  /** What each directory has to hold under a name; of a state the bytes that one of them holds, where one is right. */
  due(name: string): Buffer | undefined {
    if (!name.endsWith('.keys')) return this.best(name);
    const states = this.#states(path.basename(name));
    if (states === undefined) return undefined;
    const { merged, held } = states;
    return held.get(merged) ?? encodeKeyState(merged, this.epochKey(merged.epoch));
  }

  #states(name: string): { merged: KeyState; held: ReadonlyMap<KeyState, Buffer> } | undefined {
    // What is read while it is replaced may be zeros already.
    return this.#statesNow(name) ?? this.#statesNow(name);
  }

  #statesNow(name: string): { merged: KeyState; held: ReadonlyMap<KeyState, Buffer> } | undefined {
    const held = new Map<KeyState, Buffer>();
    let unfit: KeysUnfit | undefined;
    for (const bytes of this.contents(path.join('buckets', name))) {
      if ([...held.values()].some((each) => each.equals(bytes))) continue;
      try {
        held.set(decodeKeyState(bytes, this.epochKey(keyStateHeader(bytes).epoch)), bytes);
      } catch (error) {
        if (error instanceof KeysUnfit) unfit = error;
        else if (!(error instanceof KeyStateDamaged)) throw error;
      }
    }
    const [first, ...others] = held.keys();
    if (first === undefined && unfit !== undefined) throw unfit;
    return first && { merged: others.reduce(mergedStates, first), held };
  }
}

/** -1 of what is not sound; of key states the newest is the highest. */
function rankOf(name: string, bytes: Buffer): number {
  if (name === KEK_NAME) return isKekFile(bytes) ? 0 : -1;
  if (name.endsWith('.keys')) return generationOf(bytes);
  if (name === COPIES_NAME || name.startsWith('actions')) return isJson(bytes) ? 0 : -1;
  const number = name === wrappedName(0) ? 0 : Number.parseInt(path.basename(name), 10);
  return wrappedKeyIn(bytes, number) === undefined ? -1 : 0;
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString());
    return true;
  } catch {
    return false;
  }
}

/** Whether any of the directories holds keys. */
export function hasKeys(files: KeyFiles, places: KeyPlaces): boolean {
  return new Shelf(files, places).newestEpoch() > 0;
}

/** What wraps the keys. @throws KekFault, KeysUnfit when it cannot be had. */
export function keyEncryptionKeyOf(places: KeyPlaces): KeyEncryptionKey {
  return new Shelf(keysOnDisk, places).kek;
}

interface Bucket {
  readonly firstSequence: number;
  readonly trees: ReadonlyMap<string, KeyTree>;
}

/** Gives the keys of events that are stored. */
export interface StoredKeys {
  /**
   * The key of an event; undefined when it is not to be had, or not any more.
   * @param tag of its bucket, as its frame names it.
   * @throws KekFault, KeysUnfit when no key at all can be had.
   */
  keyOf(tag: number, organisation: string, sequence: number): string | undefined;
  /** Whether the bucket is there, and has or had keys of the organisation. @throws as `keyOf`. */
  knows(tag: number, organisation: string): boolean;
  /** For names in files that are derived from payloads. @throws KekFault, KeysUnfit */
  names(): NameCipher;
  /** What these are encrypted by, for other keys of the same log. @throws KekFault, KeysUnfit */
  namesKey(): Buffer;
  /** The bodies of the actions that are noted beside the keys, of which the log may be an older state. */
  noted(): Buffer[];
  /** What was not found before is looked for once more. */
  readAnew(): void;
  readAgain(): void;
  holdKey(action: string): undefined;
}

/** For readers, beside a running collector or without one. */
export class KeyReader implements StoredKeys {
  readonly #buckets = new Map<number, Bucket>();
  #bucketNames = new Map<number, string>();
  /** What was not found since it was read anew. */
  readonly #missed = new Set<string>();
  /** Since when it keeps buckets. */
  #keptSince = performance.now();

  constructor(private readonly shelf: Shelf) {}

  /** @returns undefined when there are no keys. */
  static open(files: KeyFiles, places: KeyPlaces): KeyReader | undefined {
    const shelf = new Shelf(files, places);
    return shelf.newestEpoch() === 0 ? undefined : new KeyReader(shelf);
  }

  keyOf(tag: number, organisation: string, sequence: number): string | undefined {
    const bucket = this.#bucket(tag, organisation);
    return bucket?.trees.get(organisation)?.keyAt(sequence - bucket.firstSequence);
  }

  knows(tag: number, organisation: string): boolean {
    return this.#bucket(tag, organisation) !== undefined;
  }

  #bucket(tag: number, organisation: string): Bucket | undefined {
    const bucket = this.#buckets.get(tag);
    return bucket?.trees.has(organisation) === true ? bucket : this.#look(tag, organisation);
  }

  names(): NameCipher {
    return this.shelf.names();
  }

  namesKey(): Buffer {
    return this.shelf.namesKey();
  }

  noted(): Buffer[] {
    return this.shelf.noted();
  }

  readAnew(): void {
    this.#missed.clear();
    if (performance.now() - this.#keptSince > KEPT_MS) this.drop();
  }

  readAgain(): void {
    this.readAnew();
  }

  holdKey(): undefined {
    return undefined;
  }

  /** Forgets all keys that it has read. */
  drop(): void {
    this.#buckets.clear();
    this.#keptSince = performance.now();
  }

  #look(tag: number, organisation: string): Bucket | undefined {
    const sought = `${tag} ${organisation}`;
    if (this.#missed.has(sought)) return undefined;
    if (!this.#bucketNames.has(tag))
      this.#bucketNames = new Map(this.shelf.buckets().map((name) => [tagOf(name), name]));
    const name = this.#bucketNames.get(tag);
    const state = name === undefined ? undefined : this.shelf.state(name);
    if (state?.trees.has(organisation) !== true) {
      this.#missed.add(sought);
      return undefined;
    }
    const bucket = { firstSequence: state.firstSequence, trees: treesOf(state) };
    if (this.#buckets.size >= MOST_BUCKETS) this.#buckets.clear();
    this.#buckets.set(tag, bucket);
    return bucket;
  }
}

function treesOf({ bucketId, trees }: KeyState): Map<string, KeyTree> {
  return new Map([...trees].map(([organisation, nodes]) => [organisation, new KeyTree(bucketId, nodes)]));
}

/** A copy of the keys that no erasure reaches. */
interface KeyCopy {
  readonly made: string;
  readonly until: string;
}

/** The keys of a directory, for a person. */
export interface KeyInventory {
  readonly ledger: string;
  readonly epoch: number;
  readonly epochBegun: string;
  readonly buckets: number;
  /** Copies that were made of them, and when each is to be gone (RFC 3339). */
  readonly copies: readonly KeyCopy[];
  /** Of each directory: how many files it lacks, or has in an older state or damaged. */
  readonly directories: readonly {
    readonly directory: string;
    readonly isThere: boolean;
    readonly behind: number;
    /** Why its file `kek` does not open the keys. */
    readonly kekFault?: string;
  }[];
}

/** @throws KeysUnfit when there are no keys. */
export function keyInventory(files: KeyFiles, places: KeyPlaces): KeyInventory {
  const shelf = new Shelf(files, places);
  const number = shelf.newestEpoch();
  const epoch = shelf.wrapped(Math.max(1, number));
  const names = shelf.all().filter((name) => name !== KEK_NAME);
  const best = names.map((name) => shelf.best(name));
  const keks = places.kek === '' ? shelf.kekFiles() : undefined;
  return {
    ...{ ledger: epoch.ledger, epoch: epoch.epoch, epochBegun: epoch.begun },
    copies: shelf.copies(),
    buckets: names.filter((name) => name.endsWith('.keys')).length,
    directories: places.directories.map((directory) => {
      const isHeld = (name: string, i: number) => {
        const held = contentOrNothing(files, directory, name);
        return held !== undefined && best[i]?.equals(held) === true;
      };
      const held = names.filter(isHeld).length;
      const kek = keks?.find((each) => each.directory === directory);
      const lacksKek = keks !== undefined && kek?.kek === undefined;
      return {
        ...{ directory, isThere: held > 0, behind: names.length - held + Number(lacksKek) },
        ...(held > 0 && kek?.fault !== undefined && { kekFault: kek.fault.message }),
      };
    }),
  };
}

/**
 * On return a directory that is there holds all that these hold.
 * @param until when a copy is to be gone, which is noted before it is made; a mirror has no end.
 * @throws KeysUnfit when there are no keys, or others there; KekFault.
 */
export function copyKeys(files: KeyFiles, places: KeyPlaces, to: string, until?: string): void {
  const shelf = new Shelf(files, places);
  const there = new Shelf(files, { directories: [to], kek: '' });
  const { ledger } = shelf.wrapped(Math.max(1, shelf.newestEpoch()));
  if (there.newestEpoch() > 0 && there.wrapped(there.newestEpoch()).ledger !== ledger)
    throw new KeysUnfit(`the keys in ${to} are those of another log`);
  if (until !== undefined) {
    const now = new Date().toISOString();
    const copies = [...shelf.copies().filter((copy) => copy.until > now), { made: now, until }];
    for (const each of places.directories)
      files.replace(each, COPIES_NAME, Buffer.from(`${JSON.stringify(copies)}\n`));
  }
  for (const name of shelf.all()) {
    const due = shelf.due(name);
    if (due !== undefined) files.replace(to, name, due);
  }
}

function contentOrNothing(files: KeyFiles, directory: string, name: string): Buffer | undefined {
  try {
    return files.read(directory, name);
  } catch {
    return undefined;
  }
}

/** What an event is sealed by. */
export interface EventKey {
  /** Names the bucket in its frame. */
  readonly tag: number;
  readonly key: string;
}

export interface KeyWriterOptions {
  readonly files: KeyFiles;
  readonly places: KeyPlaces;
  readonly ledgerId: string;
  /** Whether there have to be keys: what is encrypted would be lost if others were made. */
  readonly isNeeded?: boolean;
  /** Keys are asked for by places that are no sequences: those of a log in a database. */
  readonly hasPlaces?: boolean;
  /** The key of names, where they have to be as in other keys of the same log; a random one when it is not given. */
  readonly namesKey?: Buffer | undefined;
  /** Directories that had keys: one of them without any is a mount that failed, and is not filled. */
  readonly known?: readonly string[];
  /** The directories as they are noted by now: a command may have named another mirror. */
  readonly noted?: () => readonly string[];
  /** A directory cannot be written; another has what it lacks. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

/** Of a writer, which may be given further mirrors. */
interface OwnOptions extends KeyWriterOptions {
  readonly places: KeyPlaces & { readonly directories: string[] };
}

/** Whose keys are to be destroyed: sequences of events of an organisation, by the tag of their bucket. */
export interface TakenKeys {
  readonly tag: number;
  readonly organisation: string;
  readonly sequences: SequenceSet;
  /** Of a log in a database: what keys were asked for by, where it is not the sequences. */
  readonly places?: SequenceSet;
}

/** For the one process that writes the log. */
export class KeyWriter {
  /** Of what is stored, by the same opened keys. */
  readonly stored: StoredKeys;
  readonly #options: OwnOptions;
  readonly #shelf: Shelf;
  readonly #reader: KeyReader;
  readonly #known: Set<string>;
  #epoch: number;
  #isRotating = false;
  /** Whether this process was seen to write where keys are. */
  #isProven = false;
  #state: KeyState | undefined;
  #trees = new Map<string, KeyTree>();
  /** Of `takeOver`: what it has not done yet. */
  #isBehind = false;
  #owedStates: KeyState[] = [];
  readonly #owedFiles = new Map<string, Buffer>();
  /** Not durable yet; it is tried again as it is, since a part of the directories may have it. */
  #pending: KeyState | undefined;
  #begunAt = 0;
  #inTrouble = new Set<string>();
  /** Of an epoch. */
  #begun: readonly [epoch: number, at: number] = [0, 0];

  private constructor(options: OwnOptions, shelf: Shelf, epoch: number) {
    this.#options = options;
    this.#shelf = shelf;
    this.stored = this.#reader = new KeyReader(shelf);
    this.#known = new Set(options.known);
    this.#epoch = epoch;
  }

  /**
   * Opens the keys, or makes them where there are none. On return every directory that can be written holds what the others
   * hold.
   * @throws KeysUnfit when they are those of another log, or are needed and not there; KekFault.
   */
  static async open(given: KeyWriterOptions): Promise<KeyWriter> {
    const { files, ledgerId, isNeeded = false } = given;
    assertApart(given.places);
    const places = { ...given.places, directories: [...given.places.directories] };
    const options = { ...given, places };
    const shelf = new Shelf(files, places);
    for (const directory of places.directories) {
      const other = otherLogIn(files, directory, ledgerId);
      if (other !== undefined)
        throw new KeysUnfit(`the keys in ${directory} are those of another log (${other})`);
    }
    const epoch = shelf.newestEpoch();
    if (epoch === 0) {
      if (isNeeded || shelf.buckets().length > 0)
        throw new KeysUnfit(
          `the keys in ${shelf.where} are not whole: the directory epochs has no key in it`,
        );
      const maker = new KeyWriter(options, shelf, 0);
      if (places.kek === '' && shelf.best(KEK_NAME) === undefined) maker.#put(KEK_NAME, newKekFile());
      // The epoch is last: a key of names without one is of a start that was cut off, and wrote nothing by it.
      for (const number of [0, 1]) {
        const key = (number === 0 ? options.namesKey : undefined) ?? randomBytes(32);
        maker.#putKey(number, key, await shelf.kek.wrap(key));
      }
    }
    const writer = new KeyWriter(options, shelf, Math.max(1, epoch));
    shelf.epochKey(writer.#epoch);
    shelf.names();
    if (places.kek === '')
      for (const { directory, fault } of shelf.kekFiles())
        if (fault !== undefined && hasKeys(files, { directories: [directory], kek: '' }))
          given.onTrouble(
            `the file kek of ${directory} is not used: that of another directory is the right one`,
            fault,
          );
    for (const directory of places.directories) writer.#tryToLevel(directory);
    writer.#isRotating = shelf.epochs().length > 1;
    writer.#begun = [writer.#epoch, Date.parse(shelf.wrapped(writer.#epoch).begun)];
    return writer;
  }

  /**
   * The key of the event that is to be stored next. On return its root is on stable storage.
   * @throws when a new root cannot be made durable.
   */
  keyFor(organisation: string, sequence: number): EventKey {
    const state = this.#bucketOf(sequence);
    const tree = this.#trees.get(organisation) ?? this.#addTree(organisation);
    const key = tree.keyAt(sequence - state.firstSequence);
    if (key === undefined) throw new Error('a place in a bucket has no key');
    return { tag: state.bucketId.readUInt32BE(0), key };
  }

  /**
   * Where several processes have keys in one place, each in buckets of its own: to be called when others have changed some.
   * On return what they have changed holds here, and what this one had made besides: of two states of a bucket both have to
   * open a place, and all are under the key of the newest epoch.
   * @param lost what was written here and is not in that place, by the names of the files; undefined for one that was
   *   removed, which is looked at again. After an error it is still known.
   * @throws KekFault, KeysUnfit
   */
  takeOver(lost: ReadonlyMap<string, Buffer | undefined>): void {
    this.#isBehind = true;
    // First, and by the keys that they were written under: others may have ended that epoch.
    for (const [name, bytes] of lost)
      if (bytes !== undefined)
        if (name.endsWith('.keys'))
          this.#owedStates.push(decodeKeyState(bytes, this.#shelf.epochKey(keyStateHeader(bytes).epoch)));
        else this.#owedFiles.set(name, bytes);
    const { files, places } = this.#options;
    for (const [name, bytes] of this.#owedFiles)
      for (const each of places.directories)
        if (files.read(each, name) === undefined) files.replace(each, name, bytes);
    this.#owedFiles.clear();
    this.#shelf.readAnew();
    this.#reader.drop();
    this.#epoch = Math.max(1, this.#shelf.newestEpoch());
    this.#isRotating = this.#shelf.epochs().length > 1;
    this.#shelf.epochKey(this.#epoch);
    // No event was sealed by what was not kept.
    this.#pending = undefined;
    for (const state of this.#owedStates) this.#bringUp(state);
    if (this.#state !== undefined) this.#bringUp(this.#state);
    this.#owedStates = [];
    this.#isBehind = false;
  }

  /** Whether `takeOver` has not come to its end: until it has, nothing may be saved. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  #bringUp(state: KeyState): void {
    const stored = this.#shelf.state(bucketName(state));
    const merged = { ...(stored ? mergedStates(stored, state) : state), epoch: this.#epoch };
    const isCurrent = this.#state?.bucketId.equals(state.bucketId) === true;
    const isStored = stored !== undefined && merged.epoch === stored.epoch && opensAlike(merged, stored);
    const generation = isStored
      ? stored.generation
      : Math.max(merged.generation, (stored?.generation ?? 0) + 1);
    const next = { ...merged, generation };
    if (!isStored) this.#writeState(next);
    if (isCurrent) this.#use(next);
  }

  /**
   * On return a root that could not be made durable is. Until this process has written one, a file that is no key shows
   * whether that can be done. @throws when it cannot.
   */
  prove(): void {
    if (this.#pending !== undefined) this.#keep(this.#pending);
    else if (!this.#isProven) this.#try();
  }

  #try(): void {
    const { files, places } = this.#options;
    this.#put(TRIAL_NAME, Buffer.from('written to see whether keys can be\n'));
    for (const directory of places.directories)
      if (!this.#inTrouble.has(directory)) files.remove(directory, TRIAL_NAME);
    this.#isProven = true;
  }

  /**
   * Destroys keys, a bucket at a time. On return no directory that was reached has them, and no reader of this process;
   * those of others have them for ten seconds more. What has no key any more is left as it is, so that it may be done
   * again at any time.
   * @returns the directories that could not be reached, and still have them.
   */
  async destroy(taken: readonly TakenKeys[]): Promise<string[]> {
    this.#takeUpMirrors();
    if (this.#shelf.newestEpoch() === 0) return [...this.#options.places.directories];
    const unreached = new Set<string>();
    const names = new Map(this.#shelf.buckets().map((name) => [tagOf(name), name]));
    const own = taken.flatMap((each) => this.#ownKeys(each, names.values()));
    for (const [tag, ofBucket] of Map.groupBy(own, (each) => each.tag)) {
      const name = names.get(tag);
      // A file that is missing is a fault, which `verify` finds; nothing is destroyed by it.
      if (name === undefined) continue;
      for (const directory of this.#destroyIn(name, ofBucket)) unreached.add(directory);
      await new Promise(setImmediate);
    }
    return [...unreached];
  }

  /** An action of a log in a database names buckets of that; on a mirror each event is in one of the mirror's. */
  #ownKeys(taken: TakenKeys, buckets: Iterable<string>): TakenKeys[] {
    if (taken.places === undefined || this.#options.hasPlaces === true) return [taken];
    const { organisation, sequences } = taken;
    return [...buckets].flatMap((name) => {
      const first = Number.parseInt(name, 10);
      const end = first + BUCKET_PLACES;
      if (!sequences.meets(first, end)) return [];
      const within = sequences.within(SequenceSet.ofStretches([{ first, end }]));
      return [{ tag: tagOf(name), organisation, sequences: within }];
    });
  }

  #destroyIn(name: string, taken: readonly TakenKeys[]): string[] {
    const isCurrent = this.#state !== undefined && name === bucketName(this.#state);
    const state = this.#shelf.state(name);
    if (state === undefined) return [...this.#options.places.directories];
    const trees = new Map(state.trees);
    for (const [organisation, own] of Map.groupBy(taken, (each) => each.organisation)) {
      const nodes = trees.get(organisation);
      if (nodes === undefined) continue;
      const gone = SequenceSet.union(own.map(({ places, sequences }) => places ?? sequences));
      const places = SequenceSet.ofStretches(
        [...gone].map(({ first, end }) => ({
          first: Math.max(0, first - state.firstSequence),
          end: Math.max(0, end - state.firstSequence),
        })),
      );
      trees.set(organisation, new KeyTree(state.bucketId, nodes).without(places.with(BEYOND)));
    }
    const left = { ...state, generation: state.generation + 1, trees };
    this.#reader.drop();
    if (opensAlike(left, state)) return this.#levelState(name);
    const unreached = this.#writeState(left);
    if (isCurrent) this.#replaceCurrent(left);
    return unreached;
  }

  /**
   * Notes an action beside the keys that it destroys, under a name that is made of what it says: of two states of the log
   * it may say different things. @returns the directories that could not be reached.
   */
  noteAction(body: object): string[] {
    const text = `${JSON.stringify(body)}\n`;
    const name = path.join('actions', `${hash('sha256', text).slice(0, 32)}.json`);
    return this.#putEverywhere(name, Buffer.from(text));
  }

  /**
   * Begins an epoch, and brings all states under its key. On return no old epoch's key is left, if every directory could
   * be reached: what was replaced opens no more, wherever a disk still holds it.
   * @returns the directories that could not be reached.
   */
  async rotate(): Promise<string[]> {
    this.#takeUpMirrors();
    const key = randomBytes(32);
    this.#putKey(this.#epoch + 1, key, await this.#shelf.kek.wrap(key));
    this.#epoch++;
    this.#isRotating = true;
    return this.finishRotation();
  }

  /** On return the rotation that was begun last is at its end, as `rotate` has it. */
  async finishRotation(): Promise<string[]> {
    const unreached = new Set<string>();
    if (this.#pending?.generation === 1) this.#pending = { ...this.#pending, epoch: this.#epoch };
    for (const name of this.#shelf.buckets()) {
      const state = this.#shelf.state(name);
      const isOld = state !== undefined && state.epoch < this.#epoch;
      const next = isOld && { ...state, epoch: this.#epoch, generation: state.generation + 1 };
      for (const directory of next ? this.#writeState(next) : this.#levelState(name))
        unreached.add(directory);
      if (next && this.#state !== undefined && name === bucketName(this.#state)) this.#replaceCurrent(next);
      await new Promise(setImmediate);
    }
    if (unreached.size > 0) return [...unreached];
    // Others may have added one meanwhile; from here on nothing is awaited.
    if (this.#shelf.buckets().some((name) => this.#isUnderOld(name))) return this.finishRotation();
    const old = this.#shelf.epochs().filter((epoch) => epoch < this.#epoch);
    const { files, places } = this.#options;
    for (const epoch of old) for (const each of places.directories) files.remove(each, wrappedName(epoch));
    this.#isRotating = false;
    return [];
  }

  /** On return each directory that is noted is one of those that are written, and holds what they hold if it can be reached. */
  #takeUpMirrors(): void {
    const { noted, places } = this.#options;
    let directories: readonly string[] = [];
    try {
      directories = noted?.() ?? [];
    } catch (error) {
      this.#options.onTrouble('it cannot be seen which directories have the keys of payloads', error);
    }
    for (const directory of directories) {
      if (places.directories.includes(directory)) continue;
      places.directories.push(directory);
      this.#tryToLevel(directory);
    }
  }

  #isUnderOld(bucket: string): boolean {
    const bytes = this.#shelf.best(path.join('buckets', bucket));
    return bytes !== undefined && keyStateHeader(bytes).epoch < this.#epoch;
  }

  /** Whether a rotation was begun and is not at its end. Asked of no disk, which may hang. */
  get isRotating(): boolean {
    return this.#isRotating;
  }

  /** The number of the newest epoch. */
  get epoch(): number {
    return this.#epoch;
  }

  /** When the newest epoch was begun, in ms since 1970. */
  get epochBegun(): number {
    const [number] = this.#begun;
    try {
      if (number !== this.#epoch)
        this.#begun = [this.#epoch, Date.parse(this.#shelf.wrapped(this.#epoch).begun)];
    } catch {
      // No directory of keys can be read: it is asked again.
    }
    return this.#begun[1];
  }

  /** How many directories there are, and how many could not be written the last time. */
  get directories(): { readonly all: number; readonly inTrouble: number } {
    return { all: this.#options.places.directories.length, inTrouble: this.#inTrouble.size };
  }

  /** A tree that waits to be durable is in it if any directory had it; else no event was sealed by it. */
  #replaceCurrent(state: KeyState): void {
    if (this.#pending !== undefined && this.#pending.generation > 1) this.#pending = undefined;
    this.#use(state);
  }

  /** @returns the directories that do not hold it now. */
  #writeState(state: KeyState): string[] {
    const bytes = encodeKeyState(state, this.#shelf.epochKey(state.epoch));
    return this.#putEverywhere(path.join('buckets', bucketName(state)), bytes);
  }

  #levelState(name: string): string[] {
    const file = path.join('buckets', name);
    const due = this.#shelf.due(file);
    return due === undefined ? [...this.#options.places.directories] : this.#putEverywhere(file, due);
  }

  /** @returns the directories that do not hold these bytes now. */
  #putEverywhere(name: string, bytes: Buffer): string[] {
    const { files, places } = this.#options;
    return places.directories.filter((directory) => {
      try {
        if (!this.#isWhole(directory)) this.#level(directory);
        if (files.read(directory, name)?.equals(bytes) !== true) files.replace(directory, name, bytes);
        this.#inTrouble.delete(directory);
        return false;
      } catch (error) {
        this.#tellTrouble(directory, error);
        return true;
      }
    });
  }

  #bucketOf(sequence: number): KeyState {
    const place = this.#state === undefined ? -1 : sequence - this.#state.firstSequence;
    const isOver = place < 0 || place >= BUCKET_PLACES || Date.now() - this.#begunAt >= BUCKET_MS;
    return this.#state !== undefined && !isOver ? this.#state : this.#begin(sequence);
  }

  /** With a tree for each organisation of the bucket before, so that they cost one flush and not one each. */
  #begin(firstSequence: number): KeyState {
    // One that could not be made durable has no event yet, and takes the next ones as well.
    if (this.#pending?.generation === 1) return this.#keep(this.#pending);
    this.#takeUpMirrors();
    const trees = new Map([...this.#trees.keys()].map((organisation) => [organisation, [newRoot()]]));
    const taken = new Set(this.#shelf.buckets().map(tagOf));
    let bucketId: Buffer;
    do bucketId = randomBytes(BUCKET_ID_BYTES);
    while (taken.has(bucketId.readUInt32BE(0)));
    const { ledgerId } = this.#options;
    return this.#keep({
      kind: 1,
      ledgerId,
      bucketId,
      firstSequence,
      generation: 1,
      epoch: this.#epoch,
      trees,
    });
  }

  #addTree(organisation: string): KeyTree {
    this.prove();
    let tree = this.#trees.get(organisation);
    const state = this.#state;
    if (tree === undefined && state !== undefined) {
      const trees = new Map([...state.trees, [organisation, [newRoot()]]]);
      this.#keep({ ...state, generation: state.generation + 1, trees });
      tree = this.#trees.get(organisation);
    }
    if (tree === undefined) throw new Error('a tree that was just made is not there');
    return tree;
  }

  /** On return the state is durable, and the one in use. */
  #keep(state: KeyState): KeyState {
    this.#pending = state;
    const name = path.join('buckets', bucketName(state));
    this.#put(name, encodeKeyState(state, this.#shelf.epochKey(state.epoch)));
    this.#pending = undefined;
    this.#isProven = true;
    if (state.generation === 1) this.#begunAt = Date.now();
    this.#use(state);
    return state;
  }

  #use(state: KeyState): void {
    this.#state = state;
    this.#trees = treesOf(state);
  }

  /** @param number 0 for the key of names. */
  #putKey(number: number, key: Buffer, wrapped: string): void {
    const content: WrappedKey = {
      ...{ format: WRAPPED_FORMAT, ledger: this.#options.ledgerId, epoch: number },
      ...{ begun: new Date().toISOString(), wrapped },
    };
    this.#put(wrappedName(number), Buffer.from(`${JSON.stringify(content)}\n`));
    if (number > 0) this.#shelf.know(number, createSecretKey(key), wrapped);
  }

  /** On return the directory and one of its mirrors, where it has any, hold the file, and all that it needs to be opened. */
  #put(name: string, bytes: Buffer): void {
    const { files, places } = this.#options;
    let written = 0;
    let failure: unknown;
    for (const [i, directory] of places.directories.entries()) {
      try {
        if (!this.#isWhole(directory)) this.#level(directory);
        files.replace(directory, name, bytes);
        this.#inTrouble.delete(directory);
        if (i > 0) written++;
      } catch (error) {
        failure = error;
        this.#tellTrouble(directory, error);
        if (i === 0) break;
      }
    }
    if (failure !== undefined && written === 0)
      throw new Error('too few of the directories of keys can be written', { cause: failure });
  }

  /** Whether a directory has what its key states are opened by. It may have been taken away, and given back empty. */
  #isWhole(directory: string): boolean {
    if (this.#epoch === 0) return true;
    if (this.#inTrouble.has(directory)) return false;
    return this.#options.files.read(directory, wrappedName(this.#epoch)) !== undefined;
  }

  #tellTrouble(directory: string, error: unknown): void {
    const isKnown = this.#inTrouble.has(directory);
    this.#inTrouble.add(directory);
    if (!isKnown) this.#options.onTrouble(`the keys of payloads in ${directory} cannot be written`, error);
  }

  #tryToLevel(directory: string): void {
    try {
      this.#level(directory);
    } catch (error) {
      this.#tellTrouble(directory, error);
    }
  }

  /** On return the directory holds what the others have. */
  #level(directory: string): void {
    const { files, ledgerId } = this.#options;
    if (otherLogIn(files, directory, ledgerId) !== undefined)
      throw new Error('it has the keys of another log, which would be written over');
    if (this.#known.has(directory) && namesIn(files, directory, 'epochs', EPOCH_NAME).length === 0)
      throw new Error(
        'it has no keys any more: mount it, or have it filled by collector encryption-keys copy --mirror',
      );
    for (const name of this.#shelf.all()) {
      const due = this.#shelf.due(name);
      const held = files.read(directory, name);
      if (due !== undefined && held?.equals(due) !== true) files.replace(directory, name, due);
    }
    this.#known.add(directory);
  }
}

/** The log whose keys a directory has, where it is not this one; undefined where it cannot be reached too. */
function otherLogIn(files: KeyFiles, directory: string, ledgerId: string): string | undefined {
  try {
    for (const name of namesIn(files, directory, 'epochs', EPOCH_NAME)) {
      const number = Number.parseInt(name, 10);
      const bytes = files.read(directory, wrappedName(number));
      const ledger = bytes && wrappedKeyIn(bytes, number)?.ledger;
      if (ledger !== undefined && ledger !== ledgerId) return ledger;
    }
  } catch {
    // Whoever writes there says so.
  }
  return undefined;
}

/** A mirror that is the directory itself is none. @throws KeysUnfit */
export function assertApart({ directories }: KeyPlaces): void {
  const places = directories.map((directory) => {
    try {
      return fs.realpathSync(directory);
    } catch {
      return path.resolve(directory);
    }
  });
  const twice = directories.find((_, i) => places.indexOf(places[i] ?? '') !== i);
  if (twice !== undefined)
    throw new KeysUnfit(`${twice} is named twice as a directory of the keys of payloads`);
}
