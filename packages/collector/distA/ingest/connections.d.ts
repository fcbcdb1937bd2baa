/**
 * The places for connections, and who gets one when all are taken. Node's own limit refuses the newcomer, whoever it
 * is, so that anyone could keep all senders out by connections on which next to nothing is sent: that needs no key.
 *
 * A connection on which a request came with a valid key keeps its place until it is closed. Any other may lose it to a
 * newcomer: of the network that has the most of those the oldest. So a flood from elsewhere displaces its own
 * connections; and one from the sender's own network has to fill all the places again before the sender has sent its
 * headers. Who has a key can take all places: it can be revoked.
 *
 * A request on a connection that keeps its place costs the reading of one property. A newcomer costs a look at each
 * network, and only when all places are taken.
 */
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Principal } from '../access/principal.js';
import type { Reply, Request, StreamedRequest } from './request.js';
/** What is granted to connections; may be changed while the collector listens. */
export interface Limits {
    readonly maxConnections: number;
    /** From the first byte of a request to the last of its headers. */
    readonly headersTimeoutMs: number;
    /** From the first byte of a request to the last of its body. */
    readonly requestTimeoutMs: number;
    /** How long an idle connection is kept. */
    readonly keepAliveTimeoutMs: number;
}
interface Parser {
    onIncoming: ((request: {
        upgrade: boolean;
    }, keepAlive: boolean) => number) | null;
}
type ParsedSocket = Socket & {
    readonly parser?: Parser | null;
};
/**
 * Keeps the parser from handing on more requests: in one turn it parses all that was read, hundreds of requests,
 * whether the socket is paused or not.
 */
export declare class HeldParser {
    #private;
    /** Whether a request came meanwhile. It is lost, and the connection of no more use. */
    lostRequest: boolean;
    constructor({ parser }: ParsedSocket);
    /** A parser whose connection is closed serves another one by then. */
    letGo(): void;
}
/** On a connection that may lose its place: what has it keep it. */
declare const KEEP: unique symbol;
type Placed = Duplex & {
    [KEEP]?: (() => void) | undefined;
};
/** A valid key was shown on this connection. */
export declare function keepPlace(connection: Placed): void;
/** Whether no valid key was shown on this connection yet. */
export declare function isUnproven(connection: Placed): boolean;
/** What is shown on the one connection, as TLS, counts for the other, which carries it. */
export declare function standsFor(secured: Placed, carrier: Placed): void;
/**
 * Why a connection was closed when all were taken: `displaced` by a newcomer before a key was shown on it, or
 * `no_place`, a newcomer itself, because on each of the others a key was shown.
 */
export type LostPlace = 'displaced' | 'no_place';
export declare class Places {
    #private;
    limit: number;
    private readonly onLost;
    /**
     * @param limit of connections; a lower one that is set later closes none of those there are.
     * @param onLost called for each connection that is closed here, with the address that it comes from.
     */
    constructor(limit: number, onLost: (reason: LostPlace, remote: string | undefined) => void);
    /** Connections that have a place here. */
    get size(): number;
    /** Whether the connection has a place. One that has none, or loses it later, is closed. */
    admit(socket: Socket & Placed): boolean;
}
/** An IPv4 address, or the first 64 bits of an IPv6 one: of the rest a host has as many as it likes (RFC 4291). */
export declare function networkOf(address: string): string;
export declare class RestingConnections {
    #private;
    private readonly oneAtATime;
    /**
     * @param oneAtATime whether a request that was sent before the refused one was answered is dropped unanswered, and
     *   its connection ended once it has rested.
     */
    constructor(oneAtATime?: boolean);
    /** Resting now. */
    get size(): number;
    /** Seconds until a client that begins now may go on; at least 1. */
    get retryAfter(): number;
    /**
     * Whether a request that was just read came while its connection rested, so that it has waited in the kernel. Only
     * for whom the connection had to rest: behind a proxy someone else may be next on it.
     */
    heldUp(socket: Socket, principal: Principal): boolean;
    /** From now on requests that are parsed on the connection are dropped, until it has rested or is let go. */
    hold(socket: Socket): void;
    /** Requests are handed on again. @returns whether one was dropped, so that the connection is of no more use. */
    letGo(socket: Socket): boolean;
    /** Call when a request was refused: its connection rests once all of it has come, unless it is to be closed. */
    add(request: Request, reply: Reply, principal: Principal | undefined): void;
    /**
     * Call before a request is refused by its head: of those that were sent without waiting for an answer, the last that
     * is refused ends the connection. Those behind it are dropped unanswered.
     */
    limit(request: StreamedRequest, reply: Reply): void;
    /** All may go on, and no one rests any more. */
    stop(): void;
}
export {};
