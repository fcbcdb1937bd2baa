/** The pages over HTTP: each is permitted, made, recorded in the access log, and then sent. */
import fs from 'node:fs';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  type Look,
  LookRefused,
  type Looks,
  NotReadable,
  type Reading,
  type ReadingState,
  ROLES,
} from './contract.js';
import { FilterFault, listFrom, reportFrom } from './filters.js';
import type { Frame, LogPages, MadePage } from './pages/page-types.js';
import { type Page, PERMITS } from './people/guard.js';
import type { People } from './people/register.js';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const HTML = 'text/html; charset=utf-8';
/** How long the reader of a page may take no byte of it, in milliseconds. */
const SLOWEST_MS = 60_000;
/** Pages that one person waits for at a time. */
const MOST_AT_ONCE = 16;
/** The package ships this file at its source: the path is right from `dist` and from `src`. */
const STYLE = new URL('../src/pages/viewer.css', import.meta.url);

export interface ServerParts {
  readonly reading: Reading;
  readonly looks: Looks;
  readonly pages: LogPages;
  readonly admit: People['admit'];
  readonly onFailure: (error: unknown) => void;
}

/** A page that is ready to be recorded and sent. */
interface Ready {
  readonly page: MadePage;
  readonly look?: Omit<Look, 'acting'>;
  readonly events?: number;
  readonly status?: number;
  /** A file to download in place of the page. */
  readonly file?: { readonly name: string; readonly text: string };
}

/** Thrown for a page that cannot be shown; the sentences are for the person. */
class Refusal extends Error {
  override name = 'Refusal';
  constructor(
    readonly status: number,
    readonly title: string,
    readonly sentences: readonly string[],
  ) {
    super(title);
  }
}

const TOO_MANY = new Refusal(429, 'Too many pages', [
  'Wait until your other pages are shown, then try again.',
]);

type Names = Awaited<ReturnType<Reading['names']>>;
type Make = (request: FastifyRequest, frame: Frame) => Promise<Ready>;

export function registerPages(app: FastifyInstance, parts: ServerParts): void {
  const { reading, pages } = parts;
  const style = fs.readFileSync(STYLE, 'utf8');
  app.get('/viewer.css', (_, reply) => reply.type('text/css; charset=utf-8').send(style));
  app.get('/livez', (_, reply) => reply.type('text/plain; charset=utf-8').send('ok'));
  const turns = new Turns();
  const page = (name: Page, make: Make) => (request: FastifyRequest, reply: FastifyReply) =>
    answer(parts, { request, reply, name, make, turns });
  app.get(
    '/:role/runs',
    page('runs', (request, frame) => listPage(reading, pages, frame, request.query, false)),
  );
  app.post(
    '/:role/runs',
    page('lookup', (request, frame) => listPage(reading, pages, frame, request.body, true)),
  );
  app.get(
    '/:role/runs/:id',
    page('run', (request, frame) => runPage(reading, pages, frame, request)),
  );
  app.get(
    '/:role/proof/:id',
    page('proof', (request, frame) => proofPage(reading, pages, frame, request)),
  );
  app.get(
    '/:role/report',
    page('report', (request, frame) => reportPage(reading, pages, frame, request)),
  );
}

interface Asked {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly name: Page;
  readonly make: Make;
  readonly turns: Turns;
}

async function answer(
  parts: ServerParts,
  { request, reply, name, make, turns }: Asked,
): Promise<FastifyReply> {
  const { role: word } = request.params as { readonly role: string };
  const role = ROLES.find((each) => each === word);
  if (role === undefined) {
    reply.callNotFound();
    return reply;
  }
  const admitted = parts.admit(request, reply, role, name);
  if (admitted === undefined) return reply;
  const frame = { ...admitted, state: await stateOf(parts.reading) };
  const { kind, name: called } = frame.acting.person;
  let ready: Ready;
  try {
    ready = await turns.take(`${kind} ${called}`, async () => {
      const made = await make(request, frame);
      await record(parts, reply, frame, made);
      return made;
    });
  } catch (error) {
    return refuse(parts, reply, frame, error);
  }
  return send(reply, ready);
}

