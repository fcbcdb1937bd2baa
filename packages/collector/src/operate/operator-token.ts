/**
 * Access to the management listener, except health.
 *
 * If there is a token, clients must present it, as a bearer token (RFC 6750) or, in browsers, as the password
 * of HTTP Basic with any user name (RFC 7617). Without a token the listener is on loopback, and every user of
 * the host has access. Then the Host header must name the host itself: a foreign page whose name resolves to
 * 127.0.0.1 (DNS rebinding) cannot make a browser send that.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import fs from 'node:fs';
import type { ErrorCode } from '@clinical-events/protocol';
import { TokenBucket } from '../access/principal.js';
import type { Log } from '../ingest/refusal-log.js';
import { systemCode } from '../system-code.js';
import { Unusable } from '../unusable.js';

/** The parts of a request that are checked. */
export interface Presented {
  readonly host: string | undefined;
  readonly authorization: string | undefined;
  readonly remote: string | undefined;
  /** Whether it came over TLS. */
  readonly encrypted: boolean;
}

/** The refusal, in the terms of an Error body. */
export interface AccessRefusal {
  readonly code: ErrorCode;
  readonly message: string;
  /** The values of WWW-Authenticate, one header each. */
  readonly challenges?: readonly string[];
}

const CHALLENGES = ['Basic realm="collector", charset="UTF-8"', 'Bearer realm="collector"'];
const MISSING: AccessRefusal = {
  code: 'key_missing',
  message: 'The operator token is required, as a bearer or as the password of HTTP Basic.',
  challenges: CHALLENGES,
};
const WRONG: AccessRefusal = {
  code: 'key_invalid',
  message: 'The operator token is not valid.',
  challenges: CHALLENGES,
};
const TOO_MANY: AccessRefusal = { code: 'rate_limited', message: 'Too many wrong operator tokens.' };
const NOT_ENCRYPTED: AccessRefusal = {
  code: 'permission_denied',
  message: 'Use HTTPS. Remote hosts may call only /livez and /readyz over plain HTTP.',
};
const OTHER_HOST: AccessRefusal = {
  code: 'permission_denied',
  message: 'The Host header names another host. Without an operator token, use localhost or 127.0.0.1.',
};

/** Beyond this rate a wrong token is answered with 429 and not logged. The right token always passes. */
const FAILURES = { perSecond: 1, burst: 10 };
const THIS_HOST = /^(?:::ffff:)?127\.|^::1$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

export class OperatorAccess {
  readonly #failures = new TokenBucket(FAILURES);

  /**
   * @param token undefined on loopback only.
   * @param speaksTls whether remote hosts must use TLS: a token that was sent unencrypted is refused, so that
   *   clients do not rely on sending it.
   */
  constructor(
    private readonly token: OperatorToken | undefined,
    private readonly speaksTls: boolean,
    private readonly log: Log,
  ) {}

  /** @returns the refusal; undefined when access is granted. */
  refusal({ host, authorization, remote, encrypted }: Presented): AccessRefusal | undefined {
    if (this.speaksTls && !encrypted && !THIS_HOST.test(remote ?? '')) return NOT_ENCRYPTED;
    if (this.token === undefined) return LOOPBACK.test(host ?? '') ? undefined : OTHER_HOST;
    if (authorization === undefined || authorization === '') return MISSING;
    if (this.token.matches(tokenIn(authorization))) return undefined;
    if (this.#failures.take(performance.now()) > 0) return TOO_MANY;
    this.log.warn({ remote }, 'a wrong operator token was presented to the management listener');
    return WRONG;
  }
}

/** The presented token, or an empty text, which is never a token. */
function tokenIn(authorization: string): string {
  const [scheme = '', value = ''] = authorization.trim().split(/ +/, 2);
  if (scheme.toLowerCase() === 'bearer') return value;
  if (scheme.toLowerCase() !== 'basic') return '';
  const pair = Buffer.from(value, 'base64').toString('utf8');
  return pair.slice(pair.indexOf(':') + 1);
}

/* The operator token, which opens the management listener to other hosts. Only its SHA-256 is kept. */

const LEAST_CHARACTERS = 32;
/** A longer text is not a token, and no header could carry it. */
const MOST_BYTES = 1024;

export class OperatorToken {
  readonly #hash: Uint8Array;

  /** @param hash of the token, from {@link OperatorToken.hash}, for another thread. */
  constructor(hash: Uint8Array) {
    this.#hash = hash;
  }

  get hash(): Uint8Array {
    return this.#hash;
  }

  /**
   * Reads the token: the file's one line.
   * @throws {@link Unusable} when it cannot be read, is open to other users, or is too short.
   */
  static read(file: string): OperatorToken {
    let text: string;
    let mode: number;
    try {
      const stat = fs.statSync(file);
      mode = stat.mode;
      if (!stat.isFile()) throw new Unusable(`${file} is not a regular file`);
      if (stat.size > MOST_BYTES) throw new Unusable(`${file} is too long to hold a token`);
      text = fs.readFileSync(file, 'utf8');
    } catch (error) {
      if (error instanceof Unusable) throw error;
      throw new Unusable(`${file} cannot be read (${systemCode(error) ?? 'unknown'})`, {
        cause: error,
      });
    }
    // On Windows, Node invents the modes. A group may read: Kubernetes mounts secrets that way.
    if (process.platform !== 'win32' && (mode & 0o007) !== 0)
      throw new Unusable(`${file} can be read by every user of the host: chmod 600`);
    const token = text.replace(/\r?\n$/, '');
    if (!/^[\x21-\x7e]*$/.test(token) || token.length < LEAST_CHARACTERS) {
      throw new Unusable(
        `${file} does not hold a token: one line of at least ${LEAST_CHARACTERS} visible ASCII ` +
          'characters, for example from openssl rand -hex 32',
      );
    }
    return new OperatorToken(hashOf(token));
  }

  /** Takes a time that does not depend on the number of matching bytes. */
  matches(presented: string): boolean {
    return timingSafeEqual(hashOf(presented), this.#hash);
  }
}

function hashOf(text: string): Uint8Array {
  return createHash('sha256').update(text).digest();
}
