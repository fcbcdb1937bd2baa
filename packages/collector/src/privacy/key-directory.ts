/**
 * The keys of payloads on disk, apart from the data: a directory, and mirrors of it that hold the same files.
 *
 *   kek                             the key that wraps the others, where no other is named by --kek
 *   names.json                      the key of names in derived files (name-cipher.ts), wrapped by it
 *   epochs/0000001.json             an epoch key, wrapped by it; the states of an epoch are written under it
 *   buckets/<sequence>-<tag>.keys   the trees of a bucket (key-state.ts), by its first sequence and the tag in its frames
 *
 * A bucket is a stretch of at most BUCKET_PLACES entries of the log, and of a day of one process: no other adds to it, so
 * that two copies of these directories that go on apart never have different roots under one name. No event is flushed
 * whose root is not on stable storage here, and in one of the mirrors where there are any.
 */
import { createSecretKey, randomBytes, type KeyObject } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { exists, type Files } from '../files.js';
import {
  decodeKeyState,
  encodeKeyState,
  keyStateHeader,
  KeyStateDamaged,
  type KeyState,
} from './key-state.js';
import { isKekFile, newKekFile, openKek, type KeyEncryptionKey } from './key-encryption-key.js';
import { BUCKET_ID_BYTES, KeyTree, newRoot } from './key-tree.js';
import { SyntheticIv, type NameCipher } from './name-cipher.js';

/** As many as a segment of the usual size holds. */
const BUCKET_PLACES = 65_536;
const BUCKET_MS = 24 * 3600 * 1000;
const WRAPPED_FORMAT = 'clinical-events/encryption-key/v1';
const EPOCH_NAME = /^(\d{7})\.json$/;
const BUCKET_NAME = /^(\d{16})-([0-9a-f]{8})\.keys$/;
const KEK_NAME = 'kek';
/** Buckets that a reader keeps in memory. */
const MOST_BUCKETS = 256;

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

function namesIn(files: Files, directory: string, kind: RegExp): string[] {
  return exists(directory) ? files.list(directory).filter((name) => kind.test(name)) : [];
}

/** Undefined when there is none. */
function contentOf(files: Files, file: string): Buffer | undefined {
  if (!exists(file)) return undefined;
  const fd = files.open(file, 'r');
  try {
    const bytes = Buffer.alloc(files.size(fd));
    return bytes.subarray(0, files.read(fd, bytes, 0, bytes.length, 0));
  } finally {
    files.close(fd);
  }
}

/**
 * On return the file holds these bytes, on stable storage; until then it holds what it held. A directory that is not there
 * is not made: it may be a mount that failed.
 */
