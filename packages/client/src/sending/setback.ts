/** Why events that wait are not sent just now, as it is told to the host. docs/CLIENT_SPEC.md, "Sending". */
import type { EventKind } from '@clinical-events/protocol';
import type { Answer, Verdict } from './answer.js';
import { CannotSend } from './dial.js';

export interface Setback {
  /** A sentence without a value of an event, a key or an address. */
  readonly what: string;
  /** What the system or the client itself says of it; undefined for an answer. */
  readonly error: unknown;
  /** Waiting does not fix it, only someone can: for all events, or for those of a kind. */
  readonly lasting?: 'all' | 'kind';
}

/** What Node calls a certificate that it does not trust: those of X.509, and that of a name that does not fit. */
const CERTIFICATE =
  /^(?:CERT_\w+|CRL_\w+|UNABLE_TO_\w+|SELF_SIGNED_\w+|DEPTH_ZERO_\w+|ERROR_IN_C\w+|INVALID_(?:CA|PURPOSE)|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|ERR_TLS_CERT_ALTNAME_INVALID)$/;
/** No TLS on the other side, another version of it, or one that asks for a certificate. */
const TLS = /^(?:EPROTO|ERR_SSL_\w+)$/;

/** There was no answer, for this reason. */
export function setbackOf(error: unknown): Setback {
  if (error instanceof CannotSend) {
    return { what: 'nothing can be sent; events are kept', error, lasting: 'all' };
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (CERTIFICATE.test(code)) {
    return { what: "the collector's certificate is not trusted; events are kept", error, lasting: 'all' };
  }
  if (error instanceof Error && /wrong version number/.test(error.message)) {
    // How OpenSSL says it.
    return {
      what: 'what answers at this address speaks no TLS; events are kept',
      error: undefined,
      lasting: 'all',
    };
  }
  if (TLS.test(code)) {
    return {
      what: `TLS with the collector fails (${code}); events are kept`,
      error: undefined,
      lasting: 'all',
    };
  }
  return { what: 'the collector did not answer', error };
}

/** There was an answer, and the event is kept. */
export function setbackBy(
  verdict: Extract<Verdict, 'later' | 'unwelcome' | 'not permitted'>,
  answer: Answer,
  kind: EventKind,
): Setback {
  const said = wordsOf(answer);
  const error = undefined;
  switch (verdict) {
    case 'later':
      return { what: `the collector answered ${answer.status}`, error };
    case 'not permitted':
      return { what: `the key may not send ${kind} (${said}); such events are kept`, error, lasting: 'kind' };
    case 'unwelcome': {
      const what =
        answer.status === 401
          ? 'the collector does not take the API key'
          : 'what answers at this address is no collector';
      return { what: `${what} (${said}); events are kept`, error, lasting: 'all' };
    }
  }
}

/** For a log: nothing but a word like those of the protocol's table. */
export function wordsOf({ status, code }: Answer): string {
  return code !== undefined && /^[a-z_]{1,40}$/.test(code) ? `${status} ${code}` : String(status);
}
