import type { ServerOptions } from 'node:http';
import https from 'node:https';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type SecureContextOptions } from 'node:tls';
import { type CredentialFiles, type Credentials } from './credentials.js';
import { type Log, TlsFailures } from './refusal-log.js';
interface Shown {
    /** As keys are bound to them: `dns:` or `uri:` and the name. */
    readonly names: ReadonlySet<string>;
    /** Milliseconds since 1970 UTC. */
    readonly expiresAt: number;
}
/** On a connection: what its certificate says, read once. It cannot change, because nothing is renegotiated. */
declare const SHOWN: unique symbol;
type Connection = Socket & {
    [SHOWN]?: Shown;
};
/**
 * @param name as `certificateName` spells it.
 * @param nowMs the wall clock: a connection may outlive its certificate.
 * @returns false also when the connection is not encrypted, or no authority vouches for its certificate.
 */
export declare function showsCertificate(connection: Connection, name: string, nowMs: number): boolean;
export interface TlsOptions {
    readonly files: CredentialFiles;
    /** What the files held. */
    readonly credentials: Credentials;
    /** Whether a client without a verified certificate is turned away. Counts only when `files` has authorities. */
    readonly clientAuth: 'required' | 'optional';
    readonly log: Log;
    /** Called with each certificate that is taken into use after the first. */
    readonly onRenewed?: (credentials: Credentials) => void;
}
export declare function contextOf({ cert, key, clientCa }: Credentials): SecureContextOptions;
export declare class Tls {
    #private;
    readonly server: https.Server;
    /** @param http what is to hold for the HTTP that is spoken within. */
    constructor({ files, credentials, clientAuth, log, onRenewed }: TlsOptions, handshakeTimeoutMs: number, http: ServerOptions);
    /** Tells which certificate is in use, and follows its files from now on. */
    start(): void;
    /** Connections whose handshake is not done are closed: nothing was begun on them. Those that speak HTTP stay. */
    stop(): void;
    /** Reads the files now. Resolves with whether they are in use for new connections; if not, the log says why. */
    reload(): Promise<boolean>;
    /** Milliseconds since 1970 UTC. */
    get certificateExpiresAt(): number;
    /**
     * Whether an error on a connection that spoke HTTP is one of the encryption below: nothing that were written there
     * would arrive. It is then noted, and the connection closed.
     */
    breaks(error: Error, socket: Duplex): boolean;
    /** Failed connections since the start. */
    get failures(): Readonly<TlsFailures['counts']>;
}
export {};
