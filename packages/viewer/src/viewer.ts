/** A viewer from start to end: its parts, the address, and the order of closing. */
import type { AddressInfo } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify';
import pino, { type Logger, type LoggerOptions } from 'pino';
import { CommandFailure, EXIT, type ExitCode, onStop } from '@clinical-events/collector/commands/exit-codes';
import {
  CertificateUnusable,
  secureContextOf,
  ServerCertificate,
} from '@clinical-events/collector/ingest/tls';
import { commit, version } from '@clinical-events/collector/commands/typed';
import { messageOf } from '@clinical-events/collector/system-code';
import type { Looks, Reading } from './contract.js';
import { openLooks } from './looks.js';
import { ownUrl, type ViewerOptions } from './options.js';
import { SECURITY_HEADERS } from './pages/headers.js';
import { logPages } from './pages/pages.js';
import { peoplePages } from './pages/people-pages.js';
import { type People, registerPeople } from './people/register.js';
import { openReading } from './reading/open-reading.js';
import { registerPages } from './server.js';

const HTML = 'text/html; charset=utf-8';
/** A form has a reason of a thousand characters, or the id of a person. */
const BODY_BYTES = 64 << 10;
const REQUEST_MS = 30_000;
const STATE_EVERY_MS = 500;

/** Lines of the log have the form of the collector's. */
const LINES: LoggerOptions = {
  base: { name: 'collector-viewer' },
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: { level: (label) => ({ level: label }) },
};

/** Runs until a signal. @returns the exit code. */
export async function runViewer(options: ViewerOptions): Promise<ExitCode> {
  const log = pino(LINES, pino.destination({ dest: 2, sync: true }));
  log.info({ version: version(), commit: commit() }, 'starting');
  const stopped = new Promise<string>((resolve) => onStop(resolve));
  const certificate = await certificateOf(options);
  const { reading, looks } = await openLog(options, log);
  const { app, people } = await serverOf({ options, reading, looks, log, certificate });
  await listen(app, options);
  certificate?.follow(log, (pem) => {
    (app.server as unknown as TlsServer).setSecureContext(secureContextOf(pem));
  });
  log.info({ host: options.host, port: portOf(app), auth: options.auth.kind }, 'listening');
  people.listening();
  const watching = watchCatalogue(reading, log);
  log.info({ reason: await stopped }, 'stopping');
  clearInterval(watching);
  certificate?.stop();
  await app.close();
  await people.close();
  await reading.close();
  await looks.close();
  return EXIT.ok;
}

/** The server with all pages; it does not listen yet. @throws CommandFailure for a faulty roles file. */
export async function serverOf({ certificate, reading, ...parts }: ServerOfViewer): Promise<{
  readonly app: FastifyInstance;
  readonly people: People;
}> {
  const { looks, log } = parts;
  const app = appOf(certificate, log);
  const people = await peopleOf(app, { ...parts, isTls: certificate !== undefined });
  registerPages(app, {
    ...{ reading, looks, pages: logPages, admit: (...asked) => people.admit(...asked) },
    onFailure: (error) => log.error({ reason: messageOf(error) }, 'a page could not be shown'),
  });
  return { app, people };
}

async function certificateOf({ tls }: ViewerOptions): Promise<ServerCertificate | undefined> {
  try {
    return tls && (await ServerCertificate.read(tls));
  } catch (error) {
    if (!(error instanceof CertificateUnusable)) throw error;
    throw new CommandFailure(error.message, EXIT.usage, { cause: error });
  }
}

/** Opens the log and the way to its access log. */
async function openLog(
  { dataDir, stateDir, kek }: ViewerOptions,
  log: Logger,
): Promise<{ readonly reading: Reading; readonly looks: Looks }> {
  const opened = Promise.withResolvers<Looks>();
  const reading = await openReading({
    ...{ dataDir, stateDir, kek },
    onFollowed: async (action) => (await opened.promise).followed(action),
    onTrouble: (reason) => log.warn({ reason }, 'the log cannot be followed now'),
  });
  const looks = openLooks({ dataDir, viewerId: reading.viewerId });
  opened.resolve(looks);
  return { reading, looks };
}

