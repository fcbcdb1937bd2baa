import type { Command } from 'commander';
import type { Config } from '../../config.js';
import { type LifecycleAnswer, type LifecycleRequest } from '../../ledger/lifecycle.js';
import type { Actions } from '../../privacy/actions.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import type { EventLog } from '../../store/contract/events.js';
/** @throws CommandFailure also for a database without a mirror of it. */
export declare function lifecycleConfigOf(command: Command): Config;
/** The log that is to be acted on. @throws CommandFailure when nothing is stored, or it cannot be read. */
export declare function beginLog(dataDir: string): {
    readonly log: EventLog;
    readonly actions: Actions;
};
/** The policy and the holds by which an action is decided. */
export declare function considered(actions: Actions): LifecycleRequest['considered'];
/**
 * Commands call it before they do anything else: without a collector a request would wait for the next start.
 * Whether one runs on a database is not known here.
 * @throws CommandFailure
 */
export declare function assertCollectorRuns(config: Config): void;
/**
 * On return the action is done, or begun: then what it waits for is reported.
 * @throws CommandFailure when it is refused, no collector runs, or the signal comes. It says whether the request is withdrawn
 *   or begun; one that was begun is brought to its end once a collector runs.
 */
export declare function deliver(config: Config, request: LifecycleRequest, { holdRecord, signal, }?: {
    readonly holdRecord?: string;
    readonly signal?: AbortSignal;
}): Promise<Exclude<LifecycleAnswer, {
    state: 'refused';
}>>;
/** Reports the events that were to be erased and of which no action is in the log. @returns whether there is none. */
export declare function isErased(dataDir: string, asked: SequenceSet): Promise<boolean>;
