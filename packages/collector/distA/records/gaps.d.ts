/**
 * What a record lacks: the gaps that a safety officer has to close or explain. An inference whose outcome was never
 * reported, an event that hangs on one which never came, a run of which no one knows the model.
 *
 * Only what is known to be missing is called missing. Of a payload that cannot be read, nothing is known but its kind:
 * an outcome that was encrypted is an outcome, and whether the model was named in a retired start is not known.
 */
import type { Completeness, Conflict, RecordedCall } from '@clinical-events/protocol';
import type { Parentage, TimedEvent } from './canonical-order.js';
export declare const CALL_ENDINGS: readonly RecordedCall['ending'][];
export interface FoundCall {
    readonly call: RecordedCall;
    /** Whether one of its numbers was sent as a text. */
    readonly hasNumberInText: boolean;
}
/**
 * @param events in canonical order. @returns the last of them that reports an ending: with retries there are several.
 */
export declare function callOf(events: readonly TimedEvent[]): FoundCall | undefined;
/**
 * @param start the inference-start that the record follows.
 * @param orphans ids of the events whose parent is not in the log.
 * @param found how the call of the model ended.
 */
export declare function completenessOf(events: readonly TimedEvent[], start: TimedEvent | undefined, orphans: readonly string[], found?: FoundCall): Completeness;
export interface Claims {
    /** In canonical order. */
    readonly events: readonly TimedEvent[];
    readonly parentage: Parentage;
    /** The inference-start that the record follows. */
    readonly start: TimedEvent | undefined;
    /** Ids of events whose parent is of another run, and that do not open a nested run by it. */
    readonly parentElsewhere: readonly string[];
    /** The runs that are nested in each other in a circle with this one. */
    readonly runCycle: readonly string[];
}
/** @returns in the order of the kinds and rules in the schema; the ids of each in canonical order. */
export declare function conflictsOf({ events, parentage, start, parentElsewhere, runCycle }: Claims): Conflict[];
