/**
 * The certificate and the key that the collector shows its clients, and what it checks theirs against: as they lie on
 * the disk.
 */
import { X509Certificate } from 'node:crypto';
export interface CredentialFiles {
    /** PEM: the collector's certificate first, and behind it those that lead to the authority. */
    readonly cert: string;
    /** PEM, without a passphrase. */
    readonly key: string;
    /** PEM: the authorities whose client certificates are accepted; undefined when none are asked for. */
    readonly clientCa: string | undefined;
}
/** What the files held, found to fit. */
export interface Credentials {
    readonly cert: Buffer;
    readonly key: Buffer;
    readonly clientCa: Buffer | undefined;
    /** The first in `cert`: the collector's own. */
    readonly certificate: X509Certificate;
    /** As {@link fileStates} was just before they were read. */
    readonly fileStates: string;
}
/** What is wrong with which of the files. The message names the file and never repeats what is in it. */
export interface CredentialFault {
    readonly file: keyof CredentialFiles;
    readonly message: string;
}
/** The files cannot be used. Tells every fault. */
export declare class CredentialsUnusable extends Error {
    readonly faults: readonly CredentialFault[];
    name: string;
    constructor(faults: readonly CredentialFault[]);
}
/**
 * Reads the files and holds them against each other. An expired certificate is read like any other.
 * @throws {@link CredentialsUnusable}
 */
export declare function readCredentials(files: CredentialFiles): Promise<Credentials>;
export interface CredentialWatchOptions {
    readonly files: CredentialFiles;
    /** What is in use. */
    readonly credentials: Credentials;
    /** To be used from now on, for new connections. Not called when the files say what they said before. */
    readonly onChange: (credentials: Credentials) => void;
    /** The files changed and cannot be used. Called once for each change. */
    readonly onTrouble: (reason: string) => void;
    /** Between two looks, in milliseconds; 2000 when not given. */
    readonly pollMs?: number;
}
export declare class CredentialWatch {
    #private;
    constructor(options: CredentialWatchOptions);
    /** Without keeping the process alive for it. */
    start(): void;
    stop(): void;
    /**
     * Reads the files now, changed or not.
     * @returns whether they are in use; when not, `onTrouble` was called with the reason, or they are being changed and
     *   are read again.
     */
    reload(): Promise<boolean>;
}
