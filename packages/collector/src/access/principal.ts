/** Who sends a request, as far as the key proves it, and what that key lets it do. */
import { EVENT_KINDS, type EventKind, type Profile } from '@clinical-events/protocol';
import type { ApiKey, Permissions } from '../store/key-store.js';
import { TokenBucket } from './token-bucket.js';

const BITS = Object.fromEntries(EVENT_KINDS.map((kind, place) => [kind, 1 << place])) as Record<
  EventKind,
  number
>;
const ALL = (1 << EVENT_KINDS.length) - 1;

function mask(permissions: Permissions): number {
  return permissions === 'all' ? ALL : permissions.reduce((bits, kind) => bits | BITS[kind], 0);
}

/**
 * What a key grants. There is one for a key for as long as its grants stay the same, so that its bucket outlives
 * every reload. It says nothing of whether the key is still valid: ask `KeyRing.authenticate` for each request.
 */
export class Principal {
  readonly organisation: string;
  readonly keyId: string;
  /** The profile that this key's events are checked against; undefined means the collector's own. */
  readonly profile: Profile | undefined;
  /** The name that the sender's certificate must have as well; undefined when the key is enough. */
  readonly clientCertificate: string | undefined;
  /** One token for each event; undefined when the key has no rate limit. */
  readonly bucket: TokenBucket | undefined;
  readonly #mask: number;

  constructor(key: ApiKey) {
    this.organisation = key.organisation;
    this.keyId = key.keyId;
    this.profile = key.profile;
    this.clientCertificate = key.clientCertificate;
    this.bucket = key.rateLimit && new TokenBucket(key.rateLimit);
    this.#mask = mask(key.permissions);
  }

  /** Whether the key may send events of this kind. */
  may(kind: EventKind): boolean {
    return (this.#mask & BITS[kind]) !== 0;
  }
}

/** Whether two rows grant the same, so that the principal of one serves for the other. */
export function sameGrants(a: ApiKey, b: ApiKey): boolean {
  return (
    a.organisation === b.organisation &&
    a.profile === b.profile &&
    a.clientCertificate === b.clientCertificate &&
    mask(a.permissions) === mask(b.permissions) &&
    a.rateLimit?.perSecond === b.rateLimit?.perSecond &&
    a.rateLimit?.burst === b.rateLimit?.burst
  );
}
