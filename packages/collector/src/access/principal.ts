/** The sender that a key proves, and the rights of that key. */
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
 * @returns the limit; undefined for any other text. Without a burst, the bucket holds one second's events.
 */
export function parseRateLimit(text: string): RateLimit | undefined {
  const [, rate, burst] = RATE_LIMIT.exec(text) ?? [];
  if (rate === undefined) return undefined;
  const perSecond = Number(rate);
  const limit = { perSecond, burst: burst === undefined ? Math.max(1, Math.ceil(perSecond)) : Number(burst) };
  return limit.perSecond > 0 && limit.burst >= 1 ? limit : undefined;
}

/** The text that {@link parseRateLimit} reads as the same limit. */
export function formatRateLimit({ perSecond, burst }: RateLimit): string {
  return `${perSecond}/s:${burst}`;
}

/*
 * The name in a client certificate to which a key may be bound: `dns:app.ward-7.example` or
 * `uri:spiffe://hospital.example/triage`. A subject alternative name and not a fingerprint, because a renewed
 * certificate keeps its names only; and not the subject, which has several spellings.
 */

/** A host name of letters, digits, hyphens and underscores (RFC 952 and common use); no wildcards. */
const DNS = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
/** A scheme, then visible ASCII characters (RFC 3986); compared byte by byte. */
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$/;
const MAX_URI_LENGTH = 2048;

/** @returns the one spelling in which such a name is stored and compared; undefined for any other text. */
export function certificateName(text: string): string | undefined {
  const colon = text.indexOf(':');
  const [type, value] = [text.slice(0, colon), text.slice(colon + 1)];
  if (type === 'dns') return DNS.test(value.toLowerCase()) ? `dns:${value.toLowerCase()}` : undefined;
  return type === 'uri' && value.length <= MAX_URI_LENGTH && URI.test(value) ? text : undefined;
}

/* The rate of a key: a bucket of tokens that fills at a steady rate, one token per event. */

/** A larger step back means that the clock was set: requests are not always counted in time order. */
const BACK_MS = 1000;

/**
 * The bucket of one key. N collectors allow N times the rate: an exact common limit would cost a round trip
 * between them per event, and the purpose is to contain a runaway sender, not to bill it.
 */
export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #countedAt = -Infinity;
  /** The number of refused requests. */
  refused = 0;

  /** Starts with a full bucket. */
  constructor(limit: RateLimit) {
    this.#perMs = limit.perSecond / 1000;
    this.#burst = limit.burst;
    this.#tokens = limit.burst;
  }

  /**
   * Takes a token if there is one.
   * @param nowMs a monotonic clock such as `performance.now()`. If it steps back, nothing is refilled for the
   *   step, and refilling continues from the new time.
   * @returns 0 when a token was taken; otherwise the whole seconds (at least 1) until there is one.
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

  /**
   * Charges further events of a request that took one token: later requests wait until the debt is refilled.
   */
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
 * The grants of a key. A key keeps one object while its grants are unchanged, so that its bucket survives
 * reloads. It does not state whether the key is still valid: call `KeyRing.authenticate` for each request.
 */
export class Principal {
  readonly organisation: string;
  readonly keyId: string;
  /** The profile against which this key's events are checked; undefined for the collector's own. */
  readonly profile: Profile | undefined;
  /** The name that the sender's certificate must also have; undefined when the key suffices. */
  readonly clientCertificate: string | undefined;
  /** The bucket, with one token per event; undefined without a rate limit. */
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

  /** Whether the key may send events of this kind, or OTLP requests. */
  may(permission: Permission): boolean {
    return (this.#mask & BITS[permission]) !== 0;
  }
}

/** Whether two rows have the same grants, so that one principal can serve both. */
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
