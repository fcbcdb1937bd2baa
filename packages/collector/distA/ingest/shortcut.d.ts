/**
 * A shortcut past Node's HTTP server for what nearly every request is: a plain POST of an event with a valid key, whole
 * in one piece. It costs a third of what Node's parser, streams and response objects do
 * (docs/internals/adr/0021-shortcut.md).
 *
 * A connection begins here. The first request that is in any way else is handed over with the connection: its bytes are
 * put back, and Node's server takes the connection from that byte on, for good. So nothing odd is ever answered here,
 * and there is one request at a time: what comes before an answer waits.
 *
 * The end of a request is where one Content-Length of digits says, in a head without Transfer-Encoding in which every
 * line is printable ASCII and ends with CRLF. Two readings of such a head are not possible, so nothing can be smuggled
 * behind it (RFC 9112 section 11.2).
 */
import type { Socket } from 'node:net';
import { type Limits } from './connections.js';
import type { Ingest } from './ingest.js';
import { type Reply, type WholeRequest } from './request.js';
export declare class Shortcut {
    #private;
    readonly ingest: Ingest;
    readonly toServer: (socket: Socket) => void;
    readonly onError: (error: Error, socket: Socket) => void;
    private readonly onSilence;
    limits: Limits;
    /**
     * @param toServer has Node's server take a connection, with what was put back to be read from it.
     * @param onError what it would be told of an error of the connection.
     * @param onSilence called for a connection on which nothing came in the time for a request's headers.
     */
    constructor(ingest: Ingest, limits: Limits, toServer: (socket: Socket) => void, onError: (error: Error, socket: Socket) => void, onSilence: (socket: Socket) => void);
    /** A new connection, on which nothing was read yet. */
    admit(socket: Socket): void;
    /** The connection is closed, or handed over. */
    forget(connection: Connection): void;
    get now(): number;
    /** Closes the connections on which no request is open. */
    closeIdle(): void;
    /** Closes all connections, and ends. */
    close(): void;
    /** The headers that Node puts behind ours, and the empty line. */
    lastHeaders(keepAlive: boolean): string;
}
/** A connection, the request that is open on it, and the reply to that. */
declare class Connection implements WholeRequest, Reply {
    #private;
    private readonly shortcut;
    readonly socket: Socket;
    readonly method = "POST";
    readonly httpVersion = "1.1";
    readonly complete = true;
    readonly readableEnded = true;
    body: Buffer;
    shouldKeepAlive: boolean;
    /** When something was read or written last, by the shortcut's clock. */
    since: number;
    /** Nothing was read yet. */
    isNew: boolean;
    constructor(shortcut: Shortcut, socket: Socket);
    get isIdle(): boolean;
    get destroyed(): boolean;
    get url(): string;
    get rawHeaders(): string[];
    writeHead(status: number, headers: readonly string[]): void;
    end(body: string): void;
    /** Nothing more is taken from the connection; it is to be ended. */
    leave(): void;
}
export {};
