import type { Credentials } from '../ingest/credentials.js';
import type { Log } from '../ingest/refusal-log.js';
import { type OperatorToken } from './gate.js';
import { type CollectorStatus } from './status.js';
export interface ManagementOptions {
    readonly host: string;
    /** 0 takes any free one. */
    readonly port: number;
    /** Undefined on loopback only. */
    readonly token: OperatorToken | undefined;
    /** The certificate of the listener for events; undefined when plain HTTP alone is spoken. */
    readonly credentials: Credentials | undefined;
    readonly collectorStatus: CollectorStatus;
    readonly log: Log;
}
export declare class Management {
    #private;
    constructor(options: ManagementOptions);
    /** Resolves with the port once connections are accepted; rejects when the address cannot be had. */
    listen(): Promise<number>;
    /** Takes another certificate, for connections from now on. Of clients none is asked for: they have the token. */
    present(credentials: Credentials): void;
    /** On return every connection is closed. */
    close(): Promise<void>;
}
