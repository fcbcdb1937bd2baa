/**
 * The process that runs the directory and file sinks, started by SinkWorker: it gets checkpoints, and reports what came
 * of them.
 *
 * A call to a mount whose server has gone may never return. In the collector it would hold one of the four threads
 * that Node shares among all such calls, on which the ledger waits for room as well; and no process, whatever it
 * calls to end, ends before those threads have. This one may be killed at any time.
 */
import '../stray-signals.js';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { type DiskSinkSpec, type Published, SinkTrouble } from './sink.js';
/** Checkpoints for one sink. It gets the next ones when these are answered. */
export interface Delivery {
    readonly kind: 'deliver';
    readonly sink: DiskSinkSpec;
    readonly notes: readonly Published[];
    readonly newest: Checkpoint;
    /** How many entries the ledger holds, and the verifier keys that may have signed a checkpoint of it. */
    readonly entries: number;
    readonly keys: readonly string[];
}
/** The root that a sink asked for, or why there is none. */
export interface RootAnswer {
    readonly kind: 'root';
    readonly sink: DiskSinkSpec;
    readonly root: Uint8Array | string;
}
/** `shown` names the sink. All but `given` and `failed` leave its delivery under way. */
export type SinkReport = {
    readonly shown: string;
} & ({
    readonly kind: 'progress';
} | {
    readonly kind: 'lost';
} | {
    readonly kind: 'alsoHolds';
    readonly origin: string;
} | {
    readonly kind: 'rootAt';
    readonly size: number;
} | {
    readonly kind: 'given';
    readonly count: number;
} | {
    readonly kind: 'failed';
    readonly state: SinkTrouble['state'];
    readonly message: string;
});
