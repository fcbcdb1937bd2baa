/**
 * The management listener: health, metrics, the console's state and the interface's documentation, on a port of their
 * own. Nothing here reads, changes or holds up events, and nothing here can be changed: GET and HEAD only.
 */
import type { Socket } from 'node:net';
import { createSecureContext } from 'node:tls';
import { ERRORS, type ErrorCode, errorBody } from '@clinical-events/protocol';
import Fastify, { type FastifyInstance, type FastifyReply } from 'fastify';
import type { Log } from '../ingest/refusal-log.js';
import { type CertificatePem, secureContextOf } from '../ingest/tls.js';
import { apiDocs } from './api-docs.js';
import { consoleFiles, documentOf } from './console-page.js';
import { Gate, OperatorAccess, type OperatorToken } from './gate.js';
import { healthOf, healthText, isLive, isReady } from './health.js';
import { metricsText, watchProcess } from './metrics.js';
import type { Facts, Snapshot } from './snapshot.js';
import { stateOf } from './state.js';
import { Watch } from './watch.js';

/* An answer that is made once for all who ask at about the same time: many who ask often cost what four a second do. */

const FRESH_MS = 250;

class Shared<T> {
  #made: Promise<T> | undefined;
  #until = 0;

  constructor(private readonly make: () => Promise<T>) {}

  /** Made a quarter of a second ago at most. A failure is given to those who waited for it, and not kept. */
  get(): Promise<T> {
    if (this.#made === undefined || performance.now() >= this.#until) {
      this.#until = performance.now() + FRESH_MS;
      this.#made = this.make();
      this.#made.catch(() => (this.#made = undefined));
    }
    return this.#made;
  }
}

export interface ManagementOptions {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** Undefined on loopback only. */
  readonly token: OperatorToken | undefined;
  /** The certificate of the listener for events; undefined when plain HTTP alone is spoken. */
  readonly pem: CertificatePem | undefined;
  readonly snapshot: () => Snapshot;
  readonly typed: (text: string) => string;
  readonly log: Log;
}

/** Nothing but our own files, and no page of anybody else around them. */
const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

/** What probes may ask without a token: it tells nothing but whether, and in a word why not. */
const OPEN: readonly string[] = ['/livez', '/readyz'];

const EVERY_MS = 1000;

