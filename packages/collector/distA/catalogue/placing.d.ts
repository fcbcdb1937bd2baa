import { type EventLog, type PassedEntry } from '../store/contract/events.js';
import type { Tables } from './tables.js';
export declare class Placing {
    #private;
    private readonly tables;
    private readonly log;
    constructor(tables: Tables, log: Pick<EventLog, 'find'>);
    /**
     * On return the event is of a record, which is due to be summed; where a promise is returned, once that is fulfilled.
     * @param entry no entry of the log's own.
     */
    place(entry: PassedEntry): Promise<void> | undefined;
    /** On return all rows that are written say how many events they have. */
    flush(): void;
}
