/** The routes around a login, and for every request: its host, its session, and the token of its form. */
import fastifyCookie from '@fastify/cookie';
import fastifyFormbody from '@fastify/formbody';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Acting, Role } from '../contract.js';
import { Attempts } from './attempts.js';
import { type ActingFor, type Page, type Refused, guardOf, isRefused } from './guard.js';
import { LocalLinks, type Terminal, localPerson, offerLinks } from './local.js';
import { LoginRefused, Provider, type ProviderLogin } from './oidc.js';
import { isOwnHost, isSameOrigin } from './origins.js';
import { FORM_TOKEN, type MessageShown, type PeoplePages, type RoleShown } from './page-types.js';
import { type ProxyHeaders, isLoopbackAddress, personOf } from './proxy.js';
import { EVERY_ROLE, type PeopleLog, type PersonRoles, type Roles, openRoles } from './roles.js';
import {
  BREAK_GLASS_MINUTES,
  LEAST_REASON,
  MOST_REASON,
  type Session,
  Sessions,
  reasonFrom,
} from './sessions.js';
import { isToken, newToken } from './tokens.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The session of the request; its person was checked. */
    viewerSession: Session | undefined;
    /** Why there is no session, as a sentence; undefined if the person did not sign in yet. */
    viewerProblem: string | undefined;
  }
}

export type PeopleAuth =
  | { readonly kind: 'local' }
  | ({ readonly kind: 'proxy' } & ProxyHeaders)
  | {
      readonly kind: 'oidc';
      readonly issuer: URL;
      readonly clientId: string;
      readonly clientSecret: string;
      readonly groupsClaim: string;
    };

export interface PeopleOptions {
  readonly auth: PeopleAuth;
  /** The address in a browser; called once the viewer listens. */
  readonly url: () => URL;
  readonly rolesFile: string | undefined;
  readonly log: PeopleLog;
  /** Milliseconds since 1970 UTC. */
  readonly clock?: () => number;
  /** Records the look; if it rejects, break-glass is not granted. */
  readonly onBreakGlass: (acting: Acting) => Promise<void>;
  readonly pages: PeoplePages;
  /** Where the one-time links of `--auth local` appear. */
  readonly terminal?: Terminal;
}

/** A person who may see a page, and what the frame of the page shows about the login. */
export interface Admitted {
  readonly acting: Acting;
  readonly otherRoles: readonly Pick<RoleShown, 'role' | 'path'>[];
  /** The end of break-glass (RFC 3339); undefined in other roles. */
  readonly grantedUntil: string | undefined;
  readonly signOutToken: string;
  /** For the form that posts to `/ROLE/runs`. */
  readonly formToken: string;
}

export interface People {
  readonly actingFor: ActingFor;
  /** @returns undefined after it has answered the request with a refusal, or the way to sign in. */
  admit(request: FastifyRequest, reply: FastifyReply, role: Role, page: Page): Admitted | undefined;
  /** Once the address is known: prints the one-time link of `--auth local`. */
  listening(): void;
  close(): Promise<void>;
}

const FORM = 'application/x-www-form-urlencoded';
const FORM_BYTES = 64 << 10;
const TERMINAL: Terminal = { input: process.stdin, print: (text) => void process.stdout.write(text) };
/** Routes that show nothing and need no session. */
const OPEN = ['/livez', '/viewer.css'];
const CALLBACK = '/sign-in/callback';
const LINK = '/sign-in/link';

/**
 * Adds routes and hooks to a server. Every POST of the server needs the token of its path in a field.
 * @throws ConfigError if the roles file has faults
 */
