/** What may be erased of events of the log: until when floors of the policy keep them, and by which keys they are encrypted. */
import type { Actions } from '../../privacy/actions.js';
import type { TakenKeys } from '../../privacy/key-directory.js';
import { type KeptFacts, type RetentionPolicy } from '../../privacy/retention-policy.js';
import type { RunSummary } from '../../catalogue/run-summary.js';
import type { EventLog } from '../../store/contract/events.js';
import type { LogRun, LogRuns } from './log-runs.js';
import type { LogEvent } from './log-stretch.js';
export interface Floor {
    readonly id: string;
    /** Milliseconds since 1970; Infinity for ever. */
    readonly until: number;
}
export declare function factsOf({ organisation, modelId, modelVersion }: RunSummary): KeptFacts;
/** What the policy is asked about an event: a rule about single events with its kind; all others are about the run. */
export declare function ruleOf(policy: RetentionPolicy, facts: KeptFacts, kind: string): {
    facts: KeptFacts;
    id: string;
    unit: "run" | "event";
};
/** By which floor of a policy an event is kept at a time, in milliseconds since 1970. */
export declare function floorOn(policy: RetentionPolicy, facts: KeptFacts, { kind, receivedAt }: Pick<LogEvent, 'kind' | 'receivedAt'>, now: number): Floor | undefined;
/** By which floor of the policy that is set an event is kept now. Facts of the model are read from the log. */
export declare function floorsOf(reader: LogRuns, { policy: set }: Actions, runs: ReadonlySet<LogRun>): Promise<(run: LogRun, event: LogEvent) => Floor | undefined>;
/** The keys of events, one entry for each bucket and organisation; and the events that have none. */
export declare function keysOf(log: EventLog, events: readonly Pick<LogEvent, 'organisation' | 'sequence' | 'at' | 'size'>[]): {
    readonly keys: readonly TakenKeys[];
    readonly plain: ReadonlySet<number>;
};
