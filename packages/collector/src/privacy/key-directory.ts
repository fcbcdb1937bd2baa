/**
 * The keys of payloads on disk, apart from the data: a directory, and mirrors of it that hold the same files.
 *
 *   kek                         the key that wraps the epoch keys, where no other is named by --kek
 *   epochs/0000001.json         an epoch key, wrapped by it; the states of an epoch are written under it
 *   names.json                  the key of names in derived files (name-cipher.ts), wrapped by it
 *   buckets/<sequence>-<tag>.keys   the trees of a bucket (key-state.ts), by its first sequence and the tag in its frames
 *
 * A bucket is a stretch of at most BUCKET_PLACES entries of the log and of a day. No event is flushed whose root is not
 * on stable storage here, and in one of the mirrors where there are any.
 */
import { createSecretKey, randomBytes, type KeyObject } from 'node:crypto';
import path from 'node:path';
import { exists, type Files } from '../files.js';
import {
  decodeKeyState,
  encodeKeyState,
  keyStateHeader,
  KeyStateDamaged,
  type KeyState,
} from './key-state.js';
import { makeKekFile, openKek, type KeyEncryptionKey } from './key-encryption-key.js';
import { BUCKET_ID_BYTES, KeyTree, newRoot } from './key-tree.js';
import { SyntheticIv, type NameCipher } from './name-cipher.js';

/** As many as a segment of the usual size holds. */
export const BUCKET_PLACES = 65_536;
const BUCKET_MS = 24 * 3600 * 1000;
const WRAPPED_FORMAT = 'clinical-events/encryption-key/v1';
const EPOCH_NAME = /^(\d{7})\.json$/;
const BUCKET_NAME = /^(\d{16})-([0-9a-f]{8})\.keys$/;
/** What was not found is looked for again after this time. */
const LOOK_AGAIN_MS = 1000;

/** Where the keys are: the directory that is written to, its mirrors, and what wraps them. */
export interface KeyPlaces {
  /** At least one. */
  readonly directories: readonly string[];
  /** As `--kek` has it; empty: the file `kek` in each directory. */
  readonly kek: string;
}

/** The keys cannot be used. The message says which, and never holds one. */
export class KeysUnfit extends Error {
  override name = 'KeysUnfit';
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

/** Whether any of the directories holds keys. */
export function hasKeys({ directories }: KeyPlaces): boolean {
  return directories.some((directory) => exists(path.join(directory, 'epochs')));
}

function namesIn(files: Files, directory: string, kind: RegExp): string[] {
  return exists(directory) ? files.list(directory).filter((name) => kind.test(name)) : [];
}

function contentOf(files: Files, file: string): Buffer {
  const fd = files.open(file, 'r');
  try {
    const bytes = Buffer.alloc(files.size(fd));
    return bytes.subarray(0, files.read(fd, bytes, 0, bytes.length, 0));
  } finally {
    files.close(fd);
  }
}

/** On return the file holds these bytes, on stable storage; until then it holds what it held. */
function replaceNow(files: Files, file: string, bytes: Buffer): void {
  const draft = `${file}.draft`;
  files.makeDirectory(path.dirname(file));
  files.remove(draft);
  const fd = files.open(draft, 'wx+');
  try {
    files.write(fd, bytes, bytes.length, 0);
    files.datasync(fd);
  } finally {
    files.close(fd);
  }
  files.rename(draft, file);
  files.syncDirectory(path.dirname(file));
}

/** Epoch keys and key states, as they are in the directory and its mirrors. */
class Shelf {
  readonly #epochs = new Map<number, KeyObject>();
  #kek: KeyEncryptionKey | undefined;
  #names: NameCipher | undefined;

  constructor(
    readonly files: Files,
    readonly places: KeyPlaces,
  ) {}

  /** @throws KekFault */
  get kek(): KeyEncryptionKey {
    return (this.#kek ??= openKek(this.places.kek || `file:${this.#kekFile()}`));
  }

  #kekFile(): string {
    const files = this.places.directories.map((directory) => path.join(directory, 'kek'));
    return files.find((file) => exists(file)) ?? files[0] ?? '';
  }

  /** The file of this name in the first directory that has it. */
  #first(name: string): Buffer | undefined {
    const directory = this.places.directories.find((each) => exists(path.join(each, name)));
    return directory === undefined ? undefined : contentOf(this.files, path.join(directory, name));
  }

