/**
 * The private half of the log's keys: files `<key id>.pem` (PKCS#8 PEM, Ed25519, mode 0600) in a directory that may be
 * anywhere, away from the data and its back-ups for one.
 *
 * A key id (C2SP signed-note) is a hash of public key and origin. So a file tells whether it was made for this log: one
 * whose name is no key id under this log's origin belongs to another log that shares the directory, and is left alone.
 */
import { type KeyObject } from 'node:crypto';
import { type NoteKey } from '../integrity/note-signing.js';
/** The program that signs, by `--signing-keys command:PROGRAM`; undefined where a directory holds the keys. */
export declare function signingProgram(signingKeys: string): string | undefined;
/** Where files of keys are; beside a program that is the key of the seals (shared-keys.ts). */
export declare function signingDirectory({ dataDir, signingKeys }: KeyPlace): string;
/** A key with both halves. */
export interface SigningKey {
    readonly key: NoteKey;
    readonly privateKey: KeyObject;
}
export declare class PrivateKeys {
    #private;
    private readonly directory;
    constructor(directory: string);
    /** Where the private key is, or would be. */
    pathOf(key: NoteKey): string;
    /**
     * Makes a key for the log of this name. On return its file is durable.
     * @param before whose file's owner becomes the owner of the new file.
     */
    make(origin: string, before?: NoteKey): SigningKey;
    /** @throws SigningKeyFault `key-missing`, or `broken` when the file does not hold this very key. */
    read(key: NoteKey): SigningKey;
    /** As OpenSSH does of its keys, but only told: a secret that is mounted for a group can be meant. */
    exposureOf(key: NoteKey): string | undefined;
    /**
     * The one private key that is there for the log of this name; that it is there is durable on return.
     * @returns undefined when there is none, or more than one, none of which can be told from the others.
     */
    only(origin: string): SigningKey | undefined;
    /**
     * Removes the private key, with what a crash may have left beside it. Its bytes are not written over: on a
     * copy-on-write file system or an SSD that reaches them no more than removing does.
     * @returns the paths of what was removed; durably gone on return.
     */
    destroy(key: NoteKey): string[];
    /** Whether the directory is there: where it is not, no key was ever in it. */
    isThere(): boolean;
}
/**
 * `no-log`: nothing was ever signed here. `key-missing`: a private key is not where it should be. `broken`: what is
 * there contradicts itself. `overlapping`: the overlap of an earlier rotation lasts. `overtaken`: another rotation came
 * first. In the last two nothing was changed.
 */
export type SigningKeyFaultReason = 'no-log' | 'key-missing' | 'seal-missing' | 'broken' | 'overlapping' | 'overtaken';
/**
 * The message is for the operator: one line that names the file, and never holds anything of a private key. There is no
 * cause, which would say the same once more.
 */
export declare class SigningKeyFault extends Error {
    readonly reason: SigningKeyFaultReason;
    name: string;
    constructor(reason: SigningKeyFaultReason, message: string);
}
/** On return the names in the directory are on stable storage. Windows cannot flush one, and need not. */
export declare function syncDirectory(directory: string): void;
/**
 * On return the directory exists, and the names of all that had to be made are on stable storage.
 * @param model whose owner becomes the owner of what is made.
 */
export declare function makeDirectory(directory: string, model?: string): void;
/**
 * Makes a file for its owner alone. On return it is durable. A link and not a rename, which would silently take the
 * place of a file of that name: of several processes that make the same file at once, one does.
 *
 * A crash may leave `<file>.<random>.tmp` behind.
 * @param model whose owner becomes the owner of the file.
 * @throws the system's error: EEXIST means that nothing was changed; after any other the file may be there.
 */
export declare function createDurably(file: string, content: string, model?: string): void;
export interface KeyHistory {
    readonly origin: string;
    /** In the order in which they took over. */
    readonly keys: readonly NoteKey[];
    /** The last of the keys. */
    readonly current: NoteKey;
    /** Of each key but the last, the instant until which it signs too: milliseconds since 1970 UTC. */
    readonly until: readonly number[];
    /** The text of `origin.vkey`, and of each rotation note. */
    readonly first: string;
    readonly rotations: readonly string[];
}
export declare function originKeyPath(dataDir: string): string;
export declare function rotationDirectory(dataDir: string): string;
/** Where the note of the `number`th rotation is, or goes; the first is 1. */
export declare function rotationPath(dataDir: string, number: number): string;
/** Paths of the rotation notes in order. Cheap enough for every checkpoint. */
export declare function rotationPaths(dataDir: string): string[];
/** Whether the log has its first key yet. */
export declare function hasHistory(dataDir: string): boolean;
/**
 * A name that is wrong could never be corrected: it is part of every checkpoint.
 * @throws RangeError when a log cannot have the name: empty, with a space, a plus or a control character in it, or the
 *   first line of a rotation note.
 */
export declare function checkOrigin(origin: string): void;
/**
 * Makes `vkey` the key that the log begins with, durably on return.
 * @throws SigningKeyFault when the log did begin before and only lost its first key: with another one, none of the
 *   checkpoints given out could be verified any more.
 */
export declare function beginHistory(dataDir: string, vkey: string): void;
/** @throws SigningKeyFault when the log has no first key although something was signed for it. */
export declare function assertNotBegun(dataDir: string): void;
/**
 * Reads and verifies the whole chain of keys.
 * @throws SigningKeyFault `no-log` when there is none, `broken` when it does not hold, naming the note.
 */
export declare function readHistory(dataDir: string): KeyHistory;
/** @throws SigningKeyFault `broken` */
export declare function followHistory(dataDir: string, first: string, rotations: readonly string[]): KeyHistory;
export interface KeyPlace {
    readonly dataDir: string;
    /** As the option has it. */
    readonly signingKeys: string;
}
/** Whether the private keys are not on that disk; undefined while there are none. Asks the file system that they are on. */
export declare function liesElsewhere({ dataDir, signingKeys }: KeyPlace): boolean | undefined;
/**
 * Whether the next start would miss the file of the current key on that disk, or what tells which key it is.
 * @throws the system's error when that cannot be told.
 */
export declare function isGone({ dataDir, signingKeys }: KeyPlace): boolean;
/** For a new signing key on the disk of the data directory; empty when it lies elsewhere. */
export declare function escrowNotice(place: KeyPlace): string;
