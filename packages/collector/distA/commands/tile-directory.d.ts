export declare class TileDirectory {
    #private;
    readonly root: string;
    /** How many files were written so far. */
    written: number;
    /**
     * On return the directory exists.
     * @throws CommandFailure when it holds other files, and no checkpoint.
     */
    constructor(root: string);
    /** The signed note; undefined before the first export has ended. */
    checkpoint(): string | undefined;
    /** Whether a full tile is there, by its size in bytes. */
    holds(level: number | 'entries', index: number, bytes: number): boolean;
    /**
     * Writes the tile, unless it is there as it should be. It may not be there on return, but is after `flush`.
     * @param before its width in the earlier export, 0 without one: of that much nothing may have changed.
     * @throws CommandFailure when something has; the system's error of this file or of one before it.
     */
    put(level: number | 'entries', index: number, before: number, width: number, bytes: Buffer): Promise<void>;
    /** Puts the checkpoint in the place of the one before, once every tile is there. On return all is on stable storage. */
    finish(note: string): Promise<void>;
    /** Leaves nothing behind that is half written. */
    close(): Promise<void>;
}
