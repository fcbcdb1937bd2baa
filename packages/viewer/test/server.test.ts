/** The server with all its pages, over a log and an access log that the tests control. */
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { runs } from '../../../test/property-runs.js';
import { event, id } from '../../collector/test/records/run-events.js';
import { type Look, LookRefused, type Reading } from '../src/contract.js';
import { serverOf } from '../src/viewer.js';
import { foundRun, frame, PROOF, reportShown } from './pages/sample.js';

/** In all that comes from the log, and nowhere else. */
const CANARY = 'canary';
const FOUND = foundRun([
  event({
    ...{ kind: 'inference-start', n: 1 },
    more: {
      model_instance: { model_id: CANARY },
      inputs: { prompt: CANARY },
      system_metadata: { app_name: CANARY },
    },
  }),
]);
const LARGE = foundRun([
  event({ kind: 'inference-start', n: 1, more: { inputs: { prompt: CANARY.repeat(2_000_000) } } }),
]);
const GROUPS = 'safety,doctors,audit';

interface Ended {
  readonly look: Look;
  readonly events: number;
  readonly complete: boolean;
}
const begun: Look[] = [];
const ended: Ended[] = [];
let isRefusing = false;
/** Called before a look counts as recorded. */
let onBegin: () => void | Promise<void> = () => undefined;
const failures: string[] = [];
let asked: string[] = [];
let url: string;
let close: () => Promise<void>;

const reading: Reading = {
  state: () => Promise.resolve(frame('reviewer').state),
  names: () => Promise.resolve({ organisations: [CANARY], applications: [CANARY], models: [CANARY] }),
  runs: () => Promise.resolve({ runs: [FOUND.summary], hasMore: true }),
  run: ({ recordId }) => Promise.resolve(recordId === id(9) ? LARGE : FOUND),
  proof: ({ withContents }) =>
    Promise.resolve({ ...PROOF, text: withContents ? PROOF.text : undefined, verifierKey: CANARY }),
  report: () => {
    const { numbers } = reportShown();
    return numbers === undefined ? Promise.reject(new Error('no sample')) : Promise.resolve(numbers);
  },
  close: () => Promise.resolve(),
};

beforeAll(async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'server-'));
  const rolesFile = path.join(directory, 'roles.json');
  const every = { organisations: '*' };
  const given = [
    { role: 'reviewer', groups: ['safety'], ...every },
    { role: 'clinician', groups: ['doctors'], ...every },
    { role: 'auditor', groups: ['audit'], ...every },
  ];
  fs.writeFileSync(rolesFile, JSON.stringify({ roles: given }));
  const auth = { kind: 'proxy', header: 'X-Remote-User', groupsHeader: 'X-Remote-Groups' } as const;
  const log = pino({}, { write: (line: string) => void failures.push(line) });
  const server = await serverOf({
    ...{ options: { auth, rolesFile, url: undefined, host: '127.0.0.1' }, log, certificate: undefined },
    reading: new Proxy(reading, {
      get: (of, member: keyof Reading) => {
        if (member !== 'state') asked.push(member);
        return Reflect.get(of, member) as unknown;
      },
    }),
    looks: {
      async begin(look) {
        await onBegin();
        if (isRefusing) throw new LookRefused('refused');
        begun.push(look);
        return (end) => {
          ended.push({ look, ...end });
          return Promise.resolve();
        };
      },
      followed: () => Promise.resolve(),
      close: () => Promise.resolve(),
    },
  });
  url = await server.app.listen({ host: '127.0.0.1', port: 0 });
  close = async () => {
    await server.people.close();
    await server.app.close();
    fs.rmSync(directory, { recursive: true });
  };
});

afterAll(() => close());
afterEach(() => {
  [isRefusing, onBegin, asked] = [false, () => undefined, []];
  [begun.length, ended.length, failures.length] = [0, 0, 0];
});

const PERSON = { 'X-Remote-User': 'reviewer-4', 'X-Remote-Groups': GROUPS };

let cookie = '';
/** A request as a page of the viewer makes it. */
async function ask(address: string, init: RequestInit = {}): Promise<{ status: number; text: string }> {
  const headers = { ...PERSON, Cookie: cookie, Origin: url, 'Sec-Fetch-Site': 'same-origin' };
  const response = await fetch(url + address, {
    ...{ redirect: 'manual', ...init, headers: { ...headers, ...(init.headers as Record<string, string>) } },
  });
  const [set] = response.headers.getSetCookie();
  if (set !== undefined) cookie = set.split(';', 1)[0] ?? '';
  return { status: response.status, text: await response.text() };
}

async function formToken(): Promise<string> {
  const { text } = await ask('/reviewer/runs');
  // Of the last form, which looks a person up.
  return [...text.matchAll(/name="form_token" value="([^"]+)"/g)].at(-1)?.[1] ?? '';
}

