/** Logs what is refused, without letting those who are refused fill the log. */
import type { TLSSocket } from 'node:tls';
import { type ErrorCode } from '@clinical-events/protocol';
import type { LostPlace } from './connections.js';
export declare class LineLimit<Sort extends string> {
    #private;
    private readonly tell;
    private readonly lines;
    private readonly periodMs;
    /** @param tell reports how many of a sort were kept out, at the end of the period at the latest. */
    constructor(tell: (sort: Sort, unsaid: number) => void, lines?: number, periodMs?: number);
    /**
     * @param nowMs a monotonic clock.
     * @returns whether the line may be written.
     */
    admits(sort: Sort, nowMs: number): boolean;
    /** Reports what was kept out, and begins again. */
    flush(): void;
}
type Level = 'debug' | 'info' | 'warn' | 'error';
/** What of a logger is used here and in the rest of ingest: pino's is one. */
export type Log = Record<Level, (fields: object, message: string) => void>;
/** Never a body, a key or a value: these fields and no others, and where it came from. */
export interface Refusal {
    readonly code: ErrorCode;
    readonly requestId: string;
    readonly kind?: string | undefined;
    readonly organisation?: string | undefined;
    /** Of a key that was proven. */
    readonly keyId?: string | undefined;
}
export declare class RefusalLog {
    #private;
    private readonly log;
    constructor(log: Log);
    /**
     * @param remoteOf asked only when a line is written.
     * @param nowMs a monotonic clock.
     */
    note(refusal: Refusal, remoteOf: () => string | undefined, nowMs: number): void;
    noteLostPlace(reason: LostPlace, remote: string | undefined, nowMs: number): void;
    /** Reports how many were not listed, and begins to list again. */
    flush(): void;
}
/**
 * - `timeout`: not done in time.
 * - `closed`: the client went away, or others wanted its place; load balancers that look whether the port is open do
 *   so all day.
 * - `plain_http`: the client does not know that it has to speak TLS.
 * - `client_certificate`: it has none, or one that no given authority vouches for.
 * - `refused_by_client`: it gave up with an alert, mostly because it does not know the authority of this collector's
 *   certificate.
 * - `protocol`: no version, cipher suite or application protocol in common, or bytes that are no TLS.
 */
export type TlsFault = 'timeout' | 'closed' | 'plain_http' | 'client_certificate' | 'refused_by_client' | 'protocol';
export declare class TlsFailures {
    #private;
    private readonly log;
    /** How many there were since the start. */
    readonly counts: Record<TlsFault, number>;
    constructor(log: Log);
    /** @param error as Node reports it; of its text only the code is logged, which OpenSSL takes from a fixed list. */
    note(error: Error, socket: TLSSocket): void;
    /** Says how many were not listed. */
    flush(): void;
}
export {};
