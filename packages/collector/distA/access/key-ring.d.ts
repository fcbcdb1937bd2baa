import type { ErrorCode } from '@clinical-events/protocol';
import type { ApiKey, KeyStore } from '../store/contract/keys.js';
import { Principal } from './principal.js';
/** Every key text has this many characters. */
export declare const KEY_TEXT_LENGTH = 60;
/** A new key id: 60 random bits. */
export declare function newKeyId(): string;
/** @returns the text of a new key with this id and a fresh 256-bit secret. */
export declare function newKeyText(keyId: string): string;
/** Whether this could be a key id. */
export declare function isKeyId(text: string): boolean;
/**
 * @returns the key id when the text has the form of a key, else undefined. Says nothing of whether there is such
 *   a key. The cost does not grow with the length of the text.
 */
export declare function keyIdOf(text: string): string | undefined;
/**
 * What is stored instead of the key: SHA-256 of its whole text, 32 bytes. A slow password hash would protect
 * nothing more: a secret of 256 random bits cannot be guessed at any speed.
 */
export declare function hashKeyText(text: string): Uint8Array;
/** Why a key was refused: names of the protocol's error table. */
export type KeyRefusal = Extract<ErrorCode, 'key_missing' | 'key_invalid' | 'key_expired' | 'key_revoked'>;
/** How a {@link KeyRing} keeps itself current. */
export interface KeyRingOptions {
    /** Between two looks at the store, in milliseconds; 250 when not given. */
    readonly pollMs?: number;
    /** How many proven keys are found without hashing; 4096 when not given. */
    readonly cacheSize?: number;
    /** Called when a look at the store fails, once until one succeeds again. */
    readonly onFailure?: (error: unknown) => void;
    /** Called when a look succeeds after one that failed. */
    readonly onRecovery?: () => void;
}
/** A key and what this ring has seen of it since it was opened. */
export interface KeyUse {
    readonly key: ApiKey;
    /** When it was last accepted, in milliseconds since 1970 UTC. */
    readonly lastUsedAt: number | undefined;
    /** How often it was accepted. */
    readonly uses: number;
    /** How many requests of it were over its rate, since its grants last changed. */
    readonly overRate: number;
}
/** All API keys of a collector. */
export declare class KeyRing {
    #private;
    private constructor();
    /**
     * Reads all keys once. Call {@link start} to follow later changes. The store stays the caller's to close, after
     * {@link stop}.
     * @throws KeyStoreError when the keys cannot be read.
     */
    static open(store: KeyStore, options?: KeyRingOptions): Promise<KeyRing>;
    /**
     * @param presented the value of the X-API-Key header, or undefined when there is none.
     * @param nowMs the wall clock, in milliseconds since 1970 UTC.
     * @param counts whether it is a use: a request whose key is looked at twice is one.
     * @returns the principal of a valid key, else why it is refused. Never throws, whatever is presented.
     */
    authenticate(presented: string | undefined, nowMs: number, counts?: boolean): Principal | KeyRefusal;
    /**
     * Looks at the store, and reads the keys again when they may have changed. Calls during a look share its result.
     * @returns whether the ring is current; when it is not, `onFailure` was called with the reason. Never rejects.
     */
    refresh(): Promise<boolean>;
    /**
     * Looks at the store for a key that was refused as `key_invalid`: it may have been made since the last look. All
     * calls share the next look, which is at most {@link LOOK_AGAIN_MS} away, so that no one can use looks up.
     * @returns once a look that began after this call has ended. Never rejects.
     */
    lookAgain(): Promise<void>;
    /** Looks at the store from now on every `pollMs`, without keeping the process alive for it. */
    start(): void;
    /** Ends all looking. On return no look at the store is under way, so that it can be closed. */
    stop(): Promise<void>;
    /** Whether the keys could be read the last time that someone looked. */
    get current(): boolean;
    /** Every key, the revoked and expired among them, in the order of creation. */
    uses(): Generator<KeyUse>;
}