/** A person who asks for many pages does not delay others. */
class Turns {
  readonly #pages = new Map<string, number>();

  /** @throws Refusal if the person waits for too many pages. */
  async take(person: string, make: () => Promise<Ready>): Promise<Ready> {
    const others = this.#pages.get(person) ?? 0;
    if (others >= MOST_AT_ONCE) throw TOO_MANY;
    this.#pages.set(person, others + 1);
    try {
      return await make();
    } finally {
      const left = (this.#pages.get(person) ?? 1) - 1;
      if (left === 0) this.#pages.delete(person);
      else this.#pages.set(person, left);
    }
  }
}

/** On return the look is durable, and its end follows. @throws LookRefused */
async function record(
  { looks, onFailure }: ServerParts,
  reply: FastifyReply,
  { acting }: Frame,
  { look, events = 0 }: Ready,
): Promise<void> {
  if (look === undefined) return;
  const end = await looks.begin({ ...look, acting });
  onceClosed(reply, (complete) => {
    end({ events, complete }).catch(onFailure);
  });
}

function send(reply: FastifyReply, { page, status = 200, file }: Ready): FastifyReply {
  reply.code(status).headers(page.headers ?? {});
  if (file === undefined) return reply.type(HTML).send(page.html);
  return reply
    .type('application/octet-stream')
    .header('Content-Disposition', `attachment; filename="${file.name}"`)
    .send(file.text);
}

/** Calls `then` when the page was sent, or its reader is away: also if he left before this call. */
function onceClosed({ raw, request }: FastifyReply, then: (complete: boolean) => void): void {
  const { socket } = request.raw;
  let isClosed = false;
  const closed = () => {
    if (isClosed) return;
    isClosed = true;
    socket.off('close', closed);
    then(raw.writableFinished);
  };
  raw.once('close', closed);
  // A pipelined request gets no `close` event of its own.
  socket.once('close', closed);
  if (socket.destroyed) closed();
  // A page that is read slower than this is cut off, so that its memory becomes free.
  else raw.setTimeout(SLOWEST_MS);
}

function refuse(
  { pages, onFailure }: ServerParts,
  reply: FastifyReply,
  frame: Frame,
  error: unknown,
): FastifyReply {
  const { status, title, sentences } = refusalOf(error, onFailure);
  const { html, headers = {} } = pages.refusal({ ...frame, title, sentences });
  return reply.code(status).headers(headers).type(HTML).send(html);
}

function refusalOf(error: unknown, onFailure: (error: unknown) => void): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof NotReadable) return new Refusal(503, 'This cannot be shown now', [error.message]);
  onFailure(error);
  if (error instanceof LookRefused)
    return new Refusal(503, 'Nothing is shown', [
      'This look could not be recorded in the access log, so nothing is shown.',
      'Ask the operator of the collector.',
    ]);
  return new Refusal(500, 'This page failed', [
    'The viewer could not make the page. Its log has the reason.',
  ]);
}

/** The state for the frame of a page. A page does not fail because the state is unknown. */
async function stateOf(reading: Reading): Promise<ReadingState> {
  try {
    return await reading.state();
  } catch {
    const unknown = { progress: 0, keys: 'none', entries: 0, asOf: undefined } as const;
    return { ...unknown, catalogue: 'unusable', reason: 'The log cannot be read now.' };
  }
}

async function listPage(
  reading: Reading,
  pages: LogPages,
  frame: Frame,
  sent: unknown,
  isLookup: boolean,
): Promise<Ready> {
  const { scope, role } = frame.acting;
  const mayNamePersons = PERMITS[role].lookup;
  const names = await namesIn(reading, frame);
  const about = { ...frame, names, mayNamePersons };
  try {
    const { filter, offset, limit, page, logged, form } = listFrom(
      sent,
      isLookup && mayNamePersons,
      Date.now(),
    );
    const list = await reading.runs({ scope, filter, offset, limit });
    return {
      page: pages.runs({ ...about, form, problem: undefined, list, page }),
      look: { what: 'runs', filter: logged },
      events: list.runs.reduce(
        (sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0),
        0,
      ),
    };
  } catch (error) {
    if (!(error instanceof FilterFault)) throw error;
    const shown = { ...about, form: {}, problem: error.message, list: undefined, page: 1 };
    return { page: pages.runs(shown), ...lookAtNames('runs', names), status: 400 };
  }
}

