/**
 * The contract of a store of API keys, for every driver and for `access/`.
 *
 * A key is never deleted, and only `expiresAt`, `revokedAt` and `replacedBy` ever change, so that the
 * permissions of a key stay on record with the events that it sent.
 */
import type { AccessLogStore } from './access-log.js';
import { EVENT_KINDS, type EventKind, type Profile } from '@clinical-events/protocol';
import type { CheckpointSigner } from '../../tree/note-signing.js';

/** The rate limit of a key: a token bucket that fills at `perSecond` and holds `burst`. */
export interface RateLimit {
  /** Events per second; above 0, fractions allowed. */
  readonly perSecond: number;
  /** A whole number of events, at least 1. */
  readonly burst: number;
}

/** The permission to send events of a kind, or of all kinds by the OTLP listener. */
export type Permission = EventKind | 'otlp';
export const PERMISSIONS: readonly Permission[] = [...EVENT_KINDS, 'otlp'];

/** The permissions of a key. `all` includes kinds that a later protocol adds. */
export type Permissions = 'all' | readonly Permission[];

/** A stored API key, without the key text. Times are in milliseconds since 1970 UTC. */
export interface ApiKey {
  /** The public part of the key; unique in the store. */
  readonly keyId: string;
  /** SHA-256 of the key text, 32 bytes. */
  readonly hash: Uint8Array;
  readonly organisation: string;
  readonly permissions: Permissions;
  /** The profile that its events must meet; undefined means the collector's profile. */
  readonly profile: Profile | undefined;
  readonly rateLimit: RateLimit | undefined;
  /** The required name in the client certificate: `dns:` or `uri:` and the name. */
  readonly clientCertificate: string | undefined;
  readonly note: string;
  readonly createdAt: number;
  /** Time from which the key is no longer accepted. */
  readonly expiresAt: number | undefined;
  /** Time of the revocation. A revoked key is always refused, regardless of the clock. */
  readonly revokedAt: number | undefined;
  /** The id of the predecessor of the key. */
  readonly rotatedFrom: string | undefined;
  /** The id of the successor of the key. */
  readonly replacedBy: string | undefined;
}

/** Why a key was not rotated; nothing was changed. */
export type RotationRefusal = 'unknown' | 'revoked' | 'expired' | 'replaced';

/**
 * A store of API keys. Several processes may open one store; each call is one transaction. A promise is
 * rejected with {@link KeyStoreError} if the store cannot be read or written. After a rejected write the
 * change may or may not have happened: `list` shows it.
 */
export interface KeyStore {
  /** All keys in the order of creation. */
  list(): Promise<ApiKey[]>;
  /**
   * A token that changes whenever the keys may have changed. Cheap enough to be called several times a
   * second. Call it before `list`, so that a change between the two calls is seen next time.
   */
  version(): Promise<string>;
  /** Stores a key durably. */
  insert(key: ApiKey): Promise<void>;
  /** Like `insert`, but only into an empty store. @returns whether it was stored. */
  insertFirst(key: ApiKey): Promise<boolean>;
  /**
   * Stores `successor`, links it from the key that `successor.rotatedFrom` names, and lets that key expire at
   * `oldExpiresAt` unless it expires sooner; durably and atomically.
   * @param now time at which the old key must not have expired.
   * @returns undefined on success.
   */
  rotate(successor: ApiKey, oldExpiresAt: number, now: number): Promise<RotationRefusal | undefined>;
  /** Revokes a key durably. A second call keeps the first time. @returns false if there is no such key. */
  revoke(keyId: string, now: number): Promise<boolean>;
  /** Closes the store, which must not be used afterwards. May be called twice. */
  close(): Promise<void>;
}

/** The API keys of a log in a database. */
export interface SharedKeyStore extends KeyStore {
  /** The access log of this log. */
  readonly accessLog: AccessLogStore;
}

/** Thrown if the key store cannot be read or written. The message names it; `cause` is the reason. */
export class KeyStoreError extends Error {
  override name: string = 'KeyStoreError';
}

/** Thrown if the key store is damaged. */
export class KeyStoreDamaged extends KeyStoreError {
  override name = 'KeyStoreDamaged';
}

/** The public keys of a log that several collectors sign: its first key, and each rotation note. */
export interface SharedPublicKeys {
  /** Whether this process may add one. */
  mayAdd(): Promise<boolean>;
  /** Copies the keys to a directory. @throws SigningKeyFault `broken` if the directory has different ones. */
  pull(dataDir: string): Promise<void>;
  /** Copies the keys from a directory. @throws SigningKeyFault `overtaken` if another process was first. */
  push(dataDir: string): Promise<void>;
  /** A signer that uses `own` while it has the newest key. */
  signer(own: CheckpointSigner, dataDir: string): CheckpointSigner;
}
