/** The sender that a key proves, and what that key lets it do. */
import type { Profile } from '@clinical-events/protocol';
import {
  type ApiKey,
  PERMISSIONS,
  type Permission,
  type Permissions,
  type RateLimit,
} from '../store/contract/keys.js';

/* Rate limits as an operator writes them: `100/s`, or `100/s:500` with a burst of 500 events. */

const RATE_LIMIT = /^(\d{1,7}(?:\.\d{1,3})?)\/s(?::(\d{1,7}))?$/;

/**
 * @returns the limit, or undefined for any other text. Without a burst, the bucket holds one second's events.
 */
export function parseRateLimit(text: string): RateLimit | undefined {
  const [, rate, burst] = RATE_LIMIT.exec(text) ?? [];
  if (rate === undefined) return undefined;
  const perSecond = Number(rate);
  const limit = { perSecond, burst: burst === undefined ? Math.max(1, Math.ceil(perSecond)) : Number(burst) };
  return limit.perSecond > 0 && limit.burst >= 1 ? limit : undefined;
}

/** The text that {@link parseRateLimit} reads back as the same limit. */
export function formatRateLimit({ perSecond, burst }: RateLimit): string {
  return `${perSecond}/s:${burst}`;
}

/*
 * The name in a client certificate that a key may be bound to, as an operator writes it: `dns:app.ward-7.example` or
 * `uri:spiffe://hospital.example/triage`.
 *
 * A subject alternative name and not a fingerprint, because a renewed certificate has another fingerprint and the same
 * names; and not the subject, which can be spelt in several ways.
 */

/** A host name of letters, digits, hyphens and underscores (RFC 952 and what is in use); no wildcards. */
const DNS = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
/** A scheme and visible ASCII characters after it (RFC 3986); compared as it stands. */
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$/;
const MAX_URI_LENGTH = 2048;

/** @returns the one spelling in which such a name is stored and compared, or undefined for any other text. */
export function certificateName(text: string): string | undefined {
  const colon = text.indexOf(':');
  const [type, value] = [text.slice(0, colon), text.slice(colon + 1)];
  if (type === 'dns') return DNS.test(value.toLowerCase()) ? `dns:${value.toLowerCase()}` : undefined;
  return type === 'uri' && value.length <= MAX_URI_LENGTH && URI.test(value) ? text : undefined;
}

/* How many events a key may send: a bucket of tokens that fills at a steady rate, one token an event. */

/** A clock is back by so much only when it was set: requests are not always counted in the order of their times. */
const BACK_MS = 1000;

/**
 * The bucket of one key. N collectors let through N times the rate: an exact common limit would cost a round trip between
 * them for each event, and its purpose is to contain a sender that has run wild, not to bill one.
 */
export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #countedAt = -Infinity;
  /** How often there was none to take. */
  refused = 0;

  /** A full bucket. */
  constructor(limit: RateLimit) {
    this.#perMs = limit.perSecond / 1000;
    this.#burst = limit.burst;
    this.#tokens = limit.burst;
  }

  /**
   * Takes a token if there is one.
   * @param nowMs a monotonic clock such as `performance.now()`. Should it go back all the same, nothing is
   *   refilled for it, and refilling goes on from the new time instead of waiting for the old one to come again.
   * @returns 0 when a token was taken, else in how many whole seconds (at least 1) one will be there.
   */
  take(nowMs: number): number {
    const passed = nowMs - this.#countedAt;
    if (passed > 0) this.#tokens = Math.min(this.#burst, this.#tokens + passed * this.#perMs);
    if (passed > 0 || passed < -BACK_MS) this.#countedAt = nowMs;
    if (this.#tokens >= 1) {
      this.#tokens--;
      return 0;
    }
    this.refused++;
    return Math.max(1, Math.ceil((1 - this.#tokens) / this.#perMs / 1000));
  }

  /** Counts more events of a request that took one token: later requests wait until their tokens are there. */
  charge(events: number): void {
    this.#tokens -= events;
  }
}

const BITS = Object.fromEntries(PERMISSIONS.map((permission, place) => [permission, 1 << place])) as Record<
  Permission,
  number
>;
const ALL = (1 << PERMISSIONS.length) - 1;

function mask(permissions: Permissions): number {
  return permissions === 'all' ? ALL : permissions.reduce((bits, each) => bits | BITS[each], 0);
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

  /** Whether the key may send events of this kind, or requests of OTLP. */
  may(permission: Permission): boolean {
    return (this.#mask & BITS[permission]) !== 0;
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