/** A form alone has the names of the log, which senders chose. */
function lookAtNames(what: 'runs' | 'report', names: Names): Pick<Ready, 'look'> {
  const isEmpty = Object.values(names).every((each) => each.length === 0);
  return isEmpty ? {} : { look: { what, filter: { names: true } } };
}

/** Without names the form has text fields, and the list says why it cannot be made. */
async function namesIn(reading: Reading, { acting, state }: Frame): Promise<Names> {
  if (state.catalogue !== 'ready') return { organisations: [], applications: [], models: [] };
  return reading.names(acting.scope);
}

async function runPage(
  reading: Reading,
  pages: LogPages,
  frame: Frame,
  { params, query }: FastifyRequest,
): Promise<Ready> {
  const { id = '' } = params as { readonly id?: string };
  const { organisation, from } = query as { readonly organisation?: string; readonly from?: string };
  const withContents = PERMITS[frame.acting.role].contents;
  const recordId = id.toLowerCase();
  const run = UUID.test(id)
    ? await reading.run({
        scope: frame.acting.scope,
        recordId,
        organisation: textOf(organisation),
        withContents,
        from: numberOf(from),
      })
    : undefined;
  if (run === undefined)
    throw new Refusal(404, 'No such run', ['There is no run with this id that you may see.']);
  const { events, organisation: of } = run.record.metadata;
  return {
    page: pages.run({ ...frame, run, withContents }),
    look: { what: 'run', filter: { run: recordId, organisation: of, contents: withContents } },
    events: events.length,
  };
}

async function proofPage(
  reading: Reading,
  pages: LogPages,
  frame: Frame,
  { params, query }: FastifyRequest,
): Promise<Ready> {
  const { id = '' } = params as { readonly id?: string };
  const { organisation: of, download } = query as {
    readonly organisation?: string;
    readonly download?: string;
  };
  const organisation = textOf(of);
  const { scope, role } = frame.acting;
  const eventOf = { eventId: id.toLowerCase(), organisation: organisation ?? '' };
  const asked = { scope, ...eventOf, withContents: PERMITS[role].contents };
  const proof = UUID.test(id) && organisation !== undefined ? await reading.proof(asked) : undefined;
  if (proof === undefined)
    throw new Refusal(404, 'No such event', ['There is no event with this id that you may see.']);
  const { eventId, recordId, text } = proof;
  if (download !== undefined && text === undefined)
    throw new Refusal(403, 'Not permitted', [`The role ${role} does not permit the file of a proof.`]);
  return {
    page: pages.proof({ ...frame, proof, organisation: asked.organisation }),
    look: { what: 'proof', filter: { event: eventId, run: recordId, organisation } },
    events: 1,
    ...(download !== undefined && text !== undefined && { file: { name: `${eventId}.tlog-proof`, text } }),
  };
}

async function reportPage(
  reading: Reading,
  pages: LogPages,
  frame: Frame,
  { query }: FastifyRequest,
): Promise<Ready> {
  const names = await namesIn(reading, frame);
  const isShown = Object.hasOwn(Object(query) as object, 'show');
  try {
    const { asked, logged, form } = reportFrom(query);
    const numbers = isShown ? await reading.report({ ...asked, scope: frame.acting.scope }) : undefined;
    const page = pages.report({ ...frame, form, names, problem: undefined, numbers });
    return numbers === undefined
      ? { page, ...lookAtNames('report', names) }
      : { page, look: { what: 'report', filter: logged }, events: numbers.all.events };
  } catch (error) {
    if (!(error instanceof FilterFault)) throw error;
    const shown = { ...frame, form: {}, names, problem: error.message, numbers: undefined };
    return { page: pages.report(shown), ...lookAtNames('report', names), status: 400 };
  }
}

function textOf(sent: unknown): string | undefined {
  return typeof sent === 'string' && sent !== '' ? sent : undefined;
}

function numberOf(sent: unknown): number {
  return typeof sent === 'string' && /^\d{1,7}$/.test(sent) ? Number(sent) : 0;
}
