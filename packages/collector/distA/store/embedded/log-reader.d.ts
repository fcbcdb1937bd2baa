import { type Cursor, type EventFilter, type EventLog, type FoundEntries, type FoundEvent, type PassedEntry, type Place, type ReadEvents, type SoughtId, type StoredEntry, type StoredEvent } from '../contract/events.js';
import type { Actions } from '../../privacy/actions.js';
import type { NameCipher } from '../../privacy/name-cipher.js';
import type { Files } from '../../files.js';
export declare class LogReader implements EventLog {
    #private;
    private readonly files;
    constructor(dataDirectory: string, files: Files);
    actions(): Actions;
    buckets(places: readonly Place[]): (number | undefined)[];
    get ledgerId(): string;
    get names(): NameCipher | undefined;
    get extent(): number;
    pass(from?: Cursor, { through }?: {
        readonly through?: number;
    }): AsyncGenerator<Iterable<PassedEntry>, Cursor, undefined>;
    scan(filter: EventFilter, from?: Cursor): AsyncGenerator<Iterable<StoredEvent>, Cursor, undefined>;
    entries(from?: Cursor): AsyncGenerator<Generator<StoredEntry, void, any>, Cursor, undefined>;
    end(): Promise<Cursor>;
    read(places: readonly Place[]): Promise<ReadEvents>;
    find(organisation: string, id: Uint8Array, before?: number): Promise<FoundEvent | undefined>;
    withId({ eventId, organisation, known }: SoughtId): Promise<FoundEntries>;
    close(): Promise<void>;
    /** The frame at an address, checked and in memory of its own; undefined when none begins there that can be read. */
    frameAt(address: number): Buffer | undefined;
}
