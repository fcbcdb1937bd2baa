import type { Socket } from 'node:net';
import type { EventKind } from '@clinical-events/protocol';
import type { Principal } from '../access/principal.js';
import type { Share } from './admission.js';
export interface RequestHeaders {
    host: number;
    /** Where a page's script comes from (RFC 6454 section 7); empty when two say so. */
    apiKey: string | undefined;
    /** True when a header that may stand once stands twice: two readings of one request. */
    repeated: boolean;
    contentType: string | undefined;
    contentEncoding: string | undefined;
    /** From Content-Length; undefined when the body is chunked or there is none. */
    contentLength: number | undefined;
    transferEncoding: string | undefined;
}
/**
 * @param raw names and values in turn, as they came ({@link Request.rawHeaders}). The parser has already
 *   refused a Content-Length that is no number, two different ones, and one beside Transfer-Encoding.
 */
export declare function readHeaders(raw: readonly string[]): RequestHeaders;
/** True for `application/json`, alone or with charset UTF-8 (RFC 9110 section 8.3; other parameters are ignored). */
export declare function isJsonMediaType(contentType: string | undefined): boolean;
/**
 * What the client expects before it sends its body (RFC 9110 section 10.1.1): `continue` holds the body back
 * until it is asked to go on, `unmet` is an expectation that the collector does not know.
 */
export type Expectation = 'none' | 'continue' | 'unmet';
interface RequestHead {
    readonly method?: string | undefined;
    readonly url?: string | undefined;
    /** `1.1` or `1.0`, or what else was written there. */
    readonly httpVersion: string;
    /** Names and values in turn, as they came. */
    readonly rawHeaders: readonly string[];
    readonly socket: Socket;
    /** Its connection is gone. */
    readonly destroyed: boolean;
}
/** A request all of which has come before anything of it was looked at. */
export interface WholeRequest extends RequestHead {
    readonly complete: true;
    readonly readableEnded: true;
    /** Valid until it is answered. */
    readonly body: Buffer;
}
/**
 * A request as a server hands it over: its head is read, its body comes by `data` and `end`. That is all that is known
 * of HTTP servers behind the listener; Node's IncomingMessage is one.
 */
export interface StreamedRequest extends RequestHead {
    /** All of it has come; and all of it was read. */
    readonly complete: boolean;
    readonly readableEnded: boolean;
    readonly body?: undefined;
    on(event: 'data', take: (chunk: Buffer) => void): unknown;
    on(event: 'end' | 'close', take: () => void): unknown;
    once(event: 'end', take: () => void): unknown;
    pause(): unknown;
    resume(): unknown;
}
export type Request = WholeRequest | StreamedRequest;
/** The answer to a request, to be given once. */
export interface Reply {
    /** False: the connection ends behind this answer, and takes no further request. */
    shouldKeepAlive: boolean;
    writeHead(status: number, headers: string[]): unknown;
    end(body?: string): unknown;
    /** Has the client send the body that it holds back. No whole request has that. */
    writeContinue?(): unknown;
    /** Of the body, before its end; for a request that is not complete. */
    write?(body: string): unknown;
}
/** The answer to a streamed request; Node's ServerResponse is one. */
export type StreamedReply = Required<Reply>;
/** A request on its way through the collector, and what is known of it so far. */
export interface Exchange {
    /** In the answer and in the log line of a refusal. */
    readonly id: string;
    readonly request: Request;
    readonly reply: Reply;
    /** Monotonic clock, milliseconds. */
    readonly startedAt: number;
    readonly expectation: Expectation;
    kind: EventKind | undefined;
    principal: Principal | undefined;
    /** Of the key, once the event has a place in the queue; and the bytes that count against it. */
    share: Share | undefined;
    sharedBytes: number;
    /** As received, before decompression. */
    bodyBytes: number;
    /** Decompressed, once the event has a place in the queue, where the options want bodies kept. */
    body: Buffer | undefined;
}
/** A body while it arrives, in no more memory than was promised to it. */
export declare class Body {
    #private;
    length: number;
    /**
     * Takes a chunk in. Chunks are not kept: a sender may cut a body into single bytes, and each would cost some
     * four hundred bytes of memory until the body is whole.
     * @param promised bytes; at least `length` and the chunk together.
     */
    add(chunk: Buffer, promised: number): void;
    /** What has arrived; a view that the next `add` may leave behind. */
    get bytes(): Buffer;
}
export type Encoding = 'identity' | 'gzip' | 'br' | 'zstd';
/** The one coding that the header names, or undefined when it names another one or several. */
export declare function contentEncoding(header: string | undefined): Encoding | undefined;
/**
 * @param limit the most bytes that may come out.
 * @returns the plain body, or the code of the error it must be refused with.
 */
export declare function decompress(encoding: Exclude<Encoding, 'identity'>, body: Uint8Array, limit: number): Buffer | 'body_too_large' | 'invalid_compression';
export declare const REQUEST_ID = "X-Request-Id";
/** 80 random bits as 20 hexadecimal digits. */
export declare function newRequestId(): string;
export {};
