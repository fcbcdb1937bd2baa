import { type EventLog, type FoundEvent } from '../contract/events.js';
/** The log as its reader has it. */
interface Frames extends Pick<EventLog, 'pass'> {
    /** The frame at an address, checked; undefined when none begins there that can be read. */
    frameAt(address: number): Buffer | undefined;
}
export declare class EventFinder {
    #private;
    private readonly dataDirectory;
    private readonly log;
    constructor(dataDirectory: string, log: Frames);
    /** Behind the last entry that has been noted, or that the index covers. */
    get nextSequence(): number;
    find(organisation: string, id: Uint8Array, before?: number): Promise<FoundEvent | undefined>;
    close(): Promise<void>;
}
export {};
