/** Brings the file of a catalogue up to date: one update at a time, behind the lock of SQLite. */
import type { EventLog } from '../store/contract/events.js';
import { CatalogueFile } from './catalogue-file.js';
import { type Updated, type UpdateOptions } from './updating.js';
export interface CatalogueOptions {
    /** Where the file is made: for its owner alone, as is the directory when it is made. */
    readonly directory: string;
    readonly ledgerId: string;
    /** As the log has it. */
    readonly names?: EventLog['names'];
    /** How long an update waits for another process. */
    readonly waitMs?: number;
    /** Called while an update waits, about ten times a second. @param holder who is waited for, in words. */
    readonly onWait?: (elapsedMs: number, holder: string) => void;
    /** Events to a batch, and pages of the file; tests make them few. */
    readonly mostEntries?: number;
    readonly mostPages?: number;
}
export declare class TakingIn {
    #private;
    private readonly options;
    /** @throws CatalogueFault when the file cannot be made or opened. */
    constructor(options: CatalogueOptions);
    get file(): CatalogueFile;
    /** @param isDamaged a question has found it so. */
    update(log: EventLog, options: UpdateOptions, isDamaged: boolean): Promise<Updated>;
    close(isDamaged: boolean): void;
}
