/** The service never answers with a byte of a stored body; people read by commands and in the viewer. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { EVENT_KINDS, EVENT_PATHS } from '@clinical-events/protocol';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../../../test/free-port.js';
import { apiDocs } from '../../src/operate/api-docs.js';
import { modelSpan, sendOtlp, tracesOf } from '../otlp/sending.js';
import { createKey, run, start, temporaryDirectory } from '../running/collector-process.js';
import { RawConnection, requestBytes } from '../running/raw-http.js';
import { sampleEvent, type SampleEvent } from '../running/sample-events.js';

const PACKAGES = path.resolve(import.meta.dirname, '../../..');
/** Number of requests at the same time. */
const AT_ONCE = 8;
const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'QUERY'];
const ids = ['event_id', 'run_id', 'parent_event_id', 'timestamp', 'protocol_version'];

/** What no answer may contain: a random word in each text of each stored body. */
const words = new Set<string>();

function word(): string {
  const made = `w${randomBytes(9).toString('hex')}`;
  words.add(made);
  return made;
}

/** The event with a word in each text and in a member's name, except where the protocol has a list of words. */
function marked(value: unknown, name = ''): unknown {
  if (typeof value === 'string')
    return name.endsWith('_type') || ids.includes(name) ? value : `${value}-${word()}`;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, marked(each, key)]));
}

/** Spellings in which a word could leave. Each is at any offset within what was encoded. */
function spellings(of: string): string[] {
  const bytes = Buffer.from(of);
  const base64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .slice(4, -4),
  );
  return [of, bytes.toString('hex'), ...base64];
}

function leakedIn(text: string): string[] {
  return [...words].filter((each) => spellings(each).some((spelling) => text.includes(spelling)));
}

/** Paths that a service of this kind might have. */
function guesses(eventId: string): string[] {
  const nouns = [
    'event',
    'events',
    'runs',
    'records',
    'proof',
    'report',
    'viewer',
    'reviewer',
    'export',
    'tile',
  ];
  return [
    ...nouns.flatMap((noun) => [
      `/${noun}`,
      `/${noun}/${eventId}`,
      `/${noun}?event_id=${eventId}`,
      `/v1/${noun}`,
    ]),
    ...EVENT_KINDS.flatMap((kind) => [
      `${EVENT_PATHS[kind]}/${eventId}`,
      `${EVENT_PATHS[kind]}?id=${eventId}`,
    ]),
    ...[
      '/ledger/0000000000000001.segment',
      '/../ledger/0000000000000001.segment',
      '/%2e%2e/ledger',
      '//ledger',
    ],
    ...[
      '/catalogue/catalogue.sqlite',
      '/access.log',
      '/access.sock',
      '/keys.db',
      '/docs/../../ledger',
      '/*',
      '*',
    ],
    ...[
      '/console/../ledger/0000000000000001.segment',
      '/search?q=w',
      '/debug',
      '/graphql',
      '/backup',
      `/${eventId}`,
    ],
  ];
}

