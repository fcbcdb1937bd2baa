/**
 * The contract of a key store: what every driver promises of API keys, and all that `access/` knows of one.
 *
 * A key row is never deleted, and of its fields only `expiresAt`, `revokedAt` and `replacedBy` ever change: what
 * a key was allowed to do stays on record for as long as there are events that it sent.
 */
import type { AccessLogStore } from './access-log.js';
import { EVENT_KINDS, type EventKind, type Profile } from '@clinical-events/protocol';
import type { CheckpointSigner } from '../../tree/note-signing.js';

/** How fast a key may send: a token bucket that fills at `perSecond` and holds `burst`. */
export interface RateLimit {
  /** Events per second; above 0, fractions allowed. */
  readonly perSecond: number;
  /** Whole events, at least 1. */
  readonly burst: number;
}

/** To send events of a kind, or of all kinds by the OTLP listener. */
export type Permission = EventKind | 'otlp';
export const PERMISSIONS: readonly Permission[] = [...EVENT_KINDS, 'otlp'];

/** What a key may do. `all` includes what a later protocol may add. */
export type Permissions = 'all' | readonly Permission[];

/** An API key as it is stored: everything but the key itself. Instants are milliseconds since 1970 UTC. */
export interface ApiKey {
  /** The public part of the key; unique in the store. */
  readonly keyId: string;
  /** SHA-256 of the whole key text, 32 bytes. */
  readonly hash: Uint8Array;
  readonly organisation: string;
  readonly permissions: Permissions;
  /** The profile that the key's events are checked against; undefined means the collector's own. */
  readonly profile: Profile | undefined;
  readonly rateLimit: RateLimit | undefined;
  /** The name in the client certificate without which the key is refused: `dns:` or `uri:` and the name. */
  readonly clientCertificate: string | undefined;
  readonly note: string;
  readonly createdAt: number;
  /** The first instant at which the key is no longer accepted. */
  readonly expiresAt: number | undefined;
  /** When the key was revoked. It is refused from then on, whatever the clock says later. */
  readonly revokedAt: number | undefined;
  /** The id of the key that this one took over from. */
  readonly rotatedFrom: string | undefined;
  /** The id of the key that took over from this one. */
  readonly replacedBy: string | undefined;
}

/** Why a key could not be rotated; nothing was changed then. */
export type RotationRefusal = 'unknown' | 'revoked' | 'expired' | 'replaced';

/**
 * Where API keys are kept. Any number of processes may have one store open together; each call is one transaction.
 * Every promise is rejected with {@link KeyStoreError} when the store cannot be read or written. After a write was
 * rejected the change may or may not have happened: `list` shows it.
 */
export interface KeyStore {
  /** Every key, in the order of creation. */
  list(): Promise<ApiKey[]>;
  /**
   * A token that differs from the last one whenever the keys may have changed since, anyone who changed them. Cheap
   * enough to ask several times a second. Ask before `list`, not after: a change between the two is then seen as
   * a change next time instead of never.
   */
  version(): Promise<string>;
  /** On return the key is durable. */
  insert(key: ApiKey): Promise<void>;
  /** Like `insert`, but only into a store without any key. @returns whether it was stored. */
  insertFirst(key: ApiKey): Promise<boolean>;
  /**
   * Stores `successor`, notes it in the key that `successor.rotatedFrom` names, and lets that key expire at
   * `oldExpiresAt`, or at its own expiry when that is sooner: durably, and all of it or nothing.
   * @param now decides whether the old key has expired already.
   * @returns undefined when done.
   */
  rotate(successor: ApiKey, oldExpiresAt: number, now: number): Promise<RotationRefusal | undefined>;
  /** On return the key is durably revoked. Revoking it again keeps the first instant. @returns false: no such key. */
  revoke(keyId: string, now: number): Promise<boolean>;
  /** The store must not be used afterwards. Closing twice does nothing. */
  close(): Promise<void>;
}

/** The keys of a log in a database. */
export interface SharedKeyStore extends KeyStore {
  /** Of the log that they are for. */
  readonly accessLog: AccessLogStore;
}

/** The key store cannot be read or written. The message says what and where; `cause` says why. */
export class KeyStoreError extends Error {
  override name: string = 'KeyStoreError';
}

/** The key store does not hold what was written to it. */
export class KeyStoreDamaged extends KeyStoreError {
  override name = 'KeyStoreDamaged';
}

/** The public keys of a log that several collectors sign: its first key, and each note that hands on to the next. */
export interface SharedPublicKeys {
  /** Whether this process may add one. */
  mayAdd(): Promise<boolean>;
  /** On return the directory has all that the store has. @throws SigningKeyFault `broken` when it has something else. */
  pull(dataDir: string): Promise<void>;
  /** On return the store has all that the directory has. @throws SigningKeyFault `overtaken` when another was first. */
  push(dataDir: string): Promise<void>;
  /** Signs by `own` as long as that has the newest key, whoever rotates it. */
  signer(own: CheckpointSigner, dataDir: string): CheckpointSigner;
}
