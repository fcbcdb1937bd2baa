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
import { type KeyObject } from 'node:crypto';
import { type Files } from '../files.js';
import { type KeyState } from './key-state.js';
import { KekFault, type KeyEncryptionKey } from './key-encryption-key.js';
import { type NameCipher } from './name-cipher.js';
import { SequenceSet } from './sequence-set.js';
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
/** The keys cannot be used. The message says which, and never holds one. */
export declare class KeysUnfit extends Error {
    name: string;
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
export declare function onDisk(files: Files): KeyFiles;
/** Those of this host. */
export declare const keysOnDisk: KeyFiles;
/** The file `kek` of a directory. */
interface KekFile {
    readonly directory: string;
    readonly kek?: KeyEncryptionKey;
    readonly fault?: KekFault;
}
/** What is in the directory and its mirrors. One that cannot be read is passed over while another can. */
declare class Shelf {
    #private;
    readonly files: KeyFiles;
    readonly places: KeyPlaces;
    constructor(files: KeyFiles, places: KeyPlaces);
    /** Of each directory that answers. @throws when none does. */
    each<Answer>(ask: (directory: string) => Answer): Answer[];
    /** The contents of the files of this name. */
    contents(name: string): Buffer[];
    /** The first of them that is sound; of key states the one of the highest generation; of KEKs the one that opens. */
    best(name: string): Buffer | undefined;
    /** @throws KekFault */
    get kek(): KeyEncryptionKey;
    /** The file `kek` of each directory that answers, and why it does not wrap the keys that are there. */
    kekFiles(): KekFile[];
    /** @param number of an epoch; 0 for the key of names. @throws KeysUnfit */
    wrapped(number: number): WrappedKey;
    get where(): string;
    /** The numbers of the epochs, oldest first. */
    epochs(): number[];
    /** The number of the newest epoch; 0 when there is none. */
    newestEpoch(): number;
    /** @throws KeysUnfit, KekFault */
    epochKey(number: number): KeyObject;
    /** Another process may have made others: what is wrapped as before need not be unwrapped again. */
    readAnew(): void;
    /** Of an epoch that was just made, or unwrapped. */
    know(number: number, key: KeyObject, wrapped: string): void;
    /** @throws KeysUnfit, KekFault */
    names(): NameCipher;
    /** @throws KeysUnfit, KekFault */
    namesKey(): Buffer;
    /** The names of all buckets, oldest first. */
    buckets(): string[];
    /** The copies that were noted. */
    copies(): KeyCopy[];
    /** Everything that each directory has to hold. */
    all(): string[];
    /** The names of all actions that are noted. */
    actions(): string[];
    noted(): Buffer[];
    /**
     * The state of a bucket: what all of the directories still open. What a mirror that lags opens besides is not to be
     * opened.
     * @returns undefined when none of them holds one that can be read.
     */
    state(name: string): KeyState | undefined;
    /** What each directory has to hold under a name; of a state the bytes that one of them holds, where one is right. */
    due(name: string): Buffer | undefined;
}
/** Whether any of the directories holds keys. */
export declare function hasKeys(files: KeyFiles, places: KeyPlaces): boolean;
/** What wraps the keys. @throws KekFault, KeysUnfit when it cannot be had. */
export declare function keyEncryptionKeyOf(places: KeyPlaces): KeyEncryptionKey;
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
}
/** For readers, beside a running collector or without one. */
export declare class KeyReader implements StoredKeys {
    #private;
    private readonly shelf;
    constructor(shelf: Shelf);
    /** @returns undefined when there are no keys. */
    static open(files: KeyFiles, places: KeyPlaces): KeyReader | undefined;
    keyOf(tag: number, organisation: string, sequence: number): string | undefined;
    knows(tag: number, organisation: string): boolean;
    names(): NameCipher;
    namesKey(): Buffer;
    noted(): Buffer[];
    readAnew(): void;
    /** Forgets all keys that it has read. */
    drop(): void;
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
export declare function keyInventory(files: KeyFiles, places: KeyPlaces): KeyInventory;
/**
 * On return a directory that is there holds all that these hold.
 * @param until when a copy is to be gone, which is noted before it is made; a mirror has no end.
 * @throws KeysUnfit when there are no keys, or others there; KekFault.
 */
export declare function copyKeys(files: KeyFiles, places: KeyPlaces, to: string, until?: string): void;
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
/** Whose keys are to be destroyed: sequences of events of an organisation, by the tag of their bucket. */
export interface TakenKeys {
    readonly tag: number;
    readonly organisation: string;
    readonly sequences: SequenceSet;
    /** Of a log in a database: what keys were asked for by, where it is not the sequences. */
    readonly places?: SequenceSet;
}
/** For the one process that writes the log. */
export declare class KeyWriter {
    #private;
    /** Of what is stored, by the same opened keys. */
    readonly stored: StoredKeys;
    private constructor();
    /**
     * Opens the keys, or makes them where there are none. On return every directory that can be written holds what the others
     * hold.
     * @throws KeysUnfit when they are those of another log, or are needed and not there; KekFault.
     */
    static open(given: KeyWriterOptions): KeyWriter;
    /**
     * The key of the event that is to be stored next. On return its root is on stable storage.
     * @throws when a new root cannot be made durable.
     */
    keyFor(organisation: string, sequence: number): EventKey;
    /**
     * Where several processes have keys in one place, each in buckets of its own: to be called when others have changed some.
     * On return what they have changed holds here, and what this one had made besides: of two states of a bucket both have to
     * open a place, and all are under the key of the newest epoch.
     * @param lost what was written here and is not in that place, by the names of the files; undefined for one that was
     *   removed, which is looked at again. After an error it is still known.
     * @throws KekFault, KeysUnfit
     */
    takeOver(lost: ReadonlyMap<string, Buffer | undefined>): void;
    /** Whether `takeOver` has not come to its end: until it has, nothing may be saved. */
    get isBehind(): boolean;
    /**
     * On return a root that could not be made durable is. Until this process has written one, a file that is no key shows
     * whether that can be done. @throws when it cannot.
     */
    prove(): void;
    /**
     * Destroys keys, a bucket at a time. On return no directory that was reached has them, and no reader of this process;
     * those of others have them for ten seconds more. What has no key any more is left as it is, so that it may be done
     * again at any time.
     * @returns the directories that could not be reached, and still have them.
     */
    destroy(taken: readonly TakenKeys[]): Promise<string[]>;
    /**
     * Notes an action beside the keys that it destroys, under a name that is made of what it says: of two states of the log
     * it may say different things. @returns the directories that could not be reached.
     */
    noteAction(body: object): string[];
    /**
     * Begins an epoch, and brings all states under its key. On return no old epoch's key is left, if every directory could
     * be reached: what was replaced opens no more, wherever a disk still holds it.
     * @returns the directories that could not be reached.
     */
    rotate(): Promise<string[]>;
    /** On return the rotation that was begun last is at its end, as `rotate` has it. */
    finishRotation(): Promise<string[]>;
    /** Whether a rotation was begun and is not at its end. Asked of no disk, which may hang. */
    get isRotating(): boolean;
    /** The number of the newest epoch. */
    get epoch(): number;
    /** When the newest epoch was begun, in ms since 1970. */
    get epochBegun(): number;
    /** How many directories there are, and how many could not be written the last time. */
    get directories(): {
        readonly all: number;
        readonly inTrouble: number;
    };
}
/** A mirror that is the directory itself is none. @throws KeysUnfit */
export declare function assertApart({ directories }: KeyPlaces): void;
export {};
