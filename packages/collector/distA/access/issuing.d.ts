/** Issuing, rotating and revoking API keys. The text of a key exists only in what these functions return. */
import { type Profile } from '@clinical-events/protocol';
import type { ApiKey, KeyStore, Permissions, RateLimit, RotationRefusal } from '../store/contract/keys.js';
/** The organisation that a first key belongs to. */
export declare const DEFAULT_ORGANISATION = "default";
/** What is asked for a new key. Instants are milliseconds since 1970 UTC. */
export interface Grants {
    /** 1 to 64 characters of A-Z a-z 0-9 . _ - */
    readonly organisation: string;
    readonly permissions: Permissions;
    readonly profile?: Profile | undefined;
    readonly rateLimit?: RateLimit | undefined;
    readonly expiresAt?: number | undefined;
    /** As {@link certificateName} spells it. */
    readonly clientCertificate?: string | undefined;
    /** At most 200 characters, none of them a control character. */
    readonly note?: string | undefined;
}
/** A key just made. `text` is the key itself; it can never be shown again. */
export interface IssuedKey {
    readonly text: string;
    readonly key: ApiKey;
}
/** Why a key was not issued, in words for anyone who asked for it. */
export declare class GrantRefused extends Error {
    name: string;
}
/** `replaced`: rotated, and accepted until it expires. */
export type KeyState = 'active' | 'replaced' | 'expired' | 'revoked';
/** What a key is at an instant. `active` and `replaced` keys are accepted, the others are not. */
export declare function keyState(key: ApiKey, nowMs: number): KeyState;
/**
 * Makes a key and stores its row, durably on return.
 * @throws {@link GrantRefused} when the grants are not ones that a key can have; nothing is stored.
 * @throws KeyStoreError when it may not be stored. A row may then be left whose key no one has ever seen.
 */
export declare function createKey(store: Pick<KeyStore, 'insert'>, grants: Grants, nowMs: number): Promise<IssuedKey>;
/**
 * Makes a key with the grants of an old one, which is accepted for `overlapMs` more, or until its own expiry when
 * that is sooner. Durable on return.
 * @param expiresAt of the new key; when not given, that of the old one.
 * @returns the new key, or why the old one cannot be rotated.
 * @throws {@link GrantRefused} and KeyStoreError as {@link createKey} does.
 */
export declare function rotateKey(store: Pick<KeyStore, 'list' | 'rotate'>, keyId: string, overlapMs: number, nowMs: number, expiresAt?: number): Promise<IssuedKey | RotationRefusal>;
/** What came of {@link ensureFirstKey}. `overtaken`: another process made one in the moment after it was shown. */
export type FirstKey = 'made' | 'present' | 'unseen' | 'overtaken';
/**
 * Gives an empty key store its first key: organisation `default`, all permissions, no expiry. It is stored, durably on
 * return, once `show` has resolved with true: no key is accepted that no one has seen, wherever the process ends.
 * @throws KeyStoreError as {@link createKey} does; the key that was shown may then be none.
 */
export declare function ensureFirstKey(store: KeyStore, show: (text: string) => Promise<boolean>, nowMs?: number): Promise<FirstKey>;
