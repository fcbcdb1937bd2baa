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
import { createSecretKey, hash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { exists, isFile, nodeFiles, readFrom, replaceNow } from '../files.js';
import { decodeKeyState, encodeKeyState, keyStateHeader, KeyStateDamaged, mergedStates, opensAlike, } from './key-state.js';
import { isKekFile, KekFault, newKekFile, openKek } from './key-encryption-key.js';
import { BUCKET_ID_BYTES, KeyTree, newRoot, TREE_PLACES } from './key-tree.js';
import { SyntheticIv } from './name-cipher.js';
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
/** The keys cannot be used. The message says which, and never holds one. */
export class KeysUnfit extends Error {
    name = 'KeysUnfit';
}
/** What a file held that has no name any more is overwritten: for what it is worth on a disk that writes elsewhere. */
export function onDisk(files) {
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
            if (!exists(directory))
                throw new Error(`there is no directory ${directory}`);
            const file = path.join(directory, name);
            const old = exists(file) ? files.open(file, 'r+') : undefined;
            try {
                replaceNow(files, file, bytes);
                if (old !== undefined)
                    overwrite(files, old);
            }
            finally {
                if (old !== undefined)
                    files.close(old);
            }
        },
        remove(directory, name) {
            const file = path.join(directory, name);
            if (!exists(file))
                return;
            const fd = files.open(file, 'r+');
            try {
                files.remove(file);
                files.syncDirectory(path.dirname(file));
                overwrite(files, fd);
            }
            finally {
                files.close(fd);
            }
        },
    };
}
/** Those of this host. */
export const keysOnDisk = onDisk(nodeFiles);
function overwrite(files, fd) {
    try {
        const size = files.size(fd);
        files.write(fd, Buffer.alloc(size), size, 0);
        files.datasync(fd);
    }
    catch {
        // What replaced it is durable, and the old epoch's key goes.
    }
}
function namesIn(files, directory, within, kind) {
    return files.list(directory, within).filter((name) => kind.test(name));
}
/** Undefined for what is none. */
function wrappedKeyIn(bytes, number) {
    try {
        const key = Object(JSON.parse(bytes.toString()));
        const isOne = key.format === WRAPPED_FORMAT && key.epoch === number && typeof key.wrapped === 'string';
        return isOne ? key : undefined;
    }
    catch {
        return undefined;
    }
}
/** -1 of what is no key state. */
function generationOf(file) {
    try {
        return keyStateHeader(file).generation;
    }
    catch (error) {
        if (error instanceof KeyStateDamaged)
            return -1;
        throw error;
    }
}
function wrappedName(number) {
    return number === 0 ? 'names.json' : path.join('epochs', `${String(number).padStart(7, '0')}.json`);
}
function bucketName({ firstSequence, bucketId }) {
    return `${String(firstSequence).padStart(16, '0')}-${bucketId.toString('hex', 0, 4)}.keys`;
}
function tagOf(bucket) {
    return Number.parseInt(bucket.slice(17, 25), 16);
}
/** What is in the directory and its mirrors. One that cannot be read is passed over while another can. */
class Shelf {
    files;
    places;
    #epochs = new Map();
    #kek;
    #names;
    constructor(files, places) {
        this.files = files;
        this.places = places;
    }
    /** Of each directory that answers. @throws when none does. */
    each(ask) {
        const answers = [];
        let failure;
        for (const directory of this.places.directories) {
            try {
                answers.push(ask(directory));
            }
            catch (error) {
                failure = error;
            }
        }
        if (answers.length === 0)
            throw new Error('no directory of keys can be read', { cause: failure });
        return answers;
    }
    /** The contents of the files of this name. */
    contents(name) {
        const found = this.each((directory) => this.files.read(directory, name));
        return found.filter((bytes) => bytes !== undefined);
    }
    /** The first of them that is sound; of key states the one of the highest generation; of KEKs the one that opens. */
    best(name) {
        const kek = name === KEK_NAME ? this.kekFiles().find(({ fault }) => fault === undefined) : undefined;
        if (kek !== undefined)
            return this.files.read(kek.directory, KEK_NAME);
        let best;
        for (const bytes of this.contents(name)) {
            const rank = rankOf(name, bytes);
            if (rank >= 0 && rank > (best?.rank ?? -1))
                best = { bytes, rank };
        }
        return best?.bytes;
    }
    /** @throws KekFault */
    get kek() {
        return (this.#kek ??= this.places.kek === '' ? this.#kekOfDirectories() : openKek(this.places.kek));
    }
    #kekOfDirectories() {
        const found = this.kekFiles();
        const right = found.find(({ fault }) => fault === undefined);
        if (right?.kek === undefined)
            throw found[0]?.fault ?? new KekFault(`no file kek in ${this.where}`);
        const held = (directory) => contentOrNothing(this.files, directory, KEK_NAME);
        const kek = held(right.directory);
        // The same key where others may read it, say: that has to be corrected first.
        for (const { directory, fault } of found)
            if (fault !== undefined && kek !== undefined && held(directory)?.equals(kek) === true)
                throw fault;
        return right.kek;
    }
    /** The file `kek` of each directory that answers, and why it does not wrap the keys that are there. */
    kekFiles() {
        const newest = this.newestEpoch();
        const wrapped = newest === 0 ? undefined : this.wrapped(newest).wrapped;
        return this.each((directory) => {
            // One that cannot be reached is passed over.
            this.files.list(directory, '');
            try {
                const kek = openKek(`file:${path.join(directory, KEK_NAME)}`);
                if (wrapped !== undefined)
                    kek.unwrap(wrapped);
                return { directory, kek };
            }
            catch (error) {
                if (!(error instanceof KekFault))
                    throw error;
                return { directory, fault: error };
            }
        });
    }
    /** @param number of an epoch; 0 for the key of names. @throws KeysUnfit */
    wrapped(number) {
        const name = wrappedName(number);
        const bytes = this.best(name);
        const key = bytes && wrappedKeyIn(bytes, number);
        if (key === undefined)
            throw new KeysUnfit(`${name} is missing or damaged in ${this.where}`);
        return key;
    }
    get where() {
        return this.places.directories.join(', ');
    }
    /** The numbers of the epochs, oldest first. */
    epochs() {
        const names = this.each((directory) => namesIn(this.files, directory, 'epochs', EPOCH_NAME)).flat();
        return [...new Set(names.map((name) => Number.parseInt(name, 10)))].sort((a, b) => a - b);
    }
    /** The number of the newest epoch; 0 when there is none. */
    newestEpoch() {
        return this.epochs().at(-1) ?? 0;
    }
    /** @throws KeysUnfit, KekFault */
    epochKey(number) {
        const known = this.#epochs.get(number);
        if (known !== undefined)
            return known.key;
        const { wrapped } = this.wrapped(number);
        const key = createSecretKey(this.kek.unwrap(wrapped));
        this.know(number, key, wrapped);
        return key;
    }
    /** Another process may have made others: what is wrapped as before need not be unwrapped again. */
    readAnew() {
        for (const [number, { wrapped }] of this.#epochs) {
            const bytes = this.best(wrappedName(number));
            if (bytes === undefined || wrappedKeyIn(bytes, number)?.wrapped !== wrapped)
                this.#epochs.delete(number);
        }
    }
    /** Of an epoch that was just made, or unwrapped. */
    know(number, key, wrapped) {
        this.#epochs.set(number, { key, wrapped });
    }
    /** @throws KeysUnfit, KekFault */
    names() {
        return (this.#names ??= new SyntheticIv(this.namesKey()));
    }
    /** @throws KeysUnfit, KekFault */
    namesKey() {
        return this.kek.unwrap(this.wrapped(0).wrapped);
    }
    /** The names of all buckets, oldest first. */
    buckets() {
        const names = this.each((directory) => namesIn(this.files, directory, 'buckets', BUCKET_NAME)).flat();
        return [...new Set(names)].sort();
    }
    /** The copies that were noted. */
    copies() {
        const noted = this.contents(COPIES_NAME).flatMap((bytes) => {
            try {
                return JSON.parse(bytes.toString());
            }
            catch {
                return [];
            }
        });
        return [...new Map(noted.map((copy) => [copy.made, copy])).values()];
    }
    /** Everything that each directory has to hold. */
    all() {
        return [
            ...(this.places.kek === '' ? [KEK_NAME] : []),
            ...[0, ...this.epochs()].map(wrappedName),
            ...this.buckets().map((name) => path.join('buckets', name)),
            ...this.actions().map((name) => path.join('actions', name)),
            ...(this.contents(COPIES_NAME).length > 0 ? [COPIES_NAME] : []),
        ];
    }
    /** The names of all actions that are noted. */
    actions() {
        const names = this.each((directory) => namesIn(this.files, directory, 'actions', ACTION_NAME)).flat();
        return [...new Set(names)].sort();
    }
    noted() {
        const found = this.actions().flatMap((name) => this.best(path.join('actions', name)) ?? []);
        return found.filter(({ length }) => length <= MOST_NOTED_BYTES);
    }
    /**
     * The state of a bucket: what all of the directories still open. What a mirror that lags opens besides is not to be
     * opened.
     * @returns undefined when none of them holds one that can be read.
     */
    state(name) {
        return this.#states(name)?.merged;
    }
    /** What each directory has to hold under a name; of a state the bytes that one of them holds, where one is right. */
    due(name) {
        if (!name.endsWith('.keys'))
            return this.best(name);
        const states = this.#states(path.basename(name));
        if (states === undefined)
            return undefined;
        const { merged, held } = states;
        return held.get(merged) ?? encodeKeyState(merged, this.epochKey(merged.epoch));
    }
    #states(name) {
        // What is read while it is replaced may be zeros already.
        return this.#statesNow(name) ?? this.#statesNow(name);
    }
    #statesNow(name) {
        const held = new Map();
        let unfit;
        for (const bytes of this.contents(path.join('buckets', name))) {
            if ([...held.values()].some((each) => each.equals(bytes)))
                continue;
            try {
                held.set(decodeKeyState(bytes, this.epochKey(keyStateHeader(bytes).epoch)), bytes);
            }
            catch (error) {
                if (error instanceof KeysUnfit)
                    unfit = error;
                else if (!(error instanceof KeyStateDamaged))
                    throw error;
            }
        }
        const [first, ...others] = held.keys();
        if (first === undefined && unfit !== undefined)
            throw unfit;
        return first && { merged: others.reduce(mergedStates, first), held };
    }
}
/** -1 of what is not sound; of key states the newest is the highest. */
function rankOf(name, bytes) {
    if (name === KEK_NAME)
        return isKekFile(bytes) ? 0 : -1;
    if (name.endsWith('.keys'))
        return generationOf(bytes);
    if (name === COPIES_NAME || name.startsWith('actions'))
        return isJson(bytes) ? 0 : -1;
    const number = name === wrappedName(0) ? 0 : Number.parseInt(path.basename(name), 10);
    return wrappedKeyIn(bytes, number) === undefined ? -1 : 0;
}
function isJson(bytes) {
    try {
        JSON.parse(bytes.toString());
        return true;
    }
    catch {
        return false;
    }
}
/** Whether any of the directories holds keys. */
export function hasKeys(files, places) {
    return new Shelf(files, places).newestEpoch() > 0;
}
/** What wraps the keys. @throws KekFault, KeysUnfit when it cannot be had. */
export function keyEncryptionKeyOf(places) {
    return new Shelf(keysOnDisk, places).kek;
}
/** For readers, beside a running collector or without one. */
export class KeyReader {
    shelf;
    #buckets = new Map();
    #bucketNames = new Map();
    /** What was not found since it was read anew. */
    #missed = new Set();
    /** Since when it keeps buckets. */
    #keptSince = performance.now();
    constructor(shelf) {
        this.shelf = shelf;
    }
    /** @returns undefined when there are no keys. */
    static open(files, places) {
        const shelf = new Shelf(files, places);
        return shelf.newestEpoch() === 0 ? undefined : new KeyReader(shelf);
    }
    keyOf(tag, organisation, sequence) {
        const bucket = this.#bucket(tag, organisation);
        return bucket?.trees.get(organisation)?.keyAt(sequence - bucket.firstSequence);
    }
    knows(tag, organisation) {
        return this.#bucket(tag, organisation) !== undefined;
    }
    #bucket(tag, organisation) {
        const bucket = this.#buckets.get(tag);
        return bucket?.trees.has(organisation) === true ? bucket : this.#look(tag, organisation);
    }
    names() {
        return this.shelf.names();
    }
    namesKey() {
        return this.shelf.namesKey();
    }
    noted() {
        return this.shelf.noted();
    }
    readAnew() {
        this.#missed.clear();
        if (performance.now() - this.#keptSince > KEPT_MS)
            this.drop();
    }
    /** Forgets all keys that it has read. */
    drop() {
        this.#buckets.clear();
        this.#keptSince = performance.now();
    }
    #look(tag, organisation) {
        const sought = `${tag} ${organisation}`;
        if (this.#missed.has(sought))
            return undefined;
        if (!this.#bucketNames.has(tag))
            this.#bucketNames = new Map(this.shelf.buckets().map((name) => [tagOf(name), name]));
        const name = this.#bucketNames.get(tag);
        const state = name === undefined ? undefined : this.shelf.state(name);
        if (state?.trees.has(organisation) !== true) {
            this.#missed.add(sought);
            return undefined;
        }
        const bucket = { firstSequence: state.firstSequence, trees: treesOf(state) };
        if (this.#buckets.size >= MOST_BUCKETS)
            this.#buckets.clear();
        this.#buckets.set(tag, bucket);
        return bucket;
    }
}
function treesOf({ bucketId, trees }) {
    return new Map([...trees].map(([organisation, nodes]) => [organisation, new KeyTree(bucketId, nodes)]));
}
/** @throws KeysUnfit when there are no keys. */
export function keyInventory(files, places) {
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
            const isHeld = (name, i) => {
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
export function copyKeys(files, places, to, until) {
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
        if (due !== undefined)
            files.replace(to, name, due);
    }
}
function contentOrNothing(files, directory, name) {
    try {
        return files.read(directory, name);
    }
    catch {
        return undefined;
    }
}
/** For the one process that writes the log. */
export class KeyWriter {
    /** Of what is stored, by the same opened keys. */
    stored;
    #options;
    #shelf;
    #reader;
    #known;
    #epoch;
    #isRotating = false;
    /** Whether this process was seen to write where keys are. */
    #isProven = false;
    #state;
    #trees = new Map();
    /** Of `takeOver`: what it has not done yet. */
    #isBehind = false;
    #owedStates = [];
    #owedFiles = new Map();
    /** Not durable yet; it is tried again as it is, since a part of the directories may have it. */
    #pending;
    #begunAt = 0;
    #inTrouble = new Set();
    /** Of an epoch. */
    #begun = [0, 0];
    constructor(options, shelf, epoch) {
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
    static open(given) {
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
                throw new KeysUnfit(`the keys in ${shelf.where} are not whole: the directory epochs has no key in it`);
            const maker = new KeyWriter(options, shelf, 0);
            if (places.kek === '' && shelf.best(KEK_NAME) === undefined)
                maker.#put(KEK_NAME, newKekFile());
            // The epoch is last: a key of names without one is of a start that was cut off, and wrote nothing by it.
            for (const number of [0, 1]) {
                const key = (number === 0 ? options.namesKey : undefined) ?? randomBytes(32);
                maker.#putKey(number, key, shelf.kek.wrap(key));
            }
        }
        const writer = new KeyWriter(options, shelf, Math.max(1, epoch));
        shelf.epochKey(writer.#epoch);
        shelf.names();
        if (places.kek === '')
            for (const { directory, fault } of shelf.kekFiles())
                if (fault !== undefined && hasKeys(files, { directories: [directory], kek: '' }))
                    given.onTrouble(`the file kek of ${directory} is not used: that of another directory is the right one`, fault);
        for (const directory of places.directories)
            writer.#tryToLevel(directory);
        writer.#isRotating = shelf.epochs().length > 1;
        writer.#begun = [writer.#epoch, Date.parse(shelf.wrapped(writer.#epoch).begun)];
        return writer;
    }
    /**
     * The key of the event that is to be stored next. On return its root is on stable storage.
     * @throws when a new root cannot be made durable.
     */
    keyFor(organisation, sequence) {
        const state = this.#bucketOf(sequence);
        const tree = this.#trees.get(organisation) ?? this.#addTree(organisation);
        const key = tree.keyAt(sequence - state.firstSequence);
        if (key === undefined)
            throw new Error('a place in a bucket has no key');
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
    takeOver(lost) {
        this.#isBehind = true;
        // First, and by the keys that they were written under: others may have ended that epoch.
        for (const [name, bytes] of lost)
            if (bytes !== undefined)
                if (name.endsWith('.keys'))
                    this.#owedStates.push(decodeKeyState(bytes, this.#shelf.epochKey(keyStateHeader(bytes).epoch)));
                else
                    this.#owedFiles.set(name, bytes);
        const { files, places } = this.#options;
        for (const [name, bytes] of this.#owedFiles)
            for (const each of places.directories)
                if (files.read(each, name) === undefined)
                    files.replace(each, name, bytes);
        this.#owedFiles.clear();
        this.#shelf.readAnew();
        this.#reader.drop();
        this.#epoch = Math.max(1, this.#shelf.newestEpoch());
        this.#isRotating = this.#shelf.epochs().length > 1;
        this.#shelf.epochKey(this.#epoch);
        // No event was sealed by what was not kept.
        this.#pending = undefined;
        for (const state of this.#owedStates)
            this.#bringUp(state);
        if (this.#state !== undefined)
            this.#bringUp(this.#state);
        this.#owedStates = [];
        this.#isBehind = false;
    }
    /** Whether `takeOver` has not come to its end: until it has, nothing may be saved. */
    get isBehind() {
        return this.#isBehind;
    }
    #bringUp(state) {
        const stored = this.#shelf.state(bucketName(state));
        const merged = { ...(stored ? mergedStates(stored, state) : state), epoch: this.#epoch };
        const isCurrent = this.#state?.bucketId.equals(state.bucketId) === true;
        const isStored = stored !== undefined && merged.epoch === stored.epoch && opensAlike(merged, stored);
        const generation = isStored
            ? stored.generation
            : Math.max(merged.generation, (stored?.generation ?? 0) + 1);
        const next = { ...merged, generation };
        if (!isStored)
            this.#writeState(next);
        if (isCurrent)
            this.#use(next);
    }
    /**
     * On return a root that could not be made durable is. Until this process has written one, a file that is no key shows
     * whether that can be done. @throws when it cannot.
     */
    prove() {
        if (this.#pending !== undefined)
            this.#keep(this.#pending);
        else if (!this.#isProven)
            this.#try();
    }
    #try() {
        const { files, places } = this.#options;
        this.#put(TRIAL_NAME, Buffer.from('written to see whether keys can be\n'));
        for (const directory of places.directories)
            if (!this.#inTrouble.has(directory))
                files.remove(directory, TRIAL_NAME);
        this.#isProven = true;
    }
    /**
     * Destroys keys, a bucket at a time. On return no directory that was reached has them, and no reader of this process;
     * those of others have them for ten seconds more. What has no key any more is left as it is, so that it may be done
     * again at any time.
     * @returns the directories that could not be reached, and still have them.
     */
    async destroy(taken) {
        this.#takeUpMirrors();
        if (this.#shelf.newestEpoch() === 0)
            return [...this.#options.places.directories];
        const unreached = new Set();
        const names = new Map(this.#shelf.buckets().map((name) => [tagOf(name), name]));
        const own = taken.flatMap((each) => this.#ownKeys(each, names.values()));
        for (const [tag, ofBucket] of Map.groupBy(own, (each) => each.tag)) {
            const name = names.get(tag);
            // A file that is missing is a fault, which `verify` finds; nothing is destroyed by it.
            if (name === undefined)
                continue;
            for (const directory of this.#destroyIn(name, ofBucket))
                unreached.add(directory);
            await new Promise(setImmediate);
        }
        return [...unreached];
    }
    /** An action of a log in a database names buckets of that; on a mirror each event is in one of the mirror's. */
    #ownKeys(taken, buckets) {
        if (taken.places === undefined || this.#options.hasPlaces === true)
            return [taken];
        const { organisation, sequences } = taken;
        return [...buckets].flatMap((name) => {
            const first = Number.parseInt(name, 10);
            const end = first + BUCKET_PLACES;
            if (!sequences.meets(first, end))
                return [];
            const within = sequences.within(SequenceSet.ofStretches([{ first, end }]));
            return [{ tag: tagOf(name), organisation, sequences: within }];
        });
    }
    #destroyIn(name, taken) {
        const isCurrent = this.#state !== undefined && name === bucketName(this.#state);
        const state = this.#shelf.state(name);
        if (state === undefined)
            return [...this.#options.places.directories];
        const trees = new Map(state.trees);
        for (const [organisation, own] of Map.groupBy(taken, (each) => each.organisation)) {
            const nodes = trees.get(organisation);
            if (nodes === undefined)
                continue;
            const gone = SequenceSet.union(own.map(({ places, sequences }) => places ?? sequences));
            const places = SequenceSet.ofStretches([...gone].map(({ first, end }) => ({
                first: Math.max(0, first - state.firstSequence),
                end: Math.max(0, end - state.firstSequence),
            })));
            trees.set(organisation, new KeyTree(state.bucketId, nodes).without(places.with(BEYOND)));
        }
        const left = { ...state, generation: state.generation + 1, trees };
        this.#reader.drop();
        if (opensAlike(left, state))
            return this.#levelState(name);
        const unreached = this.#writeState(left);
        if (isCurrent)
            this.#replaceCurrent(left);
        return unreached;
    }
    /**
     * Notes an action beside the keys that it destroys, under a name that is made of what it says: of two states of the log
     * it may say different things. @returns the directories that could not be reached.
     */
    noteAction(body) {
        const text = `${JSON.stringify(body)}\n`;
        const name = path.join('actions', `${hash('sha256', text).slice(0, 32)}.json`);
        return this.#putEverywhere(name, Buffer.from(text));
    }
    /**
     * Begins an epoch, and brings all states under its key. On return no old epoch's key is left, if every directory could
     * be reached: what was replaced opens no more, wherever a disk still holds it.
     * @returns the directories that could not be reached.
     */
    async rotate() {
        this.#takeUpMirrors();
        const key = randomBytes(32);
        this.#putKey(this.#epoch + 1, key, await this.#shelf.kek.wrapLater(key));
        this.#epoch++;
        this.#isRotating = true;
        return this.finishRotation();
    }
    /** On return the rotation that was begun last is at its end, as `rotate` has it. */
    async finishRotation() {
        const unreached = new Set();
        if (this.#pending?.generation === 1)
            this.#pending = { ...this.#pending, epoch: this.#epoch };
        for (const name of this.#shelf.buckets()) {
            const state = this.#shelf.state(name);
            const isOld = state !== undefined && state.epoch < this.#epoch;
            const next = isOld && { ...state, epoch: this.#epoch, generation: state.generation + 1 };
            for (const directory of next ? this.#writeState(next) : this.#levelState(name))
                unreached.add(directory);
            if (next && this.#state !== undefined && name === bucketName(this.#state))
                this.#replaceCurrent(next);
            await new Promise(setImmediate);
        }
        if (unreached.size > 0)
            return [...unreached];
        // Others may have added one meanwhile; from here on nothing is awaited.
        if (this.#shelf.buckets().some((name) => this.#isUnderOld(name)))
            return this.finishRotation();
        const old = this.#shelf.epochs().filter((epoch) => epoch < this.#epoch);
        const { files, places } = this.#options;
        for (const epoch of old)
            for (const each of places.directories)
                files.remove(each, wrappedName(epoch));
        this.#isRotating = false;
        return [];
    }
    /** On return each directory that is noted is one of those that are written, and holds what they hold if it can be reached. */
    #takeUpMirrors() {
        const { noted, places } = this.#options;
        let directories = [];
        try {
            directories = noted?.() ?? [];
        }
        catch (error) {
            this.#options.onTrouble('it cannot be seen which directories have the keys of payloads', error);
        }
        for (const directory of directories) {
            if (places.directories.includes(directory))
                continue;
            places.directories.push(directory);
            this.#tryToLevel(directory);
        }
    }
    #isUnderOld(bucket) {
        const bytes = this.#shelf.best(path.join('buckets', bucket));
        return bytes !== undefined && keyStateHeader(bytes).epoch < this.#epoch;
    }
    /** Whether a rotation was begun and is not at its end. Asked of no disk, which may hang. */
    get isRotating() {
        return this.#isRotating;
    }
    /** The number of the newest epoch. */
    get epoch() {
        return this.#epoch;
    }
    /** When the newest epoch was begun, in ms since 1970. */
    get epochBegun() {
        const [number] = this.#begun;
        try {
            if (number !== this.#epoch)
                this.#begun = [this.#epoch, Date.parse(this.#shelf.wrapped(this.#epoch).begun)];
        }
        catch {
            // No directory of keys can be read: it is asked again.
        }
        return this.#begun[1];
    }
    /** How many directories there are, and how many could not be written the last time. */
    get directories() {
        return { all: this.#options.places.directories.length, inTrouble: this.#inTrouble.size };
    }
    /** A tree that waits to be durable is in it if any directory had it; else no event was sealed by it. */
    #replaceCurrent(state) {
        if (this.#pending !== undefined && this.#pending.generation > 1)
            this.#pending = undefined;
        this.#use(state);
    }
    /** @returns the directories that do not hold it now. */
    #writeState(state) {
        const bytes = encodeKeyState(state, this.#shelf.epochKey(state.epoch));
        return this.#putEverywhere(path.join('buckets', bucketName(state)), bytes);
    }
    #levelState(name) {
        const file = path.join('buckets', name);
        const due = this.#shelf.due(file);
        return due === undefined ? [...this.#options.places.directories] : this.#putEverywhere(file, due);
    }
    /** @returns the directories that do not hold these bytes now. */
    #putEverywhere(name, bytes) {
        const { files, places } = this.#options;
        return places.directories.filter((directory) => {
            try {
                if (!this.#isWhole(directory))
                    this.#level(directory);
                if (files.read(directory, name)?.equals(bytes) !== true)
                    files.replace(directory, name, bytes);
                this.#inTrouble.delete(directory);
                return false;
            }
            catch (error) {
                this.#tellTrouble(directory, error);
                return true;
            }
        });
    }
    #bucketOf(sequence) {
        const place = this.#state === undefined ? -1 : sequence - this.#state.firstSequence;
        const isOver = place < 0 || place >= BUCKET_PLACES || Date.now() - this.#begunAt >= BUCKET_MS;
        return this.#state !== undefined && !isOver ? this.#state : this.#begin(sequence);
    }
    /** With a tree for each organisation of the bucket before, so that they cost one flush and not one each. */
    #begin(firstSequence) {
        // One that could not be made durable has no event yet, and takes the next ones as well.
        if (this.#pending?.generation === 1)
            return this.#keep(this.#pending);
        this.#takeUpMirrors();
        const trees = new Map([...this.#trees.keys()].map((organisation) => [organisation, [newRoot()]]));
        const taken = new Set(this.#shelf.buckets().map(tagOf));
        let bucketId;
        do
            bucketId = randomBytes(BUCKET_ID_BYTES);
        while (taken.has(bucketId.readUInt32BE(0)));
        const { ledgerId } = this.#options;
        return this.#keep({ ledgerId, bucketId, firstSequence, generation: 1, epoch: this.#epoch, trees });
    }
    #addTree(organisation) {
        this.prove();
        let tree = this.#trees.get(organisation);
        const state = this.#state;
        if (tree === undefined && state !== undefined) {
            const trees = new Map([...state.trees, [organisation, [newRoot()]]]);
            this.#keep({ ...state, generation: state.generation + 1, trees });
            tree = this.#trees.get(organisation);
        }
        if (tree === undefined)
            throw new Error('a tree that was just made is not there');
        return tree;
    }
    /** On return the state is durable, and the one in use. */
    #keep(state) {
        this.#pending = state;
        const name = path.join('buckets', bucketName(state));
        this.#put(name, encodeKeyState(state, this.#shelf.epochKey(state.epoch)));
        this.#pending = undefined;
        this.#isProven = true;
        if (state.generation === 1)
            this.#begunAt = Date.now();
        this.#use(state);
        return state;
    }
    #use(state) {
        this.#state = state;
        this.#trees = treesOf(state);
    }
    /** @param number 0 for the key of names. */
    #putKey(number, key, wrapped) {
        const content = {
            ...{ format: WRAPPED_FORMAT, ledger: this.#options.ledgerId, epoch: number },
            ...{ begun: new Date().toISOString(), wrapped },
        };
        this.#put(wrappedName(number), Buffer.from(`${JSON.stringify(content)}\n`));
        if (number > 0)
            this.#shelf.know(number, createSecretKey(key), wrapped);
    }
    /** On return the directory and one of its mirrors, where it has any, hold the file, and all that it needs to be opened. */
    #put(name, bytes) {
        const { files, places } = this.#options;
        let written = 0;
        let failure;
        for (const [i, directory] of places.directories.entries()) {
            try {
                if (!this.#isWhole(directory))
                    this.#level(directory);
                files.replace(directory, name, bytes);
                this.#inTrouble.delete(directory);
                if (i > 0)
                    written++;
            }
            catch (error) {
                failure = error;
                this.#tellTrouble(directory, error);
                if (i === 0)
                    break;
            }
        }
        if (failure !== undefined && written === 0)
            throw new Error('too few of the directories of keys can be written', { cause: failure });
    }
    /** Whether a directory has what its key states are opened by. It may have been taken away, and given back empty. */
    #isWhole(directory) {
        if (this.#epoch === 0)
            return true;
        if (this.#inTrouble.has(directory))
            return false;
        return this.#options.files.read(directory, wrappedName(this.#epoch)) !== undefined;
    }
    #tellTrouble(directory, error) {
        const isKnown = this.#inTrouble.has(directory);
        this.#inTrouble.add(directory);
        if (!isKnown)
            this.#options.onTrouble(`the keys of payloads in ${directory} cannot be written`, error);
    }
    #tryToLevel(directory) {
        try {
            this.#level(directory);
        }
        catch (error) {
            this.#tellTrouble(directory, error);
        }
    }
    /** On return the directory holds what the others have. */
    #level(directory) {
        const { files, ledgerId } = this.#options;
        if (otherLogIn(files, directory, ledgerId) !== undefined)
            throw new Error('it has the keys of another log, which would be written over');
        if (this.#known.has(directory) && namesIn(files, directory, 'epochs', EPOCH_NAME).length === 0)
            throw new Error('it has no keys any more: mount it, or have it filled by collector encryption-keys copy --mirror');
        for (const name of this.#shelf.all()) {
            const due = this.#shelf.due(name);
            const held = files.read(directory, name);
            if (due !== undefined && held?.equals(due) !== true)
                files.replace(directory, name, due);
        }
        this.#known.add(directory);
    }
}
/** The log whose keys a directory has, where it is not this one; undefined where it cannot be reached too. */
function otherLogIn(files, directory, ledgerId) {
    try {
        for (const name of namesIn(files, directory, 'epochs', EPOCH_NAME)) {
            const number = Number.parseInt(name, 10);
            const bytes = files.read(directory, wrappedName(number));
            const ledger = bytes && wrappedKeyIn(bytes, number)?.ledger;
            if (ledger !== undefined && ledger !== ledgerId)
                return ledger;
        }
    }
    catch {
        // Whoever writes there says so.
    }
    return undefined;
}
/** A mirror that is the directory itself is none. @throws KeysUnfit */
export function assertApart({ directories }) {
    const places = directories.map((directory) => {
        try {
            return fs.realpathSync(directory);
        }
        catch {
            return path.resolve(directory);
        }
    });
    const twice = directories.find((_, i) => places.indexOf(places[i] ?? '') !== i);
    if (twice !== undefined)
        throw new KeysUnfit(`${twice} is named twice as a directory of the keys of payloads`);
}
//# sourceMappingURL=key-directory.js.map