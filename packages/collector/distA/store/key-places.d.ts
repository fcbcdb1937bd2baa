import { type KeyPlaces } from '../privacy/key-directory.js';
/** Whether payloads of a data directory are encrypted, as far as its own note says. */
export declare function notesKeys(dataDirectory: string): boolean;
/** Where a start began to make the first keys, which none has finished: nothing is encrypted by them. */
export declare function begunKeys(dataDirectory: string): readonly string[] | undefined;
/** On return the next start and `doctor` know that keys are being made there. */
export declare function noteBegunKeys(dataDirectory: string, directories: readonly string[]): Promise<void>;
/**
 * As noted; `encryption-keys` in the data directory where nothing is.
 * @throws KeysUnfit for a note that says nothing of the kind.
 */
export declare function readKeyPlaces(dataDirectory: string): KeyPlaces;
/**
 * On return the note is on stable storage, also of the directories that are none of them any more. What lies in the data
 * directory is found again when that is moved.
 */
export declare function noteKeyPlaces(dataDirectory: string, { directories, kek }: KeyPlaces): Promise<void>;
