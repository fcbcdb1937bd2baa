import { type NoteKey, type CheckpointSigner } from '../integrity/note-signing.js';
export interface SigningKeysOptions {
    readonly dataDir: string;
    /** Where the private keys are. */
    readonly directory: string;
    /** Milliseconds since 1970 UTC. */
    readonly now?: () => number;
    /** Something is not as it should be; checkpoints are signed all the same. */
    readonly onTrouble: (what: string, error: unknown) => void;
    /** A rotation was followed, or the key that it retired destroyed. */
    readonly onNotice?: (message: string) => void;
}
export interface FirstStartOptions extends SigningKeysOptions {
    /** The name of the log; asked for at the very first start only. */
    readonly origin: () => string;
}
/** What a rotation did. */
export interface Rotated {
    readonly key: NoteKey;
    readonly before: NoteKey;
    /** Milliseconds since 1970 UTC: until then `before` signs too. */
    readonly until: number;
    /** Paths of the new private key and of the rotation note. */
    readonly keyFile: string;
    readonly note: string;
}
export declare class SigningKeys implements CheckpointSigner {
    #private;
    private constructor();
    /**
     * The keys of a log, and its first key when it has none yet. For the one process that holds the data directory.
     *
     * A private key that an earlier first start made and never came to name is taken; it is told by its file's name,
     * which fits this origin only.
     * @throws SigningKeyFault as {@link open}; and when the log did begin, but lost `origin.vkey`.
     */
    static openOrCreate(options: FirstStartOptions): SigningKeys;
    /**
     * The keys of a log that has its first key. Never makes one.
     * @throws SigningKeyFault `no-log`, `broken` when the keys do not follow from each other, `key-missing` when the
     *   private key that should sign is not in the directory. The message names the file.
     */
    static open(options: SigningKeysOptions): SigningKeys;
    /**
     * Hands on to a new key, beside a running collector too, which follows at its next checkpoint. Durable on return.
     *
     * While an earlier overlap lasts, only `overlapMs` 0 is allowed, for a key that must be replaced immediately: it ends
     * that overlap with its own, because three keys that all sign would be one more state for every verifier to know.
     *
     * Of two rotations at once the note of one is there first; the other has changed nothing.
     * @throws SigningKeyFault with the reasons of {@link open}, `overlapping` or `overtaken`.
     */
    static rotate(options: {
        readonly dataDir: string;
        readonly directory: string;
        readonly overlapMs: number;
        readonly now?: () => number;
    }): Rotated;
    get origin(): string;
    get keys(): readonly NoteKey[];
    /** @returns the text, signed by the current key and, while the overlap lasts, by the one before. */
    sign(text: string): Promise<string>;
}
