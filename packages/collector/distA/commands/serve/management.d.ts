/** The management listener as the options want it. */
import type { Logger } from 'pino';
import type { Config } from '../../config.js';
import type { Credentials } from '../../ingest/credentials.js';
import type { OperatorToken } from '../../operate/gate.js';
import type { CollectorStatus } from '../../operate/status.js';
import { type Listening } from './listening.js';
/** Closed when it is disposed of. */
export interface OpenManagement extends AsyncDisposable {
    /** Where it listens, and whether it speaks TLS and asks for a token; undefined when there is none. */
    readonly address: {
        readonly host: string;
        readonly tls: boolean;
        readonly port: number;
        readonly token: boolean;
    } | undefined;
    /** Takes another certificate into use. */
    present(credentials: Credentials): void;
}
/**
 * What to tell an operator who starts a collector for the first time: where the console is. Empty where there is none.
 * Ends with a line break.
 */
export declare function consoleNotice(address: OpenManagement['address']): string;
/** What a terminal shows at every start: where events go, and where the console is. Ends with a line break. */
export declare function listeningNotice(listening: Listening | undefined, management: OpenManagement['address']): string;
/** Whether an operator's token would come from other machines for everybody on the way to read. */
export declare function isTokenInClear({ management, managementHost, managementTokenFile, tlsCert, }: Config): boolean;
/**
 * On return it listens, unless it is not wanted.
 * @param credentials the certificate to present, beside plain HTTP.
 * @throws CommandFailure when the address cannot be had.
 */
export declare function openManagement({ management, managementHost: host, managementPort }: Config, token: OperatorToken | undefined, credentials: Credentials | undefined, collectorStatus: CollectorStatus, log: Logger): Promise<OpenManagement>;
