/**
 * Who may see what the management listener shows, health aside.
 *
 * With a token: whoever presents it, as a bearer (RFC 6750) or, for browsers, as the password of HTTP Basic with any
 * user name (RFC 7617). Without one the listener is on loopback, and everybody on the host may. Then the Host header
 * has to name the host itself: a page from elsewhere, whose name was pointed at 127.0.0.1 (DNS rebinding), cannot
 * make a browser send that.
 */
import type { ErrorCode } from '@clinical-events/protocol';
import { TokenBucket } from '../access/token-bucket.js';
import type { Log } from '../ingest/refusal-log.js';
import type { OperatorToken } from './operator-token.js';

/** What is compared of the request. */
export interface Presented {
  readonly host: string | undefined;
  readonly authorization: string | undefined;
  readonly remote: string | undefined;
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
const OTHER_HOST: AccessRefusal = {
  code: 'permission_denied',
  message: 'The Host header names another host. Without an operator token, ask for localhost or 127.0.0.1.',
};

/** A wrong token is told so, and logged, so often; beyond that it is only told to wait. The right one always passes. */
const FAILURES = { perSecond: 1, burst: 10 };
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;

export class OperatorAccess {
  readonly #failures = new TokenBucket(FAILURES);

  /** @param token undefined on loopback only. */
  constructor(
    private readonly token: OperatorToken | undefined,
    private readonly log: Log,
  ) {}

  /** @returns why not, or undefined when it may. */
  refusal({ host, authorization, remote }: Presented): AccessRefusal | undefined {
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