export async function registerPeople(app: FastifyInstance, options: PeopleOptions): Promise<People> {
  await app.register(fastifyCookie);
  if (!app.hasContentTypeParser(FORM)) await app.register(fastifyFormbody, { bodyLimit: FORM_BYTES });
  const door = new Door(options);
  app.decorateRequest('viewerSession', undefined);
  app.decorateRequest('viewerProblem', undefined);
  app.addHook('onRequest', (request, reply) => door.enter(request, reply));
  app.addHook('preHandler', (request, reply) => door.checkForm(request, reply));
  app.get('/', (request, reply) => door.roles(request, reply));
  app.get('/sign-in', (request, reply) => door.signIn(request, reply));
  app.post('/sign-out', (request, reply) => door.signOut(request, reply));
  app.get('/break-glass', (request, reply) => door.breakGlass(request, reply, undefined));
  app.post('/break-glass', (request, reply) => door.grant(request, reply));
  const { provider } = door;
  if (provider !== undefined) {
    const once = { exposeHeadRoute: false };
    app.get('/sign-in/begin', once, (request, reply) => door.begin(provider, request, reply));
    app.get(CALLBACK, once, (request, reply) => door.callback(provider, request, reply));
    await provider.prepare();
  }
  if (options.auth.kind === 'local') {
    app.get(LINK, (request, reply) => door.showLink(request, reply));
    app.post(LINK, (request, reply) => door.useLink(request, reply));
  }
  return door.people();
}

/** What the routes share. */
class Door {
  readonly #options: PeopleOptions;
  readonly #actingFor: ActingFor;
  readonly #roles: Roles;
  readonly #sessions: Sessions;
  readonly #attempts: Attempts;
  readonly #links: LocalLinks;
  readonly provider: Provider | undefined;

  constructor(options: PeopleOptions) {
    const { auth, rolesFile, clock = Date.now } = options;
    this.#options = options;
    if (rolesFile === undefined && auth.kind !== 'local') throw new Error('a roles file is needed');
    this.#roles = rolesFile === undefined ? EVERY_ROLE : openRoles({ ...options, clock, file: rolesFile });
    this.#sessions = new Sessions(clock);
    this.#attempts = new Attempts(clock);
    this.#links = new LocalLinks(clock, options.url);
    this.#actingFor = guardOf(this.#roles, this.#sessions);
    if (auth.kind === 'oidc')
      this.provider = new Provider({
        ...options,
        ...auth,
        clock,
        callerClaim: () => this.#roles.callerClaim,
      });
  }

  people(): People {
    const { auth, terminal = TERMINAL } = this.#options;
    let stop: (() => void) | undefined;
    return {
      actingFor: this.#actingFor,
      admit: (request, reply, role, page) => this.#admit(request, reply, role, page),
      listening: () => {
        if (auth.kind === 'local') stop = offerLinks(this.#links, terminal);
      },
      close: () => {
        stop?.();
        return Promise.resolve();
      },
    };
  }

  #admit(request: FastifyRequest, reply: FastifyReply, role: Role, page: Page): Admitted | undefined {
    const acting = this.#actingFor(request, role, page);
    const { viewerSession: session } = request;
    if (isRefused(acting) || session === undefined) {
      if (isRefused(acting)) this.#refuse(request, reply, acting);
      return undefined;
    }
    return {
      acting,
      otherRoles: this.#shownRoles(session).filter((each) => each.role !== role),
      grantedUntil: role === 'break-glass' ? this.#grantedUntil(session) : undefined,
      signOutToken: this.#sessions.formToken(session, '/sign-out'),
      formToken: this.#sessions.formToken(session, `/${role}/runs`),
    };
  }

