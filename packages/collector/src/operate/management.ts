/**
 * The management listener: health, metrics, the console's state and the documentation of the interface, on
 * its own port and thread. It cannot read, change or delay events, and accepts GET and HEAD only.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createSecureContext, type TLSSocket } from 'node:tls';
import { ERRORS, type ErrorCode, errorBody } from '@clinical-events/protocol';
import type { Log } from '../ingest/refusal-log.js';
import { type CertificatePem, secureContextOf } from '../ingest/tls.js';
import { PAGE_HEADERS } from './page-headers.js';
import { apiDocs, type Page } from './api-docs.js';
import { consoleFiles, documentOf } from './console-page.js';
import { Gate } from './gate.js';
import { type HealthCheck, healthOf, healthText, isLive, isReady } from './health.js';
import { metricsText } from './metrics.js';
import type { ProcessMetrics } from './process-metrics.js';
import { OperatorAccess, type OperatorToken } from './operator-token.js';
import type { Facts } from './snapshot.js';
import { stateOf } from './state.js';
import type { Watch } from './watch.js';
import { messageOf } from '../system-code.js';

export interface ManagementOptions {
  /** Undefined on loopback only. */
  readonly token: OperatorToken | undefined;
  /** The certificate of the event listener; undefined for plain HTTP alone. */
  readonly pem: CertificatePem | undefined;
  readonly facts: (oldestMs?: number) => Promise<Facts>;
  readonly watch: Watch;
  readonly ofProcess: () => Promise<ProcessMetrics>;
  /** Replaces each `collector COMMAND` in a text by the command as it is typed on this host. */
  readonly typed: (text: string) => string;
  readonly log: Log;
}

interface Answer extends Page {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
}

/** The policy allows only the collector's own files, and no other page may frame them. */
const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  ...PAGE_HEADERS,
};
const TEXT = 'text/plain; charset=utf-8';
const JSON_TYPE = 'application/json; charset=utf-8';

export class Management {
  readonly #options: ManagementOptions;
  readonly #gate = new Gate((request, response) => {
    this.#answer(request)
      .then((answer) => send(response, answer))
      .catch(() => response.destroy());
  });
  readonly #access: OperatorAccess;
  readonly #files = new Map<string, Answer>([...apiDocs(), ...consoleFiles()]);
  readonly #state: () => Promise<Answer>;
  readonly #page: () => Promise<Answer>;
  readonly #metrics: () => Promise<Answer>;
  readonly #openMetrics: () => Promise<Answer>;

  constructor(options: ManagementOptions) {
    this.#options = options;
    const { token, pem, facts, watch, ofProcess, typed, log } = options;
    this.#access = new OperatorAccess(token, pem !== undefined, log);
    if (pem !== undefined) this.present(pem);
    const state = async () => stateOf(await facts(), watch, typed);
    const metrics = async (open: boolean) => {
      const { type, text } = await metricsText(await facts(), await ofProcess(), open);
      return { type, body: text };
    };
    this.#state = shared(async () => ({ type: JSON_TYPE, body: JSON.stringify(await state()) }));
    this.#page = shared(async () => ({ type: 'text/html; charset=utf-8', body: documentOf(await state()) }));
    this.#metrics = shared(() => metrics(false));
    this.#openMetrics = shared(() => metrics(true));
  }

  /** Resolves with the port once connections are accepted; rejects when the address cannot be bound. */
  listen(host: string, port: number): Promise<number> {
    return this.#gate.listen(host, port);
  }

  /** Uses another certificate for later connections. Clients need none: they have the token. */
  present(pem: CertificatePem): void {
    this.#gate.secureContext = createSecureContext(secureContextOf({ ...pem, clientCa: undefined }));
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    try {
      return await this.#answerTo(request);
    } catch (error) {
      this.#options.log.error({ reason: messageOf(error) }, 'the management listener has failed to answer');
      return refusal('internal');
    }
  }

  async #answerTo(request: IncomingMessage): Promise<Answer> {
    const { method, headers, url = '' } = request;
    if (method !== 'GET' && method !== 'HEAD') return refusal('method_not_allowed', { Allow: 'GET, HEAD' });
    if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0)
      return refusal('body_too_large');
    const [path = '', query = ''] = url.split('?', 2);
    // Probes may call this without a token: it reveals only the state and a short reason.
    if (path === '/livez' || path === '/readyz') {
      // During a flood, health is requested several hundred times a second.
      const checks = healthOf(await this.#options.facts(FRESH_MS));
      const isVerbose = new URLSearchParams(query).has('verbose');
      return path === '/livez' ? livez(checks, isVerbose) : readyz(checks, isVerbose);
    }
    const { remoteAddress: remote, encrypted = false } = request.socket as Partial<TLSSocket>;
    const { host, authorization } = headers;
    const refused = this.#access.refusal({ host, authorization, remote, encrypted });
    if (refused !== undefined) {
      const { code, message, challenges } = refused;
      return refusal(code, challenges && { 'WWW-Authenticate': challenges }, { message });
    }
    if (path === '/' || path === '/console') return this.#page();
    if (path === '/console/state.json') return this.#state();
    if (path === '/metrics')
      return headers.accept?.includes('application/openmetrics-text') ? this.#openMetrics() : this.#metrics();
    return this.#files.get(path) ?? refusal('not_found');
  }
}

function livez(checks: readonly HealthCheck[], isVerbose: boolean): Answer {
  const live = isLive(checks);
  return {
    status: live ? 200 : 503,
    type: TEXT,
    body: live && !isVerbose ? 'ok' : healthText('livez', checks),
  };
}

function readyz(checks: readonly HealthCheck[], isVerbose: boolean): Answer {
  const failures = checks.flatMap(({ name, failure }) => (failure ? [{ check: name, ...failure }] : []));
  const [first] = failures;
  if (isVerbose)
    return { status: isReady(checks) ? 200 : 503, type: TEXT, body: healthText('readyz', checks) };
  if (first === undefined) return { type: TEXT, body: 'ok' };
  const reasons = failures.map(({ check, cause, reason }) => ({ check, cause, reason }));
  return refusal(first.code, {}, { message: `Not ready: ${first.reason}.`, details: { reasons } });
}

function refusal(
  code: ErrorCode,
  headers: Answer['headers'] = {},
  { message, details }: { readonly message?: string; readonly details?: Record<string, unknown> } = {},
): Answer {
  const { status, retryAfter } = ERRORS[code];
  return {
    status,
    type: JSON_TYPE,
    headers: { ...headers, ...(retryAfter && { 'Retry-After': '1' }) },
    body: JSON.stringify(errorBody(code, details, message)),
  };
}

function send(response: ServerResponse, { status = 200, type, headers = {}, body }: Answer): void {
  response.writeHead(status, {
    ...HEADERS,
    ...(headers as Record<string, string | string[]>),
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
  });
  response.end(body);
}

const FRESH_MS = 250;

/**
 * An answer that all clients share for a quarter of a second, so that frequent requests cost no more than
 * four a second. A failure is given to those who waited for it and not kept.
 */
function shared(make: () => Promise<Answer>): () => Promise<Answer> {
  let made: Promise<Answer> | undefined;
  let until = 0;
  return () => {
    if (made === undefined || performance.now() >= until) {
      until = performance.now() + FRESH_MS;
      made = make();
      made.catch(() => (made = undefined));
    }
    return made;
  };
}
