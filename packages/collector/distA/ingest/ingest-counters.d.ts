/**
 * What is counted of requests, as plain numbers: a call for an answer costs some ten nanoseconds and allocates
 * nothing.
 */
import { type ErrorCode, type EventKind } from '@clinical-events/protocol';
import type { LostPlace } from './connections.js';
/** What a request can be answered with: 201, or one of the closed table of errors. */
type AnswerCode = 'accepted' | ErrorCode;
/** How many requests of a kind were answered in a way since the start. */
export interface AnswerCount {
    readonly kind: EventKind | 'none';
    readonly code: AnswerCode;
    readonly status: number;
    readonly count: number;
}
export declare class IngestCounters {
    #private;
    /** Connections that were closed because all were taken. */
    readonly lostPlaces: Record<LostPlace, number>;
    /** An event was acknowledged. @param milliseconds since the last of its headers had come. */
    accepted(kind: EventKind, milliseconds: number): void;
    refused(kind: EventKind | undefined, code: ErrorCode): void;
    lostPlace(reason: LostPlace): void;
    /** Every pair of a kind and an answer, also those that never came. */
    answers(): AnswerCount[];
    /** From headers to 201: one count a bucket of {@link TIME_BOUNDS_MS}, and their sum in milliseconds. A copy. */
    latencies(): {
        readonly counts: Float64Array;
        readonly sum: number;
    };
}
export {};
