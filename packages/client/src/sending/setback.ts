/**
 * Reasons why events could not be sent, as reported to the application. See docs/CLIENT_SPEC.md, "Sending".
 */
import type { EventKind } from '@clinical-events/protocol';
import type { Answer, Verdict } from './answer.js';
import { CannotSend } from './dial.js';

export interface Setback {
  /** Contains no event value, key or address. */
  readonly what: string;
  /** The error of the system or the client; undefined for an answer of the collector. */
  readonly error: unknown;
  /** Set if waiting does not fix it. It affects all events, or all events of a kind. */
  readonly lasting?: 'all' | 'kind';
}

/** Error codes of Node for an untrusted certificate, or one with another name. */
const CERTIFICATE =
  /^(?:CERT_\w+|CRL_\w+|UNABLE_TO_\w+|SELF_SIGNED_\w+|DEPTH_ZERO_\w+|ERROR_IN_C\w+|INVALID_(?:CA|PURPOSE)|PATH_LENGTH_EXCEEDED|HOSTNAME_MISMATCH|ERR_TLS_CERT_ALTNAME_INVALID)$/;
/** The server speaks another version of TLS, or requires a client certificate. */
const TLS = /^(?:EPROTO|ERR_SSL_\w+)$/;

/** For a request without an answer. */
export function setbackOf(error: unknown): Setback {
  if (error instanceof CannotSend) {
    return { what: 'nothing can be sent; events are kept', error, lasting: 'all' };
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (CERTIFICATE.test(code)) {
    return { what: "the collector's certificate is not trusted; events are kept", error, lasting: 'all' };
  }
  if (error instanceof Error && /wrong version number/.test(error.message)) {
    // The wording is OpenSSL's.
    return {
      what: 'the server at this address does not speak TLS; events are kept',
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

/** For an answer after which the event is kept. */
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
      return {
        what: `the key may not send ${kind} (${said}); these events are kept`,
        error,
        lasting: 'kind',
      };
    case 'unwelcome': {
      const what =
        answer.status === 401
          ? 'the collector rejected the API key'
          : 'the server at this address is not a collector';
      return { what: `${what} (${said}); events are kept`, error, lasting: 'all' };
    }
  }
}

/** Status and code, if the code looks like one of the protocol. */
export function wordsOf({ status, code }: Answer): string {
  return code !== undefined && /^[a-z_]{1,40}$/.test(code) ? `${status} ${code}` : String(status);
}
