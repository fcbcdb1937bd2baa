/**
 * One request from its headers to its answer.
 *
 * The order of the checks is a promise (docs/SPEC.md, R-313): route, method, form of the headers, key and the client
 * certificate that it is bound to, permission, rate, media type, expectation, coding, size, then whether there is room
 * for it (shutting down, storage, overload), and behind the body what `ledger/examine.ts` asks of it. Anyone who has no
 * key learns nothing of the schema and cannot make the collector read a large body.
 */
import type { Socket } from 'node:net';
import type { MessagePort } from 'node:worker_threads';
import { type ErrorCode, type EventKind, type Profile } from '@clinical-events/protocol';
import { type KeyRing } from '../access/key-ring.js';
import type { Principal } from '../access/principal.js';
import type { Fault } from '../ledger/examine.js';
import type { LedgerState, StorageReason } from '../ledger/ledger.js';
import { type RingMemory } from '../ledger/ring.js';
import { type Exchange, type Expectation, type Reply, type RequestHeaders, type StreamedReply, type StreamedRequest, type WholeRequest } from './request.js';
import { IngestCounters } from './ingest-counters.js';
import { type LostPlace } from './connections.js';
import { type Log } from './refusal-log.js';
import { TrustedProxies } from './trusted-proxies.js';
export interface IngestOptions {
    readonly keys: KeyRing;
    /** The queue to the ledger, and the port on which its answers come back. */
    readonly ring: RingMemory;
    readonly answers: MessagePort;
    /** The collector's own profile, for keys that have none. Asked for each event: a reload may change it. */
    readonly profile: Profile;
    readonly maxBodyBytes: number;
    readonly log: Log;
    /** Whether to log a line for every request. Asked for each, as the profile is. */
    readonly logRequests: boolean;
    /** Whose word is taken for where a request comes from. */
    readonly trustedProxies: TrustedProxies;
    /** Whether `onAccepted` is shown each event's body. */
    readonly keepsBodies: boolean;
}
/** What waits for the ledger, or is being received, and how much could. */
export interface QueueState {
    readonly events: number;
    readonly bytes: number;
    readonly maxEvents: number;
    readonly maxBytes: number;
}
export interface StorageState {
    readonly state: LedgerState;
    /** While it refuses. */
    readonly reason?: StorageReason | undefined;
}
export declare class Ingest {
    #private;
    readonly counters: IngestCounters;
    /** Called for each request when its answer is written, with the fault of one that is refused, which no log line has. */
    observer: ((exchange: Exchange, status: number, fault: Fault | undefined) => void) | undefined;
    constructor(options: IngestOptions);
    /** What the ledger's thread says of itself: whether it is worth while to read a body at all. */
    ledgerEntered(state: LedgerState, reason?: StorageReason): void;
    /** From now on every new request is refused with `shutting_down`. */
    stop(): void;
    /** Requests that are being received or wait for the ledger. */
    get pending(): number;
    /** What the queue holds now and could hold, in events and in bytes. */
    get queue(): QueueState;
    /** What the ledger said of itself last. */
    get storage(): StorageState;
    /** Who shows this key, if it is known, valid, not bound to another certificate; `counts` it as a use. */
    principalOf(apiKey: string | undefined, socket: Socket, counts: boolean): Principal | undefined;
    /** Takes a request whose head, free of Expect, and whose key are checked. */
    take(request: WholeRequest, reply: Reply, kind: EventKind, headers: RequestHeaders, principal: Principal): void;
    handle(request: StreamedRequest, reply: StreamedReply, expectation: Expectation): void;
    /** Notes a refusal that no request came to: bytes that are none, or that did not come in time. */
    noteRefusal(code: ErrorCode, requestId: string, remote: string | undefined): void;
    /** Logs and counts a connection that was closed because all were taken. */
    noteLostPlace(reason: LostPlace, remote: string | undefined): void;
}