  /** @param number of an epoch; 0 for the key of names. */
  wrapped(number: number): WrappedKey {
    const name = wrappedName(number);
    const text = this.#first(name)?.toString();
    if (text === undefined)
      throw new KeysUnfit(`${name} is missing in ${this.places.directories.join(', ')}`);
    try {
      const key = JSON.parse(text) as WrappedKey;
      if (key.format === WRAPPED_FORMAT && key.epoch === number && typeof key.wrapped === 'string')
        return key;
    } catch {
      // Told below.
    }
    throw new KeysUnfit(`${name} in ${this.places.directories.join(', ')} holds no wrapped key`);
  }

  /** The number of the newest epoch; 0 when there is none. */
  newestEpoch(): number {
    const names = this.places.directories.flatMap((directory) =>
      namesIn(this.files, path.join(directory, 'epochs'), EPOCH_NAME),
    );
    return Math.max(0, ...names.map((name) => Number.parseInt(name, 10)));
  }

  /** @throws KeysUnfit, KekFault */
  epochKey(number: number): KeyObject {
    let key = this.#epochs.get(number);
    if (key === undefined) {
      key = createSecretKey(this.kek.unwrap(this.wrapped(number).wrapped));
      this.#epochs.set(number, key);
    }
    return key;
  }

  /** @throws KeysUnfit, KekFault */
  names(): NameCipher {
    return (this.#names ??= new SyntheticIv(this.kek.unwrap(this.wrapped(0).wrapped)));
  }

  /** The names of all buckets, oldest first. */
  buckets(): string[] {
    const names = this.places.directories.flatMap((directory) =>
      namesIn(this.files, path.join(directory, 'buckets'), BUCKET_NAME),
    );
    return [...new Set(names)].sort();
  }

  /**
   * The newest state of a bucket in any of the directories: what a mirror that lags still opens is not to be opened.
   * @returns undefined when none of them holds one that can be read.
   */
  state(name: string): KeyState | undefined {
    let newest: { file: Buffer; generation: number } | undefined;
    for (const directory of this.places.directories) {
      const place = path.join(directory, 'buckets', name);
      if (!exists(place)) continue;
      const file = contentOf(this.files, place);
      const generation = generationOf(file);
      if (generation > (newest?.generation ?? -1)) newest = { file, generation };
    }
    if (newest === undefined) return undefined;
    try {
      return decodeKeyState(newest.file, this.epochKey(keyStateHeader(newest.file).epoch));
    } catch (error) {
      if (error instanceof KeyStateDamaged) return undefined;
      throw error;
    }
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
  /** For names in files that are derived from payloads. @throws KekFault, KeysUnfit */
  names(): NameCipher;
}

/** For readers, beside a running collector or without one. */
export class KeyReader implements StoredKeys {
  readonly #shelf: Shelf;
  readonly #buckets = new Map<number, Bucket>();
  #names = new Map<number, string>();
  /** When what was not found was looked for. */
  readonly #missed = new Map<string, number>();

  constructor(files: Files, places: KeyPlaces) {
    this.#shelf = new Shelf(files, places);
  }

  keyOf(tag: number, organisation: string, sequence: number): string | undefined {
    let bucket = this.#buckets.get(tag);
    // A key is durable before the event is: what is not known is there by now, or nowhere.
    if (bucket?.trees.has(organisation) !== true) bucket = this.#look(tag, organisation);
    return bucket?.trees.get(organisation)?.keyAt(sequence - bucket.firstSequence);
  }

  names(): NameCipher {
    return this.#shelf.names();
  }

  #look(tag: number, organisation: string): Bucket | undefined {
    const now = performance.now();
    const sought = `${tag} ${organisation}`;
    if (now - (this.#missed.get(sought) ?? -Infinity) < LOOK_AGAIN_MS) return undefined;
    if (!this.#names.has(tag)) {
      const tagOf = (name: string) => Number.parseInt(name.slice(17, 25), 16);
      this.#names = new Map(this.#shelf.buckets().map((name) => [tagOf(name), name]));
    }
    const name = this.#names.get(tag);
    const state = name === undefined ? undefined : this.#shelf.state(name);
    if (state?.trees.has(organisation) !== true) {
      this.#missed.set(sought, now);
      return undefined;
    }
    const bucket = { firstSequence: state.firstSequence, trees: treesOf(state) };
    this.#buckets.set(tag, bucket);
    return bucket;
  }
}

function treesOf({ bucketId, trees }: KeyState): Map<string, KeyTree> {
  return new Map([...trees].map(([organisation, nodes]) => [organisation, new KeyTree(bucketId, nodes)]));
}

/** The keys of a directory, for a person. */
export interface KeyInventory {
  readonly ledger: string;
  readonly epoch: number;
  readonly epochBegun: string;
  readonly buckets: number;
  /** Of each directory: how many buckets it lacks or has in an older state, or that it is not there. */
  readonly directories: readonly {
    readonly directory: string;
    readonly isThere: boolean;
    readonly behind: number;
  }[];
}

/** @throws KeysUnfit when there are no keys. */
export function keyInventory(files: Files, places: KeyPlaces): KeyInventory {
  const shelf = new Shelf(files, places);
  const epoch = shelf.wrapped(shelf.newestEpoch());
  const names = shelf.buckets();
  const generations = places.directories.map((directory) =>
    names.map((name) => generationIn(files, path.join(directory, 'buckets', name))),
  );
  const newest = names.map((_, i) => Math.max(...generations.map((of) => of[i] ?? -1)));
  return {
    ...{ ledger: epoch.ledger, epoch: epoch.epoch, epochBegun: epoch.begun, buckets: names.length },
    directories: places.directories.map((directory, at) => ({
      directory,
      isThere: exists(path.join(directory, 'epochs')),
      behind: newest.filter((generation, i) => (generations[at]?.[i] ?? -1) < generation).length,
    })),
  };
}

function generationIn(files: Files, file: string): number {
  return exists(file) ? generationOf(contentOf(files, file)) : -1;
}

/** What an event is sealed by. */
export interface EventKey {
  /** Names the bucket in its frame. */
  readonly tag: number;
  readonly key: string;
}

export interface KeyWriterOptions {
  readonly files: Files;
  readonly places: KeyPlaces;
  readonly ledgerId: string;
  /** A mirror cannot be written; the others have what it lacks. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

/** For the one process that writes the log. */
export class KeyWriter implements StoredKeys {
  readonly #options: KeyWriterOptions;
  readonly #shelf: Shelf;
  readonly #stored: KeyReader;
  readonly #epoch: number;
  #state: KeyState | undefined;
  #trees = new Map<string, KeyTree>();
  #begunAt = 0;

  private constructor(options: KeyWriterOptions, shelf: Shelf, epoch: number) {
    this.#options = options;
    this.#shelf = shelf;
    this.#stored = new KeyReader(options.files, options.places);
    this.#epoch = epoch;
  }

  /**
   * Opens the keys, or makes them where there are none. On return every mirror that can be written holds what the others
   * hold.
   * @throws KeysUnfit when they are those of another log; KekFault.
   */
  static open(options: KeyWriterOptions): KeyWriter {
    const { files, places, ledgerId } = options;
    const shelf = new Shelf(files, places);
    let epoch = shelf.newestEpoch();
    if (epoch > 0) {
      const { ledger } = shelf.wrapped(epoch);
      if (ledger !== ledgerId)
        throw new KeysUnfit(
          `the keys in ${places.directories.join(', ')} are those of another log (${ledger})`,
        );
      shelf.epochKey(epoch);
    } else {
      epoch = 1;
      if (places.kek === '') makeKek(files, places);
      // The epoch is last: while it is missing, there are no keys.
      for (const number of [0, epoch]) new KeyWriter(options, shelf, epoch).#makeKey(number);
      shelf.epochKey(epoch);
    }
    const writer = new KeyWriter(options, shelf, epoch);
    writer.#level();
    return writer;
  }

  /**
   * The key of the event that is to be stored next. On return its root is on stable storage.
   * @throws the system's error when a new root cannot be made durable.
   */
  keyFor(organisation: string, sequence: number): EventKey {
    const state = this.#bucketOf(sequence);
    const tree = this.#trees.get(organisation) ?? this.#addTree(state, organisation);
    const key = tree.keyAt(sequence - state.firstSequence);
    if (key !== undefined) return { tag: state.bucketId.readUInt32BE(0), key };
    // A copy of the log that goes on behind a place whose key is destroyed.
    this.#begin(sequence, [organisation]);
    return this.keyFor(organisation, sequence);
  }

  keyOf(tag: number, organisation: string, sequence: number): string | undefined {
    return this.#stored.keyOf(tag, organisation, sequence);
  }

  names(): NameCipher {
    return this.#shelf.names();
  }

  #bucketOf(sequence: number): KeyState {
    const state = (this.#state ??= this.#continued(sequence));
    const place = state === undefined ? -1 : sequence - state.firstSequence;
    const isOver = place < 0 || place >= BUCKET_PLACES || Date.now() - this.#begunAt >= BUCKET_MS;
    if (state !== undefined && !isOver) return state;
    return this.#begin(sequence, state === undefined ? [] : [...state.trees.keys()]);
  }

  /** The bucket that a process before this one has left, if its places reach so far. */
  #continued(sequence: number): KeyState | undefined {
    const name = this.#shelf.buckets().findLast((each) => Number.parseInt(each, 10) <= sequence);
    const state = name === undefined ? undefined : this.#shelf.state(name);
    if (state === undefined || sequence - state.firstSequence >= BUCKET_PLACES) return undefined;
    this.#trees = treesOf(state);
    this.#begunAt = Date.now();
    return state;
  }

  /** With a tree for each organisation of the bucket before, so that they cost one flush and not one each. */
  #begin(firstSequence: number, organisations: readonly string[]): KeyState {
    const trees = new Map(organisations.map((organisation) => [organisation, [newRoot()]]));
    const bucketId = randomBytes(BUCKET_ID_BYTES);
    const { ledgerId } = this.#options;
    this.#begunAt = Date.now();
    return this.#keep({ ledgerId, bucketId, firstSequence, generation: 1, epoch: this.#epoch, trees });
  }

  #addTree(state: KeyState, organisation: string): KeyTree {
    const trees = new Map([...state.trees, [organisation, [newRoot()]]]);
    this.#keep({ ...state, generation: state.generation + 1, epoch: this.#epoch, trees });
    const tree = this.#trees.get(organisation);
    if (tree === undefined) throw new Error('a tree that was just made is not there');
    return tree;
  }

  #keep(state: KeyState): KeyState {
    const name = path.join('buckets', bucketName(state));
    this.#put(name, encodeKeyState(state, this.#shelf.epochKey(state.epoch)));
    this.#state = state;
    this.#trees = treesOf(state);
    return state;
  }