function appOf(certificate: ServerCertificate | undefined, log: Logger): FastifyInstance {
  const common = {
    ...{ bodyLimit: BODY_BYTES, requestTimeout: REQUEST_MS, forceCloseConnections: true },
    // The answer to HEAD would be made and recorded, and not seen.
    exposeHeadRoutes: false,
    // For an address that cannot be parsed: no hook is called, and the answer would repeat the address.
    frameworkErrors: ({ statusCode = 400 }: FastifyError, _: unknown, reply: FastifyReply) =>
      void notUnderstood(reply.headers(SECURITY_HEADERS), statusCode),
  };
  const app =
    certificate === undefined
      ? Fastify(common)
      : (Fastify({ ...common, https: httpsOf(certificate) }) as unknown as FastifyInstance);
  // Only forms are read.
  app.removeAllContentTypeParsers();
  app.setNotFoundHandler((_, reply) =>
    message(reply, 404, 'No such page', 'There is no page at this address.'),
  );
  // Messages of errors may repeat what was sent.
  app.setErrorHandler(({ statusCode = 500, code }: FastifyError, _, reply) => {
    if (statusCode >= 500) log.error({ code }, 'a request failed');
    return notUnderstood(reply, statusCode);
  });
  return app;
}

function notUnderstood(reply: FastifyReply, status: number): FastifyReply {
  return message(reply, status, 'Not understood', 'The viewer cannot answer this request.');
}

function message(reply: FastifyReply, status: number, title: string, sentence: string): FastifyReply {
  return reply
    .code(status)
    .type(HTML)
    .send(peoplePages.message({ title, sentences: [sentence], link: 'roles' }));
}

/** A client certificate is asked for where authorities are named; people/proxy.ts refuses unverified ones. */
function httpsOf(certificate: ServerCertificate): object {
  const { pem } = certificate;
  return {
    ...secureContextOf(pem),
    ...(pem.clientCa !== undefined && { requestCert: true, rejectUnauthorized: false }),
  };
}

interface PeopleParts {
  readonly options: Pick<ViewerOptions, 'auth' | 'rolesFile' | 'url' | 'host'>;
  readonly looks: Looks;
  readonly log: Logger;
  readonly isTls: boolean;
}

interface ServerOfViewer extends Omit<PeopleParts, 'isTls'> {
  readonly reading: Reading;
  readonly certificate: ServerCertificate | undefined;
}

/** @throws ConfigError with the faults of the roles file. */
function peopleOf(app: FastifyInstance, { options, looks, log, isTls }: PeopleParts): Promise<People> {
  const { auth, rolesFile, url, host } = options;
  app.addHook('onRequest', (_, reply, done) => {
    reply.headers(SECURITY_HEADERS);
    done();
  });
  return registerPeople(app, {
    ...{ auth, rolesFile, pages: peoplePages, log },
    url: () => url ?? ownUrl(host, portOf(app), isTls),
    async onBreakGlass(acting) {
      const end = await looks.begin({ acting, what: 'break-glass', filter: {} });
      await end({ events: 0, complete: true });
    },
  });
}

/** @throws CommandFailure if the address is in use or not permitted. */
async function listen(app: FastifyInstance, { host, port }: ViewerOptions): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    const message = `cannot listen on ${host}:${port}: ${messageOf(error)}; --port chooses another port`;
    throw new CommandFailure(message, EXIT.failure, { cause: error });
  }
}

function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** Logs each change of the state of the catalogue. */
function watchCatalogue(reading: Reading, log: Logger): NodeJS.Timeout {
  let known = '';
  const look = async () => {
    const { catalogue, reason, keys } = await reading.state();
    const state = `${catalogue} ${keys} ${reason}`;
    if (state === known) return;
    known = state;
    if (catalogue === 'ready') log.info({ keys }, 'the catalogue is ready');
    else
      log.info({ keys, reason }, catalogue === 'building' ? 'the catalogue is being made' : 'no catalogue');
  };
  return setInterval(() => void look().catch(() => undefined), STATE_EVERY_MS).unref();
}
