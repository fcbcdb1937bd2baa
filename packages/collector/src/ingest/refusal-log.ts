/** Logs what is refused, without letting those who are refused fill the log. */
import type { TLSSocket } from 'node:tls';
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';
import { systemCode } from '../system-code.js';
import type { LostPlace } from './connections.js';

/* Lets N lines of each sort into the log in a period, and counts what it keeps out. */

export class LineLimit<Sort extends string> {
  readonly #sorts = new Map<Sort, { lines: number; unsaid: number }>();
  #period = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param tell reports how many of a sort were kept out, at the end of the period at the latest. */
  constructor(
    private readonly tell: (sort: Sort, unsaid: number) => void,
    private readonly lines = 10,
    private readonly periodMs = 1000,
  ) {}

  /**
   * @param nowMs a monotonic clock.
   * @returns whether the line may be written.
   */
  admits(sort: Sort, nowMs: number): boolean {
    const period = Math.floor(nowMs / this.periodMs);
    if (period !== this.#period) {
      this.flush();
      this.#period = period;
    }
    let count = this.#sorts.get(sort);
    if (count === undefined) this.#sorts.set(sort, (count = { lines: 0, unsaid: 0 }));
    if (count.lines >= this.lines) {
      count.unsaid++;
      this.#timer ??= setTimeout(() => this.flush(), this.periodMs - (nowMs % this.periodMs)).unref();
      return false;
    }
    count.lines++;
    return true;
  }

  /** Reports what was kept out, and begins again. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const [sort, { unsaid }] of this.#sorts) if (unsaid > 0) this.tell(sort, unsaid);
    this.#sorts.clear();
  }
}

type Level = 'debug' | 'info' | 'warn' | 'error';

/** What of a logger is used here and in the rest of ingest: pino's is one. */
export type Log = Record<Level, (fields: object, message: string) => void>;

/** Never a body, a key or a value: these fields and no others, and where it came from. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly requestId: string;
  readonly kind?: string | undefined;
  readonly organisation?: string | undefined;
  /** Of a key that was proven. */
  readonly keyId?: string | undefined;
}

/** Where no key was proven: one example of each sort and the number of the others, each such period in milliseconds. */
const [EXAMPLES, PERIOD_MS] = [1, 10_000];

export class RefusalLog {
  readonly #proven: LineLimit<ErrorCode>;
  readonly #unproven: LineLimit<ErrorCode>;
  readonly #places: LineLimit<LostPlace>;

  constructor(private readonly log: Log) {
    const tell = (code: ErrorCode, refusals: number): void =>
      log[ERRORS[code].logLevel]({ code, refusals }, 'more refused, not listed');
    this.#proven = new LineLimit(tell);
    this.#unproven = new LineLimit(tell, EXAMPLES, PERIOD_MS);
    this.#places = new LineLimit(
      (reason, connections) => log.warn({ reason, connections }, 'more connections closed, not listed'),
      EXAMPLES,
      PERIOD_MS,
    );
  }

  /**
   * @param remoteOf asked only when a line is written.
   * @param nowMs a monotonic clock.
   */
  note(refusal: Refusal, remoteOf: () => string | undefined, nowMs: number): void {
    const limit = refusal.keyId === undefined ? this.#unproven : this.#proven;
    if (!limit.admits(refusal.code, nowMs)) return;
    const { logLevel, status } = ERRORS[refusal.code];
    this.log[logLevel]({ ...refusal, remote: remoteOf(), status }, 'refused');
  }

  noteLostPlace(reason: LostPlace, remote: string | undefined, nowMs: number): void {
    if (this.#places.admits(reason, nowMs))
      this.log.warn({ reason, remote }, 'connection closed: all were taken');
  }

  /** Reports how many were not listed, and begins to list again. */
  flush(): void {
    for (const limit of [this.#proven, this.#unproven, this.#places]) limit.flush();
  }
}

/* Connections whose handshake failed, or whose encryption broke later: counted, and logged with measure. */

/**
 * - `timeout`: not done in time.
 * - `closed`: the client went away, or others wanted its place; load balancers that look whether the port is open do
 *   so all day.
 * - `plain_http`: the client does not know that it has to speak TLS.
 * - `client_certificate`: it has none, or one that no given authority vouches for.
 * - `refused_by_client`: it gave up with an alert, mostly because it does not know the authority of this collector's
 *   certificate.
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
