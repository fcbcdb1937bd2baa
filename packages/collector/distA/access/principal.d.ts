/** The sender that a key proves, and what that key lets it do. */
import { type EventKind, type Profile } from '@clinical-events/protocol';
import type { ApiKey, RateLimit } from '../store/contract/keys.js';
/**
 * @returns the limit, or undefined when the text is none. Without a burst, the bucket holds one second's events.
 */
export declare function parseRateLimit(text: string): RateLimit | undefined;
/** The text that {@link parseRateLimit} reads back as the same limit. */
export declare function formatRateLimit({ perSecond, burst }: RateLimit): string;
/** @returns the one spelling in which such a name is stored and compared, or undefined when the text is none. */
export declare function certificateName(text: string): string | undefined;
/**
 * The bucket of one key. N collectors let through N times the rate: an exact common limit would cost a round trip between
 * them for each event, and its purpose is to contain a sender that has run wild, not to bill one.
 */
export declare class TokenBucket {
    #private;
    /** How often there was none to take. */
    refused: number;
    /** A full bucket. */
    constructor(limit: RateLimit);
    /**
     * Takes a token if there is one.
     * @param nowMs a monotonic clock such as `performance.now()`. Should it go back all the same, nothing is
     *   refilled for it, and refilling goes on from the new time instead of waiting for the old one to come again.
     * @returns 0 when a token was taken, else in how many whole seconds (at least 1) one will be there.
     */
    take(nowMs: number): number;
}
/**
 * What a key grants. There is one for a key for as long as its grants stay the same, so that its bucket outlives
 * every reload. It says nothing of whether the key is still valid: ask `KeyRing.authenticate` for each request.
 */
export declare class Principal {
    #private;
    readonly organisation: string;
    readonly keyId: string;
    /** The profile that this key's events are checked against; undefined means the collector's own. */
    readonly profile: Profile | undefined;
    /** The name that the sender's certificate must have as well; undefined when the key is enough. */
    readonly clientCertificate: string | undefined;
    /** One token for each event; undefined when the key has no rate limit. */
    readonly bucket: TokenBucket | undefined;
    constructor(key: ApiKey);
    /** Whether the key may send events of this kind. */
    may(kind: EventKind): boolean;
}
/** Whether two rows grant the same, so that the principal of one serves for the other. */
export declare function sameGrants(a: ApiKey, b: ApiKey): boolean;
