/** Issues, rotates and revokes API keys. The text of a key exists only in the results of these functions. */
import { isOrganisation, type Profile } from '@clinical-events/protocol';
import type { ApiKey, KeyStore, Permissions, RateLimit, RotationRefusal } from '../store/contract/keys.js';
import { certificateName } from './principal.js';
import { hashKeyText, newKeyId, newKeyText } from './key-ring.js';
import { Unusable } from '../unusable.js';

/** The organisation of the first key. */
export const DEFAULT_ORGANISATION = 'default';
const NOTE_LENGTH = 200;

/** The requested properties of a new key. Instants are milliseconds since 1970 UTC. */
export interface Grants {
  /** 1 to 64 characters of A-Z a-z 0-9 . _ - */
  readonly organisation: string;
  readonly permissions: Permissions;
  readonly profile?: Profile | undefined;
  readonly rateLimit?: RateLimit | undefined;
  readonly expiresAt?: number | undefined;
  /** The name as {@link certificateName} spells it. */
  readonly clientCertificate?: string | undefined;
  /** A note of at most 200 characters, without control characters. */
  readonly note?: string | undefined;
}

/** A new key. `text` is the key itself and cannot be shown again. */
export interface IssuedKey {
  readonly text: string;
  readonly key: ApiKey;
}

/** `replaced`: rotated, and accepted until it expires. */
export type KeyState = 'active' | 'replaced' | 'expired' | 'revoked';

/** The state of a key at an instant. `active` and `replaced` keys are accepted, the others are not. */
export function keyState(key: ApiKey, nowMs: number): KeyState {
  if (key.revokedAt !== undefined) return 'revoked';
  if (key.expiresAt !== undefined && nowMs >= key.expiresAt) return 'expired';
  return key.replacedBy === undefined ? 'active' : 'replaced';
}

function issue(grants: Grants, nowMs: number, rotatedFrom?: string): IssuedKey {
  if (!isOrganisation(grants.organisation)) {
    throw new Unusable('an organisation is 1 to 64 characters of A-Z a-z 0-9 . _ -');
  }
  if (grants.permissions.length === 0) throw new Unusable('a key needs at least one permission');
  if (grants.expiresAt !== undefined && grants.expiresAt <= nowMs) {
    throw new Unusable('the key would already have expired');
  }
  const name = grants.clientCertificate;
  if (name !== undefined && certificateName(name) !== name) {
    throw new Unusable('a client certificate is named by dns: or uri: and a name in it');
  }
  const note = grants.note ?? '';
  // A note is printed on terminals, where control characters can hide or forge lines.
  if (note.length > NOTE_LENGTH || /\p{C}/u.test(note)) {
    throw new Unusable(`a note is at most ${NOTE_LENGTH} characters, without control characters`);
  }
  const keyId = newKeyId();
  const text = newKeyText(keyId);
  const key: ApiKey = {
    keyId,
    hash: hashKeyText(text),
    organisation: grants.organisation,
    permissions: grants.permissions,
    profile: grants.profile,
    rateLimit: grants.rateLimit,
    clientCertificate: grants.clientCertificate,
    note,
    createdAt: nowMs,
    expiresAt: grants.expiresAt,
    revokedAt: undefined,
    rotatedFrom,
    replacedBy: undefined,
  };
  return { text, key };
}

/**
 * Makes a key and stores its row, durably on return.
 * @throws {@link Unusable} when no key can have these grants; nothing is stored.
 * @throws KeyStoreError when it cannot be stored. A row of a key that was never shown may remain.
 */
export async function createKey(
  store: Pick<KeyStore, 'insert'>,
  grants: Grants,
  nowMs: number,
): Promise<IssuedKey> {
  const issued = issue(grants, nowMs);
  await store.insert(issued.key);
  return issued;
}

/**
 * Makes a key with the grants of an old one, which is accepted for another `overlapMs` or until its own
 * expiry, whichever is sooner. Durable on return.
 * @param expiresAt of the new key; by default, the expiry of the old one.
 * @returns the new key, or the reason why the old one cannot be rotated.
 * @throws {@link Unusable} and KeyStoreError as {@link createKey} does.
 */
export async function rotateKey(
  store: Pick<KeyStore, 'list' | 'rotate'>,
  keyId: string,
  overlapMs: number,
  nowMs: number,
  expiresAt?: number,
): Promise<IssuedKey | RotationRefusal> {
  const old = (await store.list()).find((key) => key.keyId === keyId);
  if (old === undefined) return 'unknown';
  const state = keyState(old, nowMs);
  if (state !== 'active') return state;
  const issued = issue({ ...old, expiresAt: expiresAt ?? old.expiresAt }, nowMs, keyId);
  return (await store.rotate(issued.key, nowMs + overlapMs, nowMs)) ?? issued;
}

/**
 * The result of {@link ensureFirstKey}. `overtaken`: another process made a key just after this one was
 * shown.
 */
export type FirstKey = 'made' | 'present' | 'unseen' | 'overtaken';

/**
 * Gives an empty key store its first key: organisation `default`, all permissions, no expiry. The key is
 * stored, durably on return, once `show` has resolved with true: a key that was not shown is never accepted,
 * even after a crash.
 * @throws KeyStoreError as {@link createKey} does; the key that was shown is then not valid.
 */
export async function ensureFirstKey(
  store: KeyStore,
  show: (text: string) => Promise<boolean>,
  nowMs = Date.now(),
): Promise<FirstKey> {
  if ((await store.list()).length > 0) return 'present';
  const grants: Grants = {
    organisation: DEFAULT_ORGANISATION,
    permissions: 'all',
    note: 'made at the first start',
  };
  const { text, key } = issue(grants, nowMs);
  if (!(await show(text))) return 'unseen';
  return (await store.insertFirst(key)) ? 'made' : 'overtaken';
}
