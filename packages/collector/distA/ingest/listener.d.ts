import type { Ingest } from './ingest.js';
import { type Limits } from './connections.js';
import { Tls, type TlsOptions } from './tls.js';
export interface ListenerOptions extends Limits {
    readonly host: string;
    readonly port: number;
}
export declare class Listener {
    #private;
    private readonly ingest;
    private readonly options;
    /** Whether new listeners have plain requests take the shortcut. Only tests change it: the answers are the same. */
    static hasShortcut: boolean;
    /** Undefined when plain HTTP is spoken. */
    readonly tls: Tls | undefined;
    constructor(ingest: Ingest, options: ListenerOptions, tls?: TlsOptions);
    /** Takes other limits, for connections and requests from now on. */
    limit(limits: Limits): void;
    /** Connections that are open. */
    get connections(): number;
    /** Resolves with the port once connections are accepted; rejects when the address cannot be had. */
    listen(): Promise<number>;
    /**
     * Stops accepting, lets requests that were begun have their answers, and resolves when every connection is
     * closed. After `timeoutMs` those that are left are cut off: unanswered, so their senders will send again.
     */
    close(timeoutMs: number): Promise<void>;
}
