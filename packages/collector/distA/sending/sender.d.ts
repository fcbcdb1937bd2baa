import { type EventKind } from '@clinical-events/protocol';
import { type Answer } from './connection.js';
import type { EventEndpoint } from './event-endpoint.js';
export interface SendOptions {
    /** No more than so many a second. */
    readonly perSecond?: number | undefined;
    /** Gives up after so long without any progress, in milliseconds. */
    readonly patienceMs?: number;
    readonly stop: AbortSignal;
}
/** Nothing more can be sent, and what was sent stays. The message says why, for the operator. */
export declare class SendingFailed extends Error {
    name: string;
}
export interface Sending {
    readonly kind: EventKind;
    /** Undefined when the body holds none; then it waits for no other. */
    readonly eventId: string | undefined;
    readonly body: Uint8Array;
}
export declare class Sender {
    #private;
    /** Sendings beyond the first of the same. */
    retries: number;
    constructor(endpoint: EventEndpoint, options: SendOptions);
    /**
     * Events of the same id go in the order of the calls. The caller bounds how many are under way.
     * @returns 201 once it is stored, or why it never will be: 400, 409, 413 or 500; undefined when it was stopped.
     * @throws SendingFailed when the collector has gone, or takes events no more; then every later call does.
     */
    send(event: Sending): Promise<Answer | undefined>;
}