export class Management {
  readonly #options: ManagementOptions;
  readonly #watch: Watch;
  /** Has the routes; the gate has the connections. */
  readonly #server: FastifyInstance;
  readonly #gate: Gate;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ManagementOptions) {
    this.#options = options;
    this.#watch = new Watch(options.snapshot());
    this.#server = Fastify({
      logger: false,
      // A path that cannot be decoded gets past the hooks.
      frameworkErrors(_error, _request, reply) {
        reply.headers(HEADERS);
        refuse(reply, 'malformed_request');
      },
    });
    this.#gate = new Gate((request, response) => this.#server.routing(request, response));
    if (options.pem !== undefined) this.present(options.pem);
    this.#guard();
    this.#route();
  }

  /** Resolves with the port once connections are accepted; rejects when the address cannot be had. */
  async listen(): Promise<number> {
    const { host, port } = this.#options;
    await this.#server.ready();
    const actual = await this.#gate.listen(host, port);
    this.#timer = setInterval(() => this.#watch.note(this.#options.snapshot()), EVERY_MS).unref();
    return actual;
  }

  /** Takes another certificate, for connections from now on. Of clients none is asked for: they have the token. */
  present(pem: CertificatePem): void {
    this.#gate.secureContext = createSecureContext(secureContextOf({ ...pem, clientCa: undefined }));
  }

  /** On return every connection is closed. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#gate.close();
    await this.#server.close();
  }

  #facts(): Facts {
    const snapshot = this.#options.snapshot();
    return { ...snapshot, daysUntilFull: this.#watch.daysUntilFull(snapshot), silentMs: 0 };
  }

  #guard(): void {
    const { token, pem, log } = this.#options;
    const access = new OperatorAccess(token, pem !== undefined, log);
    const server = this.#server;
    server.addHook('onRequest', async (request, reply) => {
      reply.headers(HEADERS);
      if (OPEN.includes(request.routeOptions.url ?? '')) return;
      const { host, authorization } = request.headers;
      const { remoteAddress: remote, encrypted } = request.socket as Socket & { encrypted: boolean };
      const refusal = access.refusal({ host, authorization, remote, encrypted });
      if (refusal === undefined) return;
      if (refusal.challenges) reply.header('WWW-Authenticate', refusal.challenges);
      await refuse(reply, refusal.code, undefined, refusal.message);
    });
    server.setNotFoundHandler((_request, reply) => refuse(reply, 'not_found'));
    server.setErrorHandler((error: { statusCode?: number; message?: string }, _request, reply) => {
      if ((error.statusCode ?? 500) < 500) return refuse(reply, 'malformed_request');
      log.error({ reason: error.message }, 'the management listener has failed to answer');
      return refuse(reply, 'internal');
    });
  }

  #route(): void {
    const { typed } = this.#options;
    const server = this.#server;
    const state = () => stateOf(this.#facts(), this.#watch, typed);
    const verbose = (query: unknown) => Object.hasOwn(query as object, 'verbose');
    server.get('/livez', (request, reply) => {
      const checks = healthOf(this.#facts());
      const live = isLive(checks);
      return reply
        .code(live ? 200 : 503)
        .type('text/plain; charset=utf-8')
        .send(live && !verbose(request.query) ? 'ok' : healthText('livez', checks));
    });
    server.get('/readyz', (request, reply) => {
      const checks = healthOf(this.#facts());
      const failures = checks.flatMap(({ name, failure }) => (failure ? [{ check: name, ...failure }] : []));
      const [first] = failures;
      if (verbose(request.query) || first === undefined) {
        return reply
          .code(isReady(checks) ? 200 : 503)
          .type('text/plain; charset=utf-8')
          .send(verbose(request.query) ? healthText('readyz', checks) : 'ok');
      }
      const reasons = failures.map(({ check, cause, reason }) => ({ check, cause, reason }));
      return refuse(reply, first.code, { reasons }, `Not ready: ${first.reason}.`);
    });
    const ofProcess = watchProcess();
    const metrics = async (open: boolean) => metricsText(this.#facts(), await ofProcess(), open);
    const texts = { prometheus: new Shared(() => metrics(false)), open: new Shared(() => metrics(true)) };
    server.get('/metrics', async (request, reply) => {
      const wantsOpen = /application\/openmetrics-text/.test(request.headers.accept ?? '');
      const { type, text } = await (wantsOpen ? texts.open : texts.prometheus).get();
      return reply.header('Content-Type', type).send(text);
    });
    const json = new Shared(() => Promise.resolve(JSON.stringify(state())));
    server.get('/console/state.json', async (_request, reply) =>
      reply.type('application/json; charset=utf-8').send(await json.get()),
    );
    const page = new Shared(() => Promise.resolve(documentOf(state())));
    for (const path of ['/', '/console'])
      server.get(path, async (_request, reply) =>
        reply.type('text/html; charset=utf-8').send(await page.get()),
      );
    for (const [path, { type, body }] of [...apiDocs(), ...consoleFiles()])
      server.get(path, (_request, reply) => reply.type(type).send(body));
  }
}

function refuse(
  reply: FastifyReply,
  code: ErrorCode,
  details?: Record<string, unknown>,
  message?: string,
): FastifyReply {
  const { status, retryAfter } = ERRORS[code];
  if (retryAfter) reply.header('Retry-After', '1');
  return reply
    .code(status)
    .type('application/json; charset=utf-8')
    .send(errorBody(code, details, message));
}
