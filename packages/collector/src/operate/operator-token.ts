/**
 * Who may see what the management listener shows, health aside.
 *
 * With a token: anyone who presents it, as a bearer (RFC 6750) or, for browsers, as the password of HTTP Basic with any
 * user name (RFC 7617). Without one the listener is on loopback, and everybody on the host may. Then the Host header
 * has to name the host itself: a page from elsewhere, whose name was pointed at 127.0.0.1 (DNS rebinding), cannot
 * make a browser send that.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import fs from 'node:fs';
import type { ErrorCode } from '@clinical-events/protocol';
import { TokenBucket } from '../access/principal.js';
import type { Log } from '../ingest/refusal-log.js';
import { systemCode } from '../system-code.js';
import { Unusable } from '../unusable.js';

/** What is compared of the request. */
export interface Presented {
  readonly host: string | undefined;
  readonly authorization: string | undefined;
  readonly remote: string | undefined;
  /** Whether it came by TLS. */
  readonly encrypted: boolean;
}

/** Why it is refused, as an Error body says it. */
export interface AccessRefusal {
  readonly code: ErrorCode;
  readonly message: string;
  /** For WWW-Authenticate, a header each. */
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
  message: 'The Host header names another host. Without an operator token, ask for localhost or 127.0.0.1.',
};

/** Beyond this rate a wrong token is answered with 429 and not logged. The right one always passes. */
const FAILURES = { perSecond: 1, burst: 10 };
const THIS_HOST = /^(?:::ffff:)?127\.|^::1$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

export class OperatorAccess {
  readonly #failures = new TokenBucket(FAILURES);

  /**
   * @param token undefined on loopback only.
   * @param speaksTls whether other hosts have to speak it too: a token that was sent in the clear is refused, so that it
   *   does not become the custom.
   */
  constructor(
    private readonly token: OperatorToken | undefined,
    private readonly speaksTls: boolean,
    private readonly log: Log,
  ) {}

  /** @returns why not, or undefined when it may. */
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

/** What is presented, or an empty text, which no token is. */
function tokenIn(authorization: string): string {
  const [scheme = '', value = ''] = authorization.trim().split(/ +/, 2);
  if (scheme.toLowerCase() === 'bearer') return value;
  if (scheme.toLowerCase() !== 'basic') return '';
  const pair = Buffer.from(value, 'base64').toString('utf8');
  return pair.slice(pair.indexOf(':') + 1);
}

/* The operator's token: what opens the management listener to other hosts. Kept as its SHA-256 alone. */

const LEAST_CHARACTERS = 32;
/** Anything longer was not meant to be a token, and no header that holds it would be taken. */
const MOST_BYTES = 1024;

export class OperatorToken {
  readonly #hash: Uint8Array;

  /** @param hash of the token, as {@link OperatorToken.hash} gives it to another thread. */
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
    // The modes that Node tells on Windows are made up. A group may read: that is how Kubernetes mounts a secret.
    if (process.platform !== 'win32' && (mode & 0o007) !== 0)
      throw new Unusable(`${file} can be read by every user of the host: chmod 600`);
    const token = text.replace(/\r?\n$/, '');
    if (!/^[\x21-\x7e]*$/.test(token) || token.length < LEAST_CHARACTERS) {
      throw new Unusable(
        `${file} does not hold a token: one line of at least ${LEAST_CHARACTERS} visible ASCII characters, such as openssl rand -hex 32 makes`,
      );
    }
    return new OperatorToken(hashOf(token));
  }

  /** In a time that does not depend on how much of it is right. */
  matches(presented: string): boolean {
    return timingSafeEqual(hashOf(presented), this.#hash);
  }
}

function hashOf(text: string): Uint8Array {
  return createHash('sha256').update(text).digest();
}
