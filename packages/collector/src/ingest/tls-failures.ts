/** Connections whose handshake failed, or whose encryption broke later: counted, and logged with measure. */
import type { TLSSocket } from 'node:tls';
import { systemCode } from '../system-code.js';
import { LineLimit } from './line-limit.js';
import type { Log } from './refusal-log.js';

/**
 * - `timeout`: not done in time.
 * - `closed`: the client went away, or others wanted its place; load balancers that look whether the port is open do so all day.
 * - `plain_http`: the client does not know that it has to speak TLS.
 * - `client_certificate`: it has none, or one that no given authority vouches for.
 * - `refused_by_client`: it gave up with an alert, mostly because it does not know the authority of this collector's certificate.
 * - `protocol`: no version, cipher suite or application protocol in common, or bytes that are no TLS.
 */
export type TlsFault =
  'timeout' | 'closed' | 'plain_http' | 'client_certificate' | 'refused_by_client' | 'protocol';

export class TlsFailures {
  /** How many there were since the start. */
  readonly counts: Record<TlsFault, number> = {
    timeout: 0,
    closed: 0,
    plain_http: 0,
    client_certificate: 0,
    refused_by_client: 0,
    protocol: 0,
  };
  readonly #limit: LineLimit<TlsFault>;

  constructor(private readonly log: Log) {
    this.#limit = new LineLimit((reason, failures) =>
      log[levelOf(reason)]({ reason, failures }, 'more TLS connections failed, not listed'),
    );
  }

  /** @param error as Node reports it; of its text only the code is logged, which OpenSSL takes from a fixed list. */
  note(error: Error, socket: TLSSocket): void {
    const code = systemCode(error);
    const reason = faultOf(code, socket);
    this.counts[reason]++;
    if (!this.#limit.admits(reason, performance.now())) return;
    // Of a client that said nothing the address is no longer known once its time is up.
    this.log[levelOf(reason)]({ reason, code, remote: socket.remoteAddress }, 'TLS connection failed');
  }

  /** Says how many were not listed. */
  flush(): void {
    this.#limit.flush();
  }
}

function levelOf(fault: TlsFault): 'debug' | 'info' {
  return fault === 'closed' ? 'debug' : 'info';
}

/** @param socket the typings do not know that it has no `authorizationError` unless a certificate was looked at. */
function faultOf(
  code: string | undefined,
  { authorizationError }: { readonly authorizationError: unknown },
): TlsFault {
  if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT') return 'timeout';
  if (code === 'ERR_SSL_HTTP_REQUEST') return 'plain_http';
  // Node ends a connection whose certificate was not verified as if the client had.
  if (authorizationError || code === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE') return 'client_certificate';
  if (code?.includes('_ALERT_')) return 'refused_by_client';
  return code?.startsWith('ERR_SSL_') ? 'protocol' : 'closed';
}
