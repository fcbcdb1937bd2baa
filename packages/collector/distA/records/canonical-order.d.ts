import { type Instant } from './instant.js';
import type { EventBody, RunEvent } from './run-event.js';
export interface TimedEvent<Body extends EventBody = EventBody> extends RunEvent<Body> {
    /** By the sender's clock; for a payload that cannot be read, when it was received. */
    readonly at: Instant;
    /** The parent in lower case; null when it names none, or cannot be read. */
    readonly parentId: string | null;
}
/** @returns the events, each once, in canonical order. */
export declare function inCanonicalOrder<Body extends EventBody>(events: readonly RunEvent<Body>[]): TimedEvent<Body>[];
export interface Parentage {
    /** For each event, the place of its parent in the record; -1 when it names none, or one that is not of the record. */
    readonly parentAt: readonly number[];
    /** The places of events that name a parent which is not of the record, in order. */
    readonly outside: readonly number[];
    /** The places of events from which following parents leads back to them, in order. */
    readonly cyclic: readonly number[];
}
/** @param events in canonical order. */
export declare function parentageOf(events: readonly TimedEvent[]): Parentage;
