import { type Files } from '../../files.js';
import { Actions } from '../../privacy/actions.js';
/** Adds what the frame of an entry of the log's own says to `actions`, if that is an action. @param size of the frame. */
export declare function noteAction(actions: Actions, buffer: Buffer, offset: number, size: number): void;
/** The actions of a log, as a reader knows them: what has come since is looked for each time. */
export declare class NotedActions {
    #private;
    private readonly dataDirectory;
    private readonly files;
    /** The frame at an address, checked; undefined when none is there. */
    private readonly frameAt;
    /** All frames of a log that has no list. */
    private readonly frames;
    constructor(dataDirectory: string, files: Files, 
    /** The frame at an address, checked; undefined when none is there. */
    frameAt: (address: number) => Buffer | undefined, 
    /** All frames of a log that has no list. */
    frames: () => Iterable<{
        buffer: Buffer;
        offset: number;
        size: number;
    }>);
    get(): Actions;
}
/** For the one process that writes the log. */
export declare class ActionList {
    #private;
    private readonly files;
    readonly actions: Actions;
    /** @param dataDirectory whose id index is open. */
    constructor(dataDirectory: string, files: Files);
    /**
     * On return all that the list says of the log is known, and it says nothing else.
     * @param frameAt the frame at an address before `end`, whole; undefined when none is there.
     * @param indexed up to where the id index covers the log.
     * @returns false when there is none that can be believed: then nothing is known, and what the id index covers is to be
     *   taken in before `settle`.
     */
    load(frameAt: (address: number) => Buffer | undefined, end: number, indexed: number): boolean;
    /** On return the list says, on stable storage, that it lacks no action before `address`: the id index may cover that. */
    cover(address: number): void;
    /** On return the list says all that is known. */
    settle(): void;
    /** Takes in an entry of the log that the id index does not cover: one that is an action is noted, on return or by `settle`. */
    take(buffer: Buffer, offset: number, size: number, address: number): void;
    /** On return the list has it, on stable storage. */
    note(sequence: number, address: number): void;
}
