import { type Committed, type CommittedEntry, type Cursor } from '../contract/events.js';
import type { SegmentLog } from './segment-log.js';
export declare class CommittedEntries implements Committed {
    private readonly log;
    constructor(log: SegmentLog);
    get entries(): number;
    pass(from: Cursor): AsyncGenerator<Iterable<CommittedEntry>, Cursor>;
}