const word = fc.oneof(
  fc.constantFrom('reviewer', 'clinician', 'auditor', 'break-glass', 'runs', 'report', 'proof', id(1)),
  fc.constantFrom('__proto__', 'constructor', '..', '%2e%2e', '%00', '%zz', '', '*', 'livez', 'sign-in'),
  fc.string({ unit: 'binary', maxLength: 12 }).map((text) => encodeURIComponent(text.toWellFormed())),
);
const name = fc.oneof(
  fc.constantFrom('organisation', 'model', 'app', 'outcome', 'feedback', 'only', 'since', 'until', 'clock'),
  fc.constantFrom(
    'page',
    'target',
    'user',
    'show',
    'from',
    'download',
    '__proto__',
    'constructor',
    'toString',
  ),
  fc.string({ unit: 'binary', maxLength: 6 }),
);
const value = fc.oneof(
  fc.constantFrom(
    '',
    '-',
    '@/etc/hostname',
    '@-',
    'demo',
    'none',
    'none:30d',
    '10000',
    '1e3',
    '-1',
    'sender',
  ),
  fc.constantFrom('+275760-09-13', '275760-09-13T00:00:00Z', '2026-02-30', 'a\0b', 'x'.repeat(300)),
  fc.string({ unit: 'binary', maxLength: 40 }),
);
const members = fc
  .array(fc.tuple(name, value), { maxLength: 6 })
  .map((pairs) =>
    new URLSearchParams(pairs.map(([key, each]) => [key.toWellFormed(), each.toWellFormed()])).toString(),
  );
const address = fc.oneof(
  { weight: 2, arbitrary: fc.constant('/reviewer/runs') },
  {
    weight: 3,
    arbitrary: fc
      .tuple(
        fc.constantFrom('reviewer', 'clinician', 'auditor', 'break-glass'),
        fc.constantFrom('runs', `runs/${id(1)}`, `proof/${id(1)}`, 'report'),
      )
      .map((parts) => `/${parts.join('/')}`),
  },
  { weight: 1, arbitrary: fc.array(word, { maxLength: 4 }).map((parts) => `/${parts.join('/')}`) },
);
const request = fc.record({
  address,
  query: members,
  method: fc.constantFrom('GET', 'GET', 'GET', 'POST', 'POST', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'),
  type: fc.constantFrom(
    ...Array.from({ length: 8 }, () => 'application/x-www-form-urlencoded'),
    ...['application/json', 'text/plain', 'multipart/form-data', ''],
  ),
  body: members,
  isRefusing: fc.boolean(),
});

type Asked = typeof request extends fc.Arbitrary<infer Each> ? Each : never;

/** Requests that show each page, without which the property would say nothing. */
const EACH_PAGE = (
  [
    ['GET', '/reviewer/runs'],
    ['POST', '/reviewer/runs'],
    ['GET', `/reviewer/runs/${id(1)}`],
    ['GET', `/reviewer/proof/${id(1)}`],
    ['GET', '/reviewer/report'],
  ] as const
).map(([method, to]): [Asked] => [
  {
    ...{ method, address: to, query: 'organisation=demo&show=1', isRefusing: false },
    ...{ type: 'application/x-www-form-urlencoded', body: '' },
  },
]);

test('[R-2042] no request gets anything of the log before its look is recorded, and none fails', async () => {
  const token = await formToken();
  const shown = new Set<string>();
  await fc.assert(
    fc.asyncProperty(request, async ({ address: to, query, method, type, body, isRefusing: refuses }) => {
      isRefusing = refuses;
      const before = begun.length;
      const sent = ['GET', 'HEAD'].includes(method)
        ? {}
        : { body: `${body}&form_token=${encodeURIComponent(token)}`, headers: { 'Content-Type': type } };
      const { status, text } = await ask(`${to}?${query}`, { method, ...sent });
      expect(status, `${method} ${to}?${query}`).not.toBe(500);
      if (!text.includes(CANARY)) return;
      expect(refuses).toBe(false);
      expect(begun.length).toBe(before + 1);
      shown.add(`${begun.at(-1)?.what} ${method}`);
    }),
    { numRuns: runs(20_000, 600), examples: EACH_PAGE },
  );
  expect(failures.filter((line) => !line.includes('"reason":"refused"'))).toEqual([]);
  expect([...shown].sort()).toEqual(['proof GET', 'report GET', 'run GET', 'runs GET', 'runs POST']);
});

describe('[R-2042] a look has its end', () => {
  test('also if the reader leaves before it is recorded', async () => {
    const socket = net.connect(Number(new URL(url).port), '127.0.0.1');
    onBegin = async () => {
      const left = new Promise((resolve) => socket.once('close', resolve));
      socket.destroy();
      await left;
      // The server notices.
      await new Promise((resolve) => setTimeout(resolve, 50));
    };
    socket.write(requestText(`/reviewer/runs/${id(1)}`));
    await expect.poll(() => ended).toMatchObject([{ look: { what: 'run' }, complete: false }]);
  });

  test('for each request of a reader who sends several at once and leaves', async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<undefined>();
    let looks = 0;
    onBegin = () => (looks++ === 0 ? gate : undefined);
    const socket = net.connect(Number(new URL(url).port), '127.0.0.1');
    const text = requestText(`/reviewer/runs/${id(1)}`);
    socket.write(text + text + text);
    // Their pages wait for the first one.
    await expect.poll(() => begun.length).toBe(2);
    socket.destroy();
    await expect.poll(() => ended.map(({ complete }) => complete)).toEqual([false, false]);
    open(undefined);
    await expect.poll(() => ended.map(({ complete }) => complete)).toEqual([false, false, false]);
  });

  test('which says whether the page was sent', async () => {
    await ask(`/reviewer/runs/${id(9)}`);
    await expect.poll(() => ended).toMatchObject([{ complete: true, events: 1 }]);
    const { port } = new URL(url);
    const cut = http.get({ port, path: `/reviewer/runs/${id(9)}`, headers: PERSON }, (response) =>
      response.once('data', () => cut.destroy()),
    );
    cut.on('error', () => undefined);
    await expect.poll(() => ended.map(({ complete }) => complete)).toEqual([true, false]);
  });
});