  #refuse(request: FastifyRequest, reply: FastifyReply, { status, why, sentence }: Refused): FastifyReply {
    const isGet = request.method === 'GET' || request.method === 'HEAD';
    if (why === 'reason' && isGet) return reply.redirect('/break-glass', 303);
    if (why === 'signed-out')
      return isGet && request.viewerProblem === undefined
        ? reply.redirect('/sign-in', 303)
        : this.#signedOut(request, reply);
    return this.#message(reply, status, { title: 'Not permitted', sentences: [sentence], link: 'roles' });
  }

  /** For each request: refuses another host's name, and finds the session. */
  async enter(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { auth, url } = this.#options;
    if (OPEN.includes(request.routeOptions.url ?? '')) return undefined;
    if (auth.kind === 'local' && !isLoopbackAddress(request.socket.remoteAddress))
      return this.#message(reply, 403, {
        ...{ title: 'Not here', link: undefined },
        sentences: ['This viewer is for its own host alone.'],
      });
    if (!isOwnHost(request.raw, url()))
      return this.#message(reply, 421, {
        ...{ title: 'Another address', link: undefined },
        sentences: ['This is not the address of the viewer. Use the address that you were given.'],
      });
    const isPost = request.method !== 'GET' && request.method !== 'HEAD';
    if (isPost && !isSameOrigin(request.raw, url())) return this.#notFromHere(reply);
    const session = this.#sessions.use(request.cookies[this.#cookie]);
    request.viewerSession = await (auth.kind === 'proxy'
      ? this.#ofProxy(request, reply, session, auth)
      : this.#checked(request, session));
    return undefined;
  }

  /** The session, if the provider still knows the person. */
  async #checked(request: FastifyRequest, session: Session | undefined): Promise<Session | undefined> {
    if (session?.login === undefined || this.provider === undefined) return session;
    const checked = await this.provider.check(session.login, session.person);
    if ('person' in checked) {
      session.person = checked.person;
      return session;
    }
    request.viewerProblem = checked.ended;
    this.#sessions.end(session);
    return undefined;
  }

  /** The headers say who it is; the session adds form tokens and break-glass, for the same name alone. */
  #ofProxy(
    request: FastifyRequest,
    reply: FastifyReply,
    known: Session | undefined,
    headers: ProxyHeaders,
  ): Session | undefined {
    const stated = personOf(request.raw, headers);
    if ('problem' in stated) {
      request.viewerProblem = stated.problem;
      return undefined;
    }
    const { person } = stated;
    if (known?.person.name === person.name) {
      known.person = person;
      return known;
    }
    return this.#start(reply, person);
  }

  /** For each POST: the token of the form, which belongs to the session and the path. */
  async checkForm(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    if (request.method === 'GET' || request.method === 'HEAD' || request.is404) return undefined;
    const path = request.url.replace(/\?.*$/s, '');
    // The one-time token is enough where there is no session yet.
    if (path === LINK && this.#options.auth.kind === 'local') return undefined;
    const { viewerSession: session } = request;
    if (session === undefined) return this.#signedOut(request, reply);
    const token = field(request, FORM_TOKEN);
    return this.#sessions.isFormToken(session, path, token) ? undefined : this.#notFromHere(reply);
  }

  async roles(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { viewerSession: session } = request;
    if (session === undefined) return reply.redirect('/sign-in', 303);
    const { notes } = this.#rolesOf(session);
    const shown = this.#shownRoles(session);
    const [first] = shown;
    if (first !== undefined && shown.length === 1 && notes.length === 0)
      return reply.redirect(first.path, 303);
    const html = this.#options.pages.roles({
      name: session.person.name,
      roles: shown,
      notes:
        shown.length + notes.length > 0
          ? notes
          : ['Your groups give you no role in the viewer. Ask its administrator for one.'],
      signOutToken: this.#sessions.formToken(session, '/sign-out'),
    });
    return page(reply, 200, html);
  }

  async signIn(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { auth, pages } = this.#options;
    if (request.viewerSession !== undefined) return reply.redirect('/', 303);
    if (this.provider !== undefined) {
      const problem = (await this.provider.prepare()) ?? request.viewerProblem;
      return page(reply, 200, pages.signIn({ how: 'oidc', provider: this.provider.host, problem }));
    }
    const how = auth.kind === 'proxy' ? 'proxy' : 'local';
    return page(reply, how === 'proxy' ? 401 : 200, pages.signIn({ how, problem: request.viewerProblem }));
  }

  async begin(provider: Provider, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    if (!this.#attempts.take(request.ip)) return this.#tooMany(reply);
    // One cookie for a browser: two tabs may sign in at the same time.
    const known = request.cookies[this.#loginCookie];
    const browser = isToken(known) ? known : newToken();
    try {
      const to = await provider.begin(browser);
      reply.setCookie(this.#loginCookie, browser, { ...this.#attributes, sameSite: 'lax', maxAge: 600 });
      return await page(reply.header('location', to.href), 303, '');
    } catch (error) {
      return this.#refused(reply, error);
    }
  }

  async callback(provider: Provider, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    if (!this.#attempts.take(request.ip)) return this.#tooMany(reply);
    try {
      const query = request.url.slice(CALLBACK.length + 1);
      const { person, login } = await provider.finish(query, request.cookies[this.#loginCookie]);
      reply.clearCookie(this.#loginCookie, this.#attributes);
      return await this.#enterAs(request, reply, person, login);
    } catch (error) {
      return this.#refused(reply, error);
    }
  }

  /** Previews of links in mail and chat open a link by GET, so a GET uses nothing. */
  async showLink(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { token } = request.query as { readonly token?: unknown };
    if (!isToken(token)) return this.#badLink(reply);
    return page(reply, 200, this.#options.pages.signIn({ how: 'link', token }));
  }

  async useLink(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    if (!this.#attempts.take(request.ip)) return this.#tooMany(reply);
    const token = field(request, 'token');
    if (!isToken(token) || !this.#links.use(token)) return this.#badLink(reply);
    return this.#enterAs(request, reply, localPerson(this.#roles.groups), undefined);
  }

  async signOut(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { viewerSession: session } = request;
    if (session === undefined) return this.#signedOut(request, reply);
    this.#sessions.end(session);
    reply.clearCookie(this.#cookie, this.#attributes);
    const to = session.login === undefined ? undefined : this.provider?.signOutUrl(session.login);
    if (to !== undefined)
      return page(
        reply,
        200,
        this.#options.pages.continueTo({
          ...{ title: 'Signing out', to: to.href, text: 'Sign out at the login provider' },
        }),
      );
    const isProxy = this.#options.auth.kind === 'proxy';
    return this.#message(reply, 200, {
      title: 'Signed out',
      sentences: isProxy
        ? ['You are signed out here. Sign out at the proxy too, or close the browser.']
        : ['You are signed out.'],
      link: isProxy ? undefined : 'sign-in',
    });
  }

  async breakGlass(
    request: FastifyRequest,
    reply: FastifyReply,
    problem: string | undefined,
  ): Promise<unknown> {
    const { viewerSession: session } = request;
    if (session === undefined) return reply.redirect('/sign-in', 303);
    if (!this.#rolesOf(session).roles.has('break-glass')) return this.#noBreakGlass(reply);
    const given = field(request, 'reason');
    const html = this.#options.pages.breakGlass({
      name: session.person.name,
      formToken: this.#sessions.formToken(session, '/break-glass'),
      signOutToken: this.#sessions.formToken(session, '/sign-out'),
      problem,
      reason: typeof given === 'string' ? given : '',
      ...{ leastCharacters: LEAST_REASON, mostCharacters: MOST_REASON, minutes: BREAK_GLASS_MINUTES },
      grantedUntil: this.#grantedUntil(session),
    });
    return page(reply, problem === undefined ? 200 : 400, html);
  }

  async grant(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { viewerSession: session } = request;
    if (session === undefined) return this.#signedOut(request, reply);
    const { person } = session;
    const scope = this.#rolesOf(session).roles.get('break-glass');
    if (scope === undefined) return this.#noBreakGlass(reply);
    const stated = reasonFrom(field(request, 'reason'));
    if ('problem' in stated) return this.breakGlass(request, reply, stated.problem);
    try {
      await this.#options.onBreakGlass({ person, role: 'break-glass', scope, reason: stated.reason });
    } catch (error) {
      const code = error instanceof Error ? error.name : 'unknown';
      this.#options.log.warn({ code }, 'break-glass was not granted: it could not be recorded');
      return this.#message(reply, 503, {
        ...{ title: 'Not granted', link: 'roles' },
        sentences: ['Your reason could not be recorded, so break-glass is not granted. Try again later.'],
      });
    }
    this.#sessions.grant(session, stated.reason);
    return reply.redirect('/break-glass/runs', 303);
  }

  /** Begins a session with a new id, and shows a page that goes to the roles. */
  #enterAs(
    request: FastifyRequest,
    reply: FastifyReply,
    person: Acting['person'],
    login: ProviderLogin | undefined,
  ): FastifyReply {
    if (request.viewerSession !== undefined) this.#sessions.end(request.viewerSession);
    this.#start(reply, person, login);
    return page(
      reply,
      200,
      this.#options.pages.continueTo({ title: 'Signed in', to: '/', text: 'Continue' }),
    );
  }

  #start(reply: FastifyReply, person: Acting['person'], login?: ProviderLogin): Session {
    const { id, session } = this.#sessions.begin(person, login);
    reply.setCookie(this.#cookie, id, { ...this.#attributes, sameSite: 'strict' });
    return session;
  }

  #shownRoles(session: Session): readonly RoleShown[] {
    return [...this.#rolesOf(session).roles].map(([role, { organisations, applications }]) => {
      const isAsked = role === 'break-glass' && this.#grantedUntil(session) === undefined;
      return { role, path: isAsked ? '/break-glass' : `/${role}/runs`, organisations, applications };
    });
  }

  #rolesOf({ person }: Session): PersonRoles {
    return this.#roles.of(person);
  }

  #grantedUntil(session: Session | undefined): string | undefined {
    const granted = session === undefined ? undefined : this.#sessions.granted(session);
    return granted === undefined ? undefined : new Date(granted.until).toISOString();
  }

  get #isHttps(): boolean {
    return this.#options.url().protocol === 'https:';
  }

  get #attributes() {
    return { path: '/', httpOnly: true, secure: this.#isHttps };
  }

  /** Has the port: browsers give a cookie to every port of a host (RFC 6265, section 8.5). */
  get #cookie(): string {
    const { port } = this.#options.url();
    return `${this.#isHttps ? '__Host-' : ''}viewer${port === '' ? '' : `-${port}`}`;
  }

  get #loginCookie(): string {
    return `${this.#cookie}-login`;
  }

  #message(reply: FastifyReply, status: number, shown: MessageShown): FastifyReply {
    return page(reply, status, this.#options.pages.message(shown));
  }

  #refused(reply: FastifyReply, error: unknown): FastifyReply {
    if (!(error instanceof LoginRefused)) throw error;
    this.#options.log.warn({ code: error.code }, 'a login was refused');
    return this.#message(reply, error.status, {
      ...{ title: 'Not signed in', sentences: [error.message], link: 'sign-in' },
    });
  }

  #signedOut(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    return this.#message(reply, 401, {
      title: 'Signed out',
      sentences: [request.viewerProblem ?? 'You are not signed in, or you were signed out after 15 minutes.'],
      link: 'sign-in',
    });
  }

  #notFromHere(reply: FastifyReply): FastifyReply {
    return this.#message(reply, 403, {
      ...{ title: 'Not accepted', link: 'roles' },
      sentences: ['The form is too old, or it was not sent by a page of the viewer. Open the page again.'],
    });
  }

  #noBreakGlass(reply: FastifyReply): FastifyReply {
    return this.#message(reply, 403, {
      ...{ title: 'Not permitted', sentences: ['You do not have the role break-glass.'], link: 'roles' },
    });
  }

  #badLink(reply: FastifyReply): FastifyReply {
    return this.#message(reply, 403, {
      ...{ title: 'Not signed in', link: undefined },
      sentences: [
        'This link was used before, is older than ten minutes, or is not complete.',
        'Press Enter in the terminal of the viewer for a new link.',
      ],
    });
  }

  #tooMany(reply: FastifyReply): FastifyReply {
    return this.#message(reply.header('retry-after', '60'), 429, {
      ...{ title: 'Too many attempts', sentences: ['Wait a minute, then try again.'], link: 'sign-in' },
    });
  }
}

function field(request: FastifyRequest, name: string): unknown {
  const { body } = request;
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
}

function page(reply: FastifyReply, status: number, html: string): FastifyReply {
  return reply
    .code(status)
    .header('cache-control', 'no-store')
    .header('referrer-policy', 'same-origin')
    .type('text/html; charset=utf-8')
    .send(html);
}