  #makeKey(number: number): void {
    const content: WrappedKey = {
      ...{ format: WRAPPED_FORMAT, ledger: this.#options.ledgerId, epoch: number },
      ...{ begun: new Date().toISOString(), wrapped: this.#shelf.kek.wrap(randomBytes(32)) },
    };
    this.#put(wrappedName(number), Buffer.from(`${JSON.stringify(content)}\n`));
  }

  /** On return the directory and one of its mirrors, where it has any, hold the file. */
  #put(name: string, bytes: Buffer): void {
    const { files, places, onTrouble } = this.#options;
    const [first, ...mirrors] = places.directories;
    replaceNow(files, path.join(first ?? '', name), bytes);
    let [written, failure] = [0, undefined as unknown];
    for (const mirror of mirrors) {
      try {
        replaceNow(files, path.join(mirror, name), bytes);
        written++;
      } catch (error) {
        failure = error;
        onTrouble(`the mirror of the payload keys in ${mirror} cannot be written`, error);
      }
    }
    if (written === 0 && mirrors.length > 0) throw failure;
  }

  /** Brings each directory what the others have and it has not. */
  #level(): void {
    const { files, places, onTrouble } = this.#options;
    const names = [
      ...(places.kek === '' ? ['kek'] : []),
      ...Array.from({ length: this.#epoch + 1 }, (_, i) => wrappedName(i)),
      ...this.#shelf.buckets().map((name) => path.join('buckets', name)),
    ];
    for (const name of names) {
      const copies = places.directories.map((directory) => path.join(directory, name));
      const held = copies.map((file) => (exists(file) ? contentOf(files, file) : undefined));
      const rank = (bytes: Buffer | undefined) => (bytes === undefined ? -2 : generationOf(bytes));
      const newest = held.reduce((best, bytes) => (rank(bytes) > rank(best) ? bytes : best), undefined);
      for (const [i, file] of copies.entries()) {
        if (newest === undefined || held[i]?.equals(newest) === true || rank(held[i]) === rank(newest))
          continue;
        try {
          replaceNow(files, file, newest);
        } catch (error) {
          onTrouble(`the payload keys in ${path.dirname(file)} cannot be brought up to date`, error);
        }
      }
    }
  }
}

function makeKek(files: Files, { directories }: KeyPlaces): void {
  const [first = ''] = directories;
  files.makeDirectory(first);
  makeKekFile(path.join(first, 'kek'));
  files.syncDirectory(first);
}
