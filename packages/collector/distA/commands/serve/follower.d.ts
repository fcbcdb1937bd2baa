import type { Logger } from 'pino';
import type { Tally } from '../../catalogue/catalogue.js';
import type { FollowerData } from './follower-thread.js';
export declare class Follower implements AsyncDisposable {
    #private;
    private readonly data;
    private readonly log;
    /** As it was counted last; undefined before the first time. */
    tally: Tally | undefined;
    /** Since when the catalogue cannot be brought up to date, in milliseconds since 1970 UTC. */
    troubleSince: number | undefined;
    /** To be made once the ledger is open. */
    constructor(data: FollowerData, log: Logger);
    /** On return the thread has ended, or hangs in a file system, which holds nothing else up. */
    end(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