function replaceNow(files: Files, directory: string, name: string, bytes: Buffer): void {
  if (!exists(directory)) throw new Error(`there is no directory ${directory}`);
  const file = path.join(directory, name);
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

/** What is in the directory and its mirrors. One that cannot be read is passed over while another can. */
class Shelf {
  readonly #epochs = new Map<number, KeyObject>();
  #kek: KeyEncryptionKey | undefined;
  #names: NameCipher | undefined;

  constructor(
    readonly files: Files,
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
    const found = this.each((directory) => contentOf(this.files, path.join(directory, name)));
    return found.filter((bytes) => bytes !== undefined);
  }

  /** The best of them: the first sound one, of key states the newest. */
  best(name: string): Buffer | undefined {
    let best: { bytes: Buffer; rank: number } | undefined;
    for (const bytes of this.contents(name)) {
      const rank = rankOf(name, bytes);
      if (rank >= 0 && rank > (best?.rank ?? -1)) best = { bytes, rank };
    }
    return best?.bytes;
  }

  /** @throws KekFault */
  get kek(): KeyEncryptionKey {
    return (this.#kek ??= openKek(this.places.kek || `file:${this.#kekFile()}`));
  }

  #kekFile(): string {
    const files = this.places.directories.map((directory) => path.join(directory, KEK_NAME));
    const sound = this.each((directory) => {
      const file = path.join(directory, KEK_NAME);
      const bytes = contentOf(this.files, file);
      return bytes !== undefined && isKekFile(bytes) ? file : undefined;
    });
    return sound.find((file) => file !== undefined) ?? files[0] ?? '';
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

  /** The number of the newest epoch; 0 when there is none. */
  newestEpoch(): number {
    const names = this.each((directory) =>
      namesIn(this.files, path.join(directory, 'epochs'), EPOCH_NAME),
    ).flat();
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
    const names = this.each((directory) =>
      namesIn(this.files, path.join(directory, 'buckets'), BUCKET_NAME),
    ).flat();
    return [...new Set(names)].sort();
  }

  /** Everything that each directory has to hold. */
  all(epoch: number): string[] {
    return [
      ...(this.places.kek === '' ? [KEK_NAME] : []),
      ...Array.from({ length: epoch + 1 }, (_, number) => wrappedName(number)),
      ...this.buckets().map((name) => path.join('buckets', name)),
    ];
  }

  /**
   * The newest state of a bucket in any of the directories: what a mirror that lags still opens is not to be opened.
   * @returns undefined when none of them holds one that can be read.
   */
  state(name: string): KeyState | undefined {
    const file = this.best(path.join('buckets', name));
    if (file === undefined) return undefined;
    try {
      return decodeKeyState(file, this.epochKey(keyStateHeader(file).epoch));
    } catch (error) {
      if (error instanceof KeyStateDamaged) return undefined;
      throw error;
    }
  }
}

/** -1 of what is not sound; of key states the newest is the highest. */
function rankOf(name: string, bytes: Buffer): number {
  if (name === KEK_NAME) return isKekFile(bytes) ? 0 : -1;
  if (name.endsWith('.keys')) return generationOf(bytes);
  const number = name === wrappedName(0) ? 0 : Number.parseInt(path.basename(name), 10);
  return wrappedKeyIn(bytes, number) === undefined ? -1 : 0;
}

/** Whether any of the directories holds keys. */
export function hasKeys(files: Files, places: KeyPlaces): boolean {
  return new Shelf(files, places).newestEpoch() > 0;
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
  /** What was not found before is looked for once more. */
  readAnew(): void;
}

/** For readers, beside a running collector or without one. */
export class KeyReader implements StoredKeys {
  readonly #buckets = new Map<number, Bucket>();
  #bucketNames = new Map<number, string>();
  /** What was not found since it was read anew. */
  readonly #missed = new Set<string>();

  constructor(private readonly shelf: Shelf) {}

  /** @returns undefined when there are no keys. */
  static open(files: Files, places: KeyPlaces): KeyReader | undefined {
    const shelf = new Shelf(files, places);
    return shelf.newestEpoch() === 0 ? undefined : new KeyReader(shelf);
  }

  keyOf(tag: number, organisation: string, sequence: number): string | undefined {
    let bucket = this.#buckets.get(tag);
    if (bucket?.trees.has(organisation) !== true) bucket = this.#look(tag, organisation);
    return bucket?.trees.get(organisation)?.keyAt(sequence - bucket.firstSequence);
  }

  names(): NameCipher {
    return this.shelf.names();
  }

  readAnew(): void {
    this.#missed.clear();
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

/** The keys of a directory, for a person. */
export interface KeyInventory {
  readonly ledger: string;
  readonly epoch: number;
  readonly epochBegun: string;
  readonly buckets: number;
  /** Of each directory: how many files it lacks, or has in an older state or damaged. */
  readonly directories: readonly {
    readonly directory: string;
    readonly isThere: boolean;
    readonly behind: number;
  }[];
}

/** @throws KeysUnfit when there are no keys. */
export function keyInventory(files: Files, places: KeyPlaces): KeyInventory {
  const shelf = new Shelf(files, places);
  const number = shelf.newestEpoch();
  const epoch = shelf.wrapped(Math.max(1, number));
  const names = shelf.all(number);
  const best = names.map((name) => shelf.best(name));
  return {
    ...{ ledger: epoch.ledger, epoch: epoch.epoch, epochBegun: epoch.begun },
    buckets: names.filter((name) => name.endsWith('.keys')).length,
    directories: places.directories.map((directory) => {
      const isHeld = (name: string, i: number) => {
        const held = contentOrNothing(files, path.join(directory, name));
        return held !== undefined && best[i]?.equals(held) === true;
      };
      const held = names.filter(isHeld).length;
      return { directory, isThere: held > 0, behind: names.length - held };
    }),
  };
}

function contentOrNothing(files: Files, file: string): Buffer | undefined {
  try {
    return contentOf(files, file);
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
  readonly files: Files;
  readonly places: KeyPlaces;
  readonly ledgerId: string;
  /** Whether there have to be keys: what is encrypted would be lost if others were made. */
  readonly isNeeded?: boolean;
  /** A directory cannot be written; another has what it lacks. */
  readonly onTrouble: (what: string, error: unknown) => void;
}

/** For the one process that writes the log. */
export class KeyWriter {
  /** Of what is stored, by the same opened keys. */
  readonly stored: StoredKeys;
  readonly #options: KeyWriterOptions;
  readonly #shelf: Shelf;
  readonly #epoch: number;
  #state: KeyState | undefined;
  #trees = new Map<string, KeyTree>();
  /** Not durable yet; it is tried again as it is, since a part of the directories may have it. */
  #pending: KeyState | undefined;
  #begunAt = 0;
  #inTrouble = new Set<string>();

  private constructor(options: KeyWriterOptions, shelf: Shelf, epoch: number) {
    this.#options = options;
    this.#shelf = shelf;
    this.stored = new KeyReader(shelf);
    this.#epoch = epoch;
  }

  /**
   * Opens the keys, or makes them where there are none. On return every directory that can be written holds what the others
   * hold.
   * @throws KeysUnfit when they are those of another log, or are needed and not there; KekFault.
   */
  static open(options: KeyWriterOptions): KeyWriter {
    const { files, places, ledgerId, isNeeded = false } = options;
    assertApart(places);
    const shelf = new Shelf(files, places);
    const epoch = shelf.newestEpoch();
    if (epoch > 0) {
      const { ledger } = shelf.wrapped(epoch);
      if (ledger !== ledgerId)
        throw new KeysUnfit(`the keys in ${shelf.where} are those of another log (${ledger})`);
    } else {
      if (isNeeded || shelf.best(wrappedName(0)) !== undefined || shelf.buckets().length > 0)
        throw new KeysUnfit(
          `the keys in ${shelf.where} are not whole: the directory epochs has no key in it`,
        );
      const maker = new KeyWriter(options, shelf, 0);
      if (places.kek === '' && shelf.best(KEK_NAME) === undefined) maker.#put(KEK_NAME, newKekFile());
      // The epoch is last: while it is missing, there are no keys.
      for (const number of [0, 1]) maker.#makeKey(number);
    }
    const writer = new KeyWriter(options, shelf, Math.max(1, epoch));
    shelf.epochKey(writer.#epoch);
    shelf.names();
    for (const directory of places.directories) writer.#tryToLevel(directory);
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

  /** On return a root that could not be made durable is. @throws when it still cannot be. */
  prove(): void {
    if (this.#pending !== undefined) this.#keep(this.#pending);
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
    const trees = new Map([...this.#trees.keys()].map((organisation) => [organisation, [newRoot()]]));
    const taken = new Set(this.#shelf.buckets().map(tagOf));
    let bucketId: Buffer;
    do bucketId = randomBytes(BUCKET_ID_BYTES);
    while (taken.has(bucketId.readUInt32BE(0)));
    const { ledgerId } = this.#options;
    return this.#keep({ ledgerId, bucketId, firstSequence, generation: 1, epoch: this.#epoch, trees });
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
    if (state.generation === 1) this.#begunAt = Date.now();
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

  /** On return the directory and one of its mirrors, where it has any, hold the file, and all that it needs to be opened. */
  #put(name: string, bytes: Buffer): void {
    const { files, places } = this.#options;
    let written = 0;
    let failure: unknown;
    for (const [i, directory] of places.directories.entries()) {
      try {
        if (!this.#isWhole(directory)) this.#level(directory);
        replaceNow(files, directory, name, bytes);
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
    return !this.#inTrouble.has(directory) && exists(path.join(directory, wrappedName(this.#epoch)));
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
    const { files } = this.#options;
    for (const name of this.#shelf.all(this.#epoch)) {
      const best = this.#shelf.best(name);
      const held = contentOf(files, path.join(directory, name));
      if (best !== undefined && held?.equals(best) !== true) replaceNow(files, directory, name, best);
    }
  }
}

/** A mirror that is the directory itself is none. @throws KeysUnfit */
function assertApart({ directories }: KeyPlaces): void {
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