interface Asked {
  readonly port: number;
  readonly target: string;
  readonly method: string;
  readonly key: string | undefined;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Every byte of the answer to one request, up to the end of the connection. */
async function answerTo({ port, headers = {}, ...parts }: Asked): Promise<string> {
  const connection = await RawConnection.open(port);
  connection.write(
    requestBytes({ ...parts, headers: { Host: `127.0.0.1:${port}`, Connection: 'close', ...headers } }),
  );
  await connection.ending();
  connection.close();
  return connection.rest;
}

async function socketAnswer(dataDir: string, request: string): Promise<string> {
  const socket = net.connect(path.join(dataDir, 'access.sock'));
  let answer = '';
  socket.setEncoding('utf8').on('data', (text: string) => (answer += text));
  socket.end(`${request}\n`);
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}

test('[R-2040] no path of any port answers with a byte of a stored body', async () => {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const key = await createKey(dataDir);
  const [management, otlp] = [await freePort(), await freePort()];
  const more = ['--otlp-port', String(otlp), '--management-port', String(management)];
  const own = process.env['TESTS_OTLP'] === 'on' ? more.slice(2) : more;
  const collector = await start(dataDir, own);
  onTestFinished(async () => {
    await collector.stop();
  });
  const runId = sampleEvent().event_id;
  const stored = EVENT_KINDS.map((kind) => {
    const sample = kind === 'inference-start' ? { event_id: runId } : { run_id: runId };
    return { kind, event: { ...(marked(sampleEvent(kind, sample)) as SampleEvent), [word()]: word() } };
  });
  const bodies = stored.map(({ event }) => JSON.stringify(event));
  for (const [i, { kind }] of stored.entries()) {
    const answer = await answerTo({
      ...{ port: collector.port, method: 'POST', target: EVENT_PATHS[kind], key, body: bodies[i] ?? '' },
    });
    expect(answer).toMatch(/^HTTP\/1\.1 201 /);
  }
  const answers: string[] = [];
  const otlpPort = own === more ? otlp : Number(/"otlpPort":(\d+)/.exec(collector.output.stderr)?.[1]);
  const span = modelSpan({ 'gen_ai.input.messages': JSON.stringify([{ role: 'user', parts: [word()] }]) });
  const sent = await sendOtlp(otlpPort, key, tracesOf([span]));
  expect([sent.status, sent.json]).toEqual([200, {}]);
  answers.push(sent.bytes.toString());
  // All are stored.
  const printed = (await run(['events', '--data-dir', dataDir])).stdout;
  expect([...words].filter((each) => !printed.includes(each))).toEqual([]);
  expect(words.size).toBeGreaterThan(25);

  const page = await answerTo({ port: management, target: '/', method: 'GET', key: undefined });
  const linked = [...page.matchAll(/(?:src|href)="([^":]+)"/g)].map(
    ([, to = '']) => new URL(to, 'http://h/').pathname,
  );
  expect(linked.length).toBeGreaterThan(0);
  const known = [
    ...[
      '/',
      '/console',
      '/console/state.json',
      '/metrics',
      '/livez',
      '/readyz',
      '/livez?verbose',
      '/readyz?verbose',
    ],
    ...[...apiDocs()].map(([name]) => name),
    ...[...linked, ...EVENT_KINDS.map((kind) => EVENT_PATHS[kind]), '/v1/traces', '/v1/logs'],
    '/api/public/otel/v1/traces',
  ];
  const targets = [...new Set([...known, ...guesses(runId)])];
  const [firstBody = ''] = bodies;
  const asked = [collector.port, otlpPort, management].flatMap((port) =>
    METHODS.flatMap((method) =>
      (method === 'GET' || method === 'POST' ? targets : known).flatMap((target) =>
        (method === 'GET' ? [key, undefined] : [key]).map((each) => ({ port, target, method, key: each })),
      ),
    ),
  );
  for (let at = 0; at < asked.length; at += AT_ONCE)
    answers.push(...(await Promise.all(asked.slice(at, at + AT_ONCE).map(answerTo))));
  // A repeat, another event with the id of a stored one, and bodies sent to wrong places.
  const conflict = JSON.stringify(sampleEvent('inference-start', { event_id: runId }));
  const other = JSON.stringify({ event_id: runId });
  for (const target of EVENT_KINDS.map((kind) => EVENT_PATHS[kind]))
    for (const body of [firstBody, conflict, other, '{'])
      answers.push(await answerTo({ port: collector.port, method: 'POST', target, key, body }));
  const headers = { Accept: 'application/openmetrics-text', 'Accept-Encoding': 'gzip, br' };
  for (const target of known)
    answers.push(await answerTo({ port: management, method: 'GET', target, key: undefined, headers }));
  const look = { state: 'begun', command: 'viewer run', filter: { run: runId }, uid: 1, user: null };
  const actor = { kind: 'oidc', name: 'x', role: 'reviewer' };
  await expect.poll(() => fs.existsSync(path.join(dataDir, 'access.sock'))).toBe(true);
  for (const request of [{ ...look, actor }, look, { state: 'ended' }])
    answers.push(await socketAnswer(dataDir, JSON.stringify(request)));

  const all = answers.join('\n');
  expect(answers.filter((answer) => answer.startsWith('HTTP/1.1 200')).length).toBeGreaterThan(30);
  expect(all).toContain('"kept":true');
  expect(all).not.toMatch(/^content-encoding:/im);
  expect(leakedIn(all)).toEqual([]);
  // The test would find it.
  for (const coding of ['latin1', 'hex', 'base64'] as const)
    expect(leakedIn(Buffer.from(printed).toString(coding))).toHaveLength(words.size);
});

/** The sources of the collector, and of what it loads. */
function sources(): string[] {
  return ['protocol', 'collector', 'postgres', 'exports', 'report'].flatMap((name) => {
    const directory = path.join(PACKAGES, name, 'src');
    const files = fs.readdirSync(directory, { recursive: true, encoding: 'utf8' });
    return files.filter((file) => file.endsWith('.ts')).map((file) => path.join(directory, file));
  });
}

test('[R-2040] neither the collector nor one of its packages depends on the viewer, or starts it', () => {
  for (const name of ['protocol', 'collector', 'postgres', 'exports', 'report']) {
    const about = JSON.parse(fs.readFileSync(path.join(PACKAGES, name, 'package.json'), 'utf8')) as object;
    expect(JSON.stringify(about), name).not.toContain('clinical-events/viewer');
  }
  const loads =
    /(?:\bfrom|\bimport|\brequire|\bURL|\bWorker|\bspawn\w*|\bfork|\bexec\w*)\s*\(?\s*['"`][^'"`]*viewer/i;
  expect(loads.test("import { openLooks } from '@clinical-events/viewer';")).toBe(true);
  expect(loads.test("spawn('collector-viewer')")).toBe(true);
  const files = sources();
  expect(files.length).toBeGreaterThan(200);
  for (const file of files) {
    const text = fs.readFileSync(file, 'utf8');
    expect(loads.exec(text)?.[0], file).toBeUndefined();
    expect(text, file).not.toContain('@clinical-events/viewer');
  }
});
