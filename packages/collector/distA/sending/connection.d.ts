export interface Answer {
    readonly status: number;
    /** From the Error body; undefined when there is none, or none of the protocol. */
    readonly code: string | undefined;
    readonly details: Readonly<Record<string, unknown>> | undefined;
    /** What Retry-After asks for, in milliseconds. */
    readonly retryAfterMs: number | undefined;
}
/** The code of an answer that has one. */
export declare function nameOf({ status, code }: Answer): string;
export declare class Connection {
    #private;
    /** @param base http or https. */
    constructor(base: URL);
    /** Whether another request may go on it. */
    get usable(): boolean;
    /**
     * Only on one that is usable.
     * @throws the system's error when no answer came; whether the event is stored is then not known.
     */
    send(head: string, body: Uint8Array): Promise<Answer>;
    destroy(): void;
}
