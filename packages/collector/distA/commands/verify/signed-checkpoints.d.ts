import type { CheckedRoot, FindingList } from '../../store/log-audit.js';
import type { LogKeys } from './trusted-keys.js';
export interface GivenNote {
    readonly note: string;
    /** Where it was found, for messages. */
    readonly source: string;
    readonly file: string;
    /** Whether it was kept outside of the data directory. */
    readonly outside: boolean;
    /** The size that its name promises. */
    readonly size?: number;
}
/**
 * The newest checkpoint first, if there is one. What there is is settled on return; those that were kept, which never
 * change, are read as they are asked for.
 */
export declare function notesOfDirectory(dataDir: string, newest: string | undefined): Iterable<GivenNote>;
/** Told of a file, and why, in words that go on from its name. */
type PassedOver = (file: string, why: string) => void;
/**
 * The notes in a file, or in the files of a directory. What is there is settled on return; it is read as it is asked
 * for, so that it can be much.
 * @param passedOver is told of what in a directory is no file, or holds no signed note.
 * @throws CommandFailure when there is no such file, or it is a pipe or the like, on which a reader might wait forever.
 */
export declare function notesElsewhere(given: string, passedOver: PassedOver): Iterable<GivenNote>;
export declare class SignedCheckpoints {
    #private;
    private readonly keys;
    private readonly findings;
    /** Each size and root once. */
    readonly roots: CheckedRoot[];
    /** Notes that are checkpoints of this log. */
    checked: number;
    /** How many of them were kept outside of the data directory. */
    given: number;
    /** Whether the data directory has a newest one, whatever it says. */
    hasNewest: boolean;
    /** The largest of the data directory. */
    newest: CheckedRoot | undefined;
    constructor(keys: LogKeys, findings: FindingList);
    /**
     * Takes the notes of the data directory, or those that were found at a path that someone gave. Two logs may share
     * such a place: checkpoints of another one are no fault there, if there are any of this one.
     * @throws CommandFailure when there is none at all at that path.
     */
    take(notes: Iterable<GivenNote>, given?: string): void;
    /** To be called when all are taken. */
    finish(): void;
}
export {};
