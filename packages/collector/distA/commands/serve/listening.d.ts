/** A first event to send, as a curl line that works when pasted into a shell. */
import { type X509Certificate } from 'node:crypto';
import { type EventKind } from '@clinical-events/protocol';
import { type Config } from '../../config.js';
import { type StoreSettings } from '../../store/open.js';
import { CommandFailure } from '../exit-codes.js';
/** Where a collector listens. */
export interface Listening {
    readonly host: string;
    readonly port: number;
    /** With HTTPS. */
    readonly tls?: ListeningTls | undefined;
}
interface ListeningTls {
    /** The file of the certificate. */
    readonly file: string;
    /** Undefined when it cannot be read. */
    readonly certificate: X509Certificate | undefined;
    /** Whether the client has to show a certificate too. */
    readonly clientShowsOne: boolean;
}
/** Whether every client has to show a certificate. */
export declare function requiresCertificate({ tlsClientCa, tlsClientAuth }: Config): boolean;
/** @param advice a sentence without its period. */
export declare function cannotListen(who: string, { host, port }: Pick<Listening, 'host' | 'port'>, error: unknown, advice: string): CommandFailure;
/** The address to type on the same host: an address that means "any" is no address to call. */
export declare function callable(host: string): string;
/**
 * @param kind of the event, one that the key may send.
 * @returns a shell command over several lines, without a line break at the end. Each call makes another event.
 */
export declare function firstEventCurl(listening: Listening, keyText: string, kind: EventKind): string;
/**
 * What to tell an operator who was just given a key: the key, once, and a first event to send with it. Ends with a
 * line break. Belongs on standard output, never in a log.
 */
export declare function newKeyNotice(listening: Listening, keyText: string, kind: EventKind): string;
/** What to tell where events are stored and no one has a key: to make one with all permissions would hide that. */
export declare function keysLost(settings: StoreSettings): string;
/**
 * On return the file tells of this collector, or is not there: what cannot be written keeps no collector from running.
 * @param listening undefined where it takes no events.
 */
export declare function noteListening(dataDir: string, listening: Listening | undefined): void;
/** The address of the collector that holds the directory, for a caller on its host; undefined when that is not known. */
export declare function urlOfHolder(dataDir: string): URL | undefined;
export declare function portOfHolder(dataDir: string): number | undefined;
export {};
