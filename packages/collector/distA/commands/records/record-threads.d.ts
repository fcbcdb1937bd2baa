import type { RecordSelection } from '../../catalogue/catalogue.js';
import type { ThreadSettings, PlacedPiece } from './job.js';
import { type RecordSource } from '../catalogue.js';
export interface Made {
    readonly pieces: readonly PlacedPiece[];
    /** The first event of the last of the records. */
    readonly sequence: number;
}
export declare class RecordThreads {
    #private;
    private readonly settings;
    private readonly source;
    constructor(settings: ThreadSettings, source: RecordSource);
    /**
     * The pieces of all records, in order.
     * @throws what a thread could not do; StoreDamaged among it.
     */
    pieces(selection: RecordSelection, signal: AbortSignal): AsyncGenerator<Made>;
    stop(): Promise<void>;
}
