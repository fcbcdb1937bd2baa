/** A viewer from start to end: its parts, the address, and the order of closing. */
import fs from 'node:fs';
import os from 'node:os';
import { createSecureContext, type Server as TlsServer } from 'node:tls';
import Fastify, { type FastifyInstance } from 'fastify';
import formbody from '@fastify/formbody';
import pino, { type Logger } from 'pino';
import { CommandFailure, EXIT, type ExitCode, onStop } from '@clinical-events/collector/commands/exit-codes';
import { secureContextOf, ServerCertificate } from '@clinical-events/collector/ingest/tls';
import { DirectoryInUse, lockDirectory } from '@clinical-events/collector/store/directory-lock';
import { messageOf } from '@clinical-events/collector/system-code';
import { openLooks } from './looks.js';
import { ownUrl, type ViewerOptions } from './options.js';
import { SECURITY_HEADERS } from './pages/layout.js';
import { logPages, peoplePages } from './pages/pages.js';
import { registerPeople } from './people/register.js';
import { openReading, viewerIdOf } from './reading/reading.js';
import { registerPages, styleSheet } from './server.js';

const BODY_BYTES = 64 << 10;
const HEADERS_MS = 30_000;
const STATE_EVERY_MS = 500;

/** Runs until a signal. @returns the exit code. */
export async function runViewer(options: ViewerOptions): Promise<ExitCode> {
  const log = pino({ base: { name: 'collector-viewer' } }, pino.destination({ dest: 2, sync: true }));
  const stopped = new Promise<string>((resolve) => onStop(resolve));
  const lock = lockState(options.stateDir);
  const certificate = options.tls && (await ServerCertificate.read({ ...options.tls }));
  const looks = openLooks({ dataDir: options.dataDir, viewerId: viewerIdOf(options.stateDir) });
  const reading = await openReading({
    ...{ dataDir: options.dataDir, stateDir: options.stateDir, kek: options.kek },
    onFollowed: (action) => looks.followed(action),
    onTrouble: (message) => log.warn({ reason: message }, 'the log cannot be read in full'),
  });
  const app = await appOf(certificate);
  const people = await registerPeople(app, {
    ...{ auth: options.auth, rolesFile: options.rolesFile, isTls: certificate !== undefined, log },
    pages: peoplePages,
    url: () => options.url ?? ownUrl(options.host, portOf(app), certificate !== undefined),
    onBreakGlass: async (acting) => {
      const end = await looks.begin({ acting, what: 'break-glass', filter: {} });
      await end({ events: 0, complete: true });
    },
  });
  registerPages(app, {
    ...{ reading, looks, pages: logPages, headers: SECURITY_HEADERS, style: styleSheet() },
    admit: (request, reply, role, page) => people.admit(request, reply, role, page),
    onFailure: (error) => log.error({ reason: messageOf(error) }, 'a page could not be shown'),
  });
  await listen(app, options);
  certificate?.follow(log, (pem) => {
    (app.server as unknown as TlsServer).setSecureContext(secureContextOf(pem));
  });
  log.info({ host: options.host, port: portOf(app), auth: options.auth.kind }, 'listening');
  people.listening();
  const watching = watchCatalogue(reading, log);
  const signal = await stopped;
  log.info({ reason: signal }, 'stopping');
  clearInterval(watching);
  certificate?.stop();
  await app.close();
  await people.close();
  await reading.close();
  await looks.close();
  lock.release();
  return EXIT.ok;
}