function requestText(to: string): string {
  const headers = Object.entries({ Host: new URL(url).host, ...PERSON });
  return `GET ${to} HTTP/1.1\r\n${headers.map(([key, each]) => `${key}: ${each}\r\n`).join('')}\r\n`;
}

test('[R-2042] the names in a form alone are a look', async () => {
  for (const to of ['/reviewer/report', '/reviewer/report?since=never', '/reviewer/runs?page=0']) {
    expect((await ask(to)).text).toContain(CANARY);
    expect(begun.pop()?.filter).toEqual({ names: true });
    isRefusing = true;
    expect((await ask(to)).text).not.toContain(CANARY);
    isRefusing = false;
  }
});

test('[R-2042] a filter that the access log would refuse is not asked, as it would end the connection', async () => {
  const form = (member: string) => ({
    method: 'POST',
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    body: `form_token=${encodeURIComponent(token)}&${member}`,
  });
  const token = await formToken();
  expect((await ask('/reviewer/runs?page=1000')).status).toBe(200);
  expect((await ask('/reviewer/runs?page=1001')).text).toContain('choose an earlier time');
  asked = [];
  for (const member of [`model=${'x'.repeat(257)}`, 'app=a%00b', `only=${'failed,'.repeat(40)}`]) {
    expect((await ask(`/reviewer/runs?${member}`)).status).toBe(400);
    expect((await ask('/reviewer/runs', form(member))).status).toBe(400);
  }
  expect(asked).not.toContain('runs');
  expect((await ask('/reviewer/runs', form(`target=${'x'.repeat(1000)}`))).status).toBe(200);
  for (const type of ['application/json', 'text/plain']) {
    const body = JSON.stringify({ form_token: token, model: '\ud800' });
    const sent = { method: 'POST', headers: { 'Content-Type': type }, body };
    expect((await ask('/reviewer/runs', sent)).status).toBe(415);
  }
});

test.each(['%zz', 'a'.repeat(5000)])(
  '[R-2049] an address that cannot be read is not repeated',
  async (id) => {
    const response = await fetch(`${url}/reviewer/runs/${id}`, { headers: PERSON });
    expect([400, 404, 414]).toContain(response.status);
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(response.headers.get('content-type')).toContain('text/html');
    expect(await response.text()).not.toContain(id);
  },
);

test('[R-2047] an auditor gets no file of a proof, by which contents could be guessed', async () => {
  const to = `/auditor/proof/${id(1)}?organisation=demo`;
  const page = await ask(to);
  expect(page.text).toContain('signature verified');
  const salted = PROOF.text?.split('\n')[2] ?? 'none';
  const file = await ask(`${to}&download=1`);
  expect([file.status, page.text.includes(salted), file.text.includes(salted)]).toEqual([403, false, false]);
  expect((await ask(`${to.replace('auditor', 'reviewer')}&download=1`)).text).toBe(PROOF.text);
});

test('[R-2049] somebody who asks for many pages at once does not keep others waiting', async () => {
  const { promise: gate, resolve: open } = Promise.withResolvers<undefined>();
  onBegin = () => gate;
  let refused = 0;
  const many = Array.from({ length: 40 }, async () => {
    const { status } = await ask('/reviewer/runs');
    if (status === 429) refused++;
    return status;
  });
  await expect.poll(() => refused).toBe(24);
  const other = ask('/reviewer/runs', { headers: { 'X-Remote-User': 'a.lee' } });
  await expect.poll(() => asked.filter((kind) => kind === 'runs').length).toBe(17);
  open(undefined);
  expect((await other).status).toBe(200);
  expect((await Promise.all(many)).filter((status) => status === 200)).toHaveLength(16);
  expect((await ask('/reviewer/runs')).status).toBe(200);
});
