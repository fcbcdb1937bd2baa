import type { EventLog } from '../store/contract/events.js';
export interface CatalogueCheckOptions {
    /** The one that is checked. */
    readonly directory: string;
    /** An empty one, in which the other is made. */
    readonly scratch: string;
    readonly onProgress?: (sequence: number, of: number) => void;
}
export interface DifferingRecord {
    /** Null where its name does not open. */
    readonly organisation: string | null;
    /** Of the run, or of the event that a record without a run is known by. */
    readonly recordId: string;
    readonly isRun: boolean;
    /** `missing`: there is no row of it. `unknown`: the log has no such record. `differs`: its row says something else. */
    readonly found: 'missing' | 'unknown' | 'differs';
}
export type CatalogueCheck = 
/**
 * `old`: of another version, so that the next update rebuilds it. `closed`: there is no key of its names.
 * `changed`: another process wrote it meanwhile, so that nothing is known. `foreign`: of another log, of another
 * history of this one or by another key of names.
 */
{
    readonly state: 'none' | 'old' | 'closed' | 'changed' | 'damaged' | 'foreign';
} | {
    readonly state: 'compared';
    /** The last entry that is taken in. */
    readonly through: number;
    /** Of the log and of the catalogue together, each once. */
    readonly records: number;
    readonly differing: number;
    /** Of those the first MOST_NAMED, in the order of the log. */
    readonly named: readonly DifferingRecord[];
    /** Whether what is counted of all records is right, as far as that can be compared. */
    readonly isCounted: boolean;
};
/** @throws CatalogueFault when there is no room in `scratch` or the catalogue cannot be read; what the log throws. */
export declare function checkCatalogue(log: EventLog, options: CatalogueCheckOptions): Promise<CatalogueCheck>;
