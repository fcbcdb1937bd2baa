/** A server with the routes around a login, pages that are JSON, and a clock that tests set. */
import { EventEmitter } from 'node:events';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Fastify from 'fastify';
import { freePort } from '../../../../test/free-port.js';
import type { Acting, Role } from '../../src/contract.js';
import type { Page } from '../../src/people/guard.js';
import type { PeoplePages } from '../../src/people/page-types.js';
import { type People, type PeopleAuth, registerPeople } from '../../src/people/register.js';
import type { Got } from './browser.js';

export const ROLES_FILE = {
  roles: [
    { role: 'reviewer', groups: ['ai-safety'], organisations: ['st-mary'], applications: ['sepsis'] },
    { role: 'clinician', groups: ['doctors'], organisations: ['st-mary'] },
    { role: 'auditor', groups: ['audit'], organisations: '*' },
    { role: 'break-glass', groups: ['on-call'], organisations: '*' },
  ],
};

/** The words of a page of the tests. */
const shown = (page: string) => (of: unknown) => JSON.stringify({ page, ...(of as object) });

const PAGES: PeoplePages = {
  signIn: shown('signIn'),
  roles: shown('roles'),
  breakGlass: shown('breakGlass'),
  message: shown('message'),
  continueTo: shown('continueTo'),
};

export interface TestViewer {
  readonly url: URL;
  /** The name of the cookie of a session. */
  readonly cookie: string;
  readonly people: People;
  readonly rolesFile: string;
  /** Milliseconds since 1970; tests add to it. */
  now: number;
  /** Looks of break-glass; `recording` set to false makes them fail. */
  readonly looks: Acting[];
  recording: boolean;
  /** Lines of the log. */
  readonly lines: string[];
  /** The output of the terminal, and its input. */
  readonly printed: string[];
  readonly keyboard: EventEmitter;
  close(): Promise<void>;
}

export async function startViewer(
  auth: PeopleAuth | ((url: URL) => Promise<PeopleAuth>),
  settings: {
    readonly url?: URL;
    readonly host?: string;
    readonly https?: object;
    readonly roles?: object | false;
    /** In place of pages that are JSON. */
    readonly pages?: PeoplePages;
    readonly headers?: Readonly<Record<string, string>>;
  } = {},
): Promise<TestViewer> {
  const { host = '127.0.0.1', https, roles = ROLES_FILE } = settings;
  const port = await freePort();
  const own = new URL(`${https === undefined ? 'http' : 'https'}://${host}:${port}/`);
  const directory = fs.mkdtempSync(path.join(tmpdir(), 'people-'));
  const rolesFile = path.join(directory, 'roles.json');
  fs.writeFileSync(rolesFile, JSON.stringify(roles));
  const app = Fastify(https === undefined ? {} : ({ https } as object));
  app.addHook('onRequest', (_, reply, done) => {
    reply.headers(settings.headers ?? {});
    done();
  });
  const viewer = {
    url: own,
    cookie: `viewer-${port}`,
    rolesFile,
    now: Date.now(),
    looks: [] as Acting[],
    recording: true,
    lines: [] as string[],
    printed: [] as string[],
    keyboard: Object.assign(new EventEmitter(), { isTTY: true, unref: () => undefined }),
  };
  const line = (fields: object, message: string) =>
    void viewer.lines.push(`${message} ${JSON.stringify(fields)}`);
  const people = await registerPeople(app, {
    auth: typeof auth === 'function' ? await auth(own) : auth,
    url: () => settings.url ?? own,
    rolesFile: roles === false ? undefined : rolesFile,
    log: { info: line, warn: line },
    clock: () => viewer.now,
    async onBreakGlass(acting) {
      if (!viewer.recording) throw new Error('full disk');
      viewer.looks.push(acting);
      return Promise.resolve();
    },
    pages: settings.pages ?? PAGES,
    terminal: { input: viewer.keyboard as never, print: (text) => void viewer.printed.push(text) },
  });
  app.get<{ Params: { role: string; page: Page } }>('/:role/:page', (request) => ({
    acts: people.actingFor(request, request.params.role, request.params.page),
  }));
  app.get<{ Params: { role: Role; page: Page } }>('/:role/:page/admitted', async (request, reply) => {
    const admitted = people.admit(request, reply, request.params.role, request.params.page);
    return admitted === undefined ? reply : { admitted };
  });
  app.get('/viewer.css', (_, reply) => reply.type('text/css').send(''));
  app.post('/:role/runs', () => ({ posted: true }));
  await app.listen({ host, port });
  people.listening();
  return Object.assign(viewer, {
    people,
    close: async () => {
      await people.close();
      app.server.closeAllConnections();
      await app.close();
      fs.rmSync(directory, { recursive: true });
    },
  });
}

/** The content of a page of the tests. */
export function read(got: Got): Readonly<Record<string, unknown>> {
  return JSON.parse(got.text) as Readonly<Record<string, unknown>>;
}

/** The answer of `/ROLE/PAGE`. */
export function acts(got: Got): Partial<Acting> & { readonly status?: number; readonly why?: string } {
  return read(got)['acts'] as ReturnType<typeof acts>;
}
