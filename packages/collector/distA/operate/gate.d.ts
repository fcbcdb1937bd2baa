import { type RequestListener } from 'node:http';
import { type SecureContext } from 'node:tls';
import { type ErrorCode } from '@clinical-events/protocol';
import type { Log } from '../ingest/refusal-log.js';
export declare class Gate {
    #private;
    private readonly handler;
    /** For connections from now on; undefined when plain HTTP alone is spoken. */
    secureContext: SecureContext | undefined;
    /** @param handler gets GET and HEAD requests without a body, and no others. */
    constructor(handler: RequestListener);
    /** Resolves with the port once connections are accepted; rejects when the address cannot be had. */
    listen(host: string, port: number): Promise<number>;
    /** On return every connection is closed. */
    close(): Promise<void>;
}
/** What is compared of the request. */
export interface Presented {
    readonly host: string | undefined;
    readonly authorization: string | undefined;
    readonly remote: string | undefined;
    /** Whether it came by TLS. */
    readonly encrypted: boolean;
}
/** Why it is refused, as an Error body says it. */
export interface AccessRefusal {
    readonly code: ErrorCode;
    readonly message: string;
    /** For WWW-Authenticate, a header each. */
    readonly challenges?: readonly string[];
}
export declare class OperatorAccess {
    #private;
    private readonly token;
    private readonly speaksTls;
    private readonly log;
    /**
     * @param token undefined on loopback only.
     * @param speaksTls whether other hosts have to speak it too: who has sent the token in the clear once is told, and not
     *   served, so that it does not become the custom.
     */
    constructor(token: OperatorToken | undefined, speaksTls: boolean, log: Log);
    /** @returns why not, or undefined when it may. */
    refusal({ host, authorization, remote, encrypted }: Presented): AccessRefusal | undefined;
}
/** The file cannot be used. The message names it and says what to do; it never repeats what it holds. */
export declare class OperatorTokenUnfit extends Error {
    name: string;
}
export declare class OperatorToken {
    #private;
    private constructor();
    /**
     * Reads the token: the file's one line.
     * @throws {@link OperatorTokenUnfit} when it cannot be read, is open to other users, or is too short.
     */
    static read(file: string): OperatorToken;
    /** In a time that does not depend on how much of it is right. */
    matches(presented: string): boolean;
}
