import { type NoteKey } from '../../integrity/note-signing.js';
import type { FindingList } from '../../store/log-audit.js';
/** Collects the values of an option that may be given again. */
export declare function collect(value: string, before?: readonly string[]): string[];
/**
 * A verifier key, a file with some, or `@` and a file. What was given is never repeated in a message unless it looks
 * like the name of a file: it may be another key, and a secret one.
 * @param option for messages.
 * @param read throws KeyMalformed when the text is no verifier key.
 * @throws CommandFailure
 */
export declare function keysFrom<Key>(option: string, given: string, read: (vkey: string) => Key): Key[];
/** In a directory, those whose names end in `.note`, by name; in a file, one after another. */
export declare function rotationsIn(given: string): string[];
/** @throws CommandFailure when there is no such file, or it is a directory. */
export declare function reading<Content>(file: string, read: () => Content): Content;
/** The keys by which checkpoints are believed. */
export interface LogKeys {
    readonly from: 'data-dir' | 'given';
    readonly keys: readonly NoteKey[];
    /** Keys of the log from before those that were given. */
    readonly earlier: readonly NoteKey[];
}
interface GivenKeys {
    /** Verifier keys. */
    readonly keys: readonly string[];
    /** Rotation notes, besides those of the data directory. */
    readonly rotations?: readonly string[];
}
/** A verifier key of a log. @throws KeyMalformed. */
export declare function logKey(vkey: string): NoteKey;
/**
 * The keys that the data directory tells, or when any are given, those and the ones that they have handed over to.
 * @param newest checkpoint of the data directory.
 * @throws CommandFailure when keys were given and all are of other logs.
 */
export declare function keysOf(dataDir: string, newest: string | undefined, { keys: given, rotations: givenNotes }: GivenKeys, findings: FindingList): LogKeys;
export {};
