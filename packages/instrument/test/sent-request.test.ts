/** Time-outs, aborts and broken connections, through old and new SDKs. */
import type http from 'node:http';
import OpenAI from 'openai';
import OpenAI5 from 'openai-5';
import OpenAI6 from 'openai-6';
import { expect, test } from 'vitest';
import { openaiFetch } from '../src/openai.js';
import { eventually, modelServer, recording, SECRET, startStream, stream } from './recording.js';

const REQUEST = { model: 'gpt-6-astra', input: SECRET };
const CREATED = { type: 'response.created', response: { id: 'r_1', model: 'gpt-6', status: 'in_progress' } };
const DELTA = { type: 'response.output_text.delta', delta: SECRET };

const silent = () => undefined;
const halfABody = (reply: http.ServerResponse) => {
  reply.writeHead(200, { 'content-type': 'application/json' });
  reply.write('{"id": ');
};
const halfAStream = async (reply: http.ServerResponse) => {
  startStream(reply);
  await stream(reply, [CREATED, DELTA]);
};

async function endedBy(
  server: (reply: http.ServerResponse) => void | Promise<void>,
  call: (url: string, captured: typeof fetch) => Promise<unknown>,
  within?: typeof fetch,
) {
  const { log, events } = await recording();
  const { url } = await modelServer(server);
  await call(url, openaiFetch(log, { fetch: within })).catch(() => undefined);
  return eventually(async () => {
    const all = await events();
    expect(JSON.stringify(all)).not.toContain(SECRET);
    const { ending, error_name, status } = all.at(-1)?.artifact ?? {};
    return ending === undefined ? undefined : { ending, error_name, status };
  });
}

const post = (signal?: AbortSignal) => ({
  method: 'POST',
  body: JSON.stringify(REQUEST),
  ...(signal && { signal }),
});
const TIMED_OUT = { ending: 'failed', error_name: 'TimeoutError', status: undefined };

test.each([
  ['before an answer', silent],
  ['within an answer', halfABody],
  ['within a stream', halfAStream],
])('[R-1600] the time-out of a signal %s is a failure', async (_, server) => {
  const ended = await endedBy(server, async (url, captured) => {
    const reply = await captured(`${url}/v1/responses`, post(AbortSignal.timeout(60)));
    await reply.text();
  });
  expect(ended).toEqual(TIMED_OUT);
});

type Made = { readonly timeout?: number; readonly signal?: AbortSignal };

/** Requests a response through an SDK. */
const SDKS: readonly (readonly [
  string,
  (url: string, captured: typeof fetch, made: Made) => Promise<unknown>,
])[] = [
  [
    'openai 5',
    (url, captured, { timeout, signal }) => {
      const openai = new OpenAI5({ apiKey: 'k', baseURL: url, timeout, maxRetries: 0, fetch: captured });
      return openai.responses.create(REQUEST, { signal });
    },
  ],
  [
    'openai 6',
    (url, captured, { timeout, signal }) => {
      const openai = new OpenAI6({ apiKey: 'k', baseURL: url, timeout, maxRetries: 0, fetch: captured });
      return openai.responses.create(REQUEST, { signal });
    },
  ],
  [
    'openai 7',
    (url, captured, { timeout, signal }) => {
      const openai = new OpenAI({ apiKey: 'k', baseURL: url, timeout, maxRetries: 0, fetch: captured });
      return openai.responses.create(REQUEST, { signal });
    },
  ],
];

test.each(SDKS)('[R-1600] %s: its time-out is a failure', async (_, call) => {
  expect(await endedBy(silent, (url, captured) => call(url, captured, { timeout: 60 }))).toEqual(TIMED_OUT);
});

test.each(SDKS)('[R-1600] %s: the time-out of a signal is a failure', async (_, call) => {
  const within = (url: string, captured: typeof fetch) =>
    call(url, captured, { signal: AbortSignal.timeout(60) });
  expect(await endedBy(silent, within)).toEqual(TIMED_OUT);
});

test.each(SDKS)(
  '[R-1600] %s: a call that the application aborts by its own timer is aborted',
  async (_, call) => {
    const ended = await endedBy(silent, (url, captured) => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(), 60);
      return call(url, captured, { signal: controller.signal, timeout: 5000 });
    });
    expect(ended).toMatchObject({ ending: 'aborted' });
  },
);

test('[R-1600] openai 7: its time-out within an answer is a failure', async () => {
  const ended = await endedBy(halfABody, (url, fetch) =>
    new OpenAI({ apiKey: 'k', baseURL: url, timeout: 60, maxRetries: 0, fetch }).responses.create(REQUEST),
  );
  expect(ended).toEqual(TIMED_OUT);
});

test.each([
  ['HeadersTimeoutError', 'UND_ERR_HEADERS_TIMEOUT'],
  ['ConnectTimeoutError', 'UND_ERR_CONNECT_TIMEOUT'],
  ['Error', 'ETIMEDOUT'],
])("[R-1600] the HTTP client's %s is a failure", async (name, code) => {
  const cause = Object.assign(new Error(SECRET), { name, code });
  const ended = await endedBy(
    silent,
    (url, captured) => captured(`${url}/v1/responses`, post()),
    () => Promise.reject(new TypeError('fetch failed', { cause })),
  );
  expect(ended).toEqual(TIMED_OUT);
});

test.each([
  ['before an answer', silent],
  ['within an answer', halfABody],
  ['within a stream', halfAStream],
])('[R-1600] a call that the application aborts %s is aborted', async (_, server) => {
  const ended = await endedBy(server, async (url, fetch) => {
    const openai = new OpenAI({ apiKey: 'k', baseURL: url, maxRetries: 0, fetch });
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 60);
    const { signal } = controller;
    const pieces = await openai.responses.create({ ...REQUEST, stream: server === halfAStream }, { signal });
    for await (const piece of pieces as AsyncIterable<unknown>) expect(piece).toBeDefined();
  });
  expect(ended).toMatchObject({ ending: 'aborted', status: undefined });
});

test('[R-1600] an abort by the application after the time-out of the SDK is an abort', async () => {
  const ended = await endedBy(halfAStream, async (url, fetch) => {
    const openai = new OpenAI({ apiKey: 'k', baseURL: url, timeout: 50, maxRetries: 0, fetch });
    const pieces = await openai.responses.create({ ...REQUEST, stream: true });
    setTimeout(() => pieces.controller.abort(), 150);
    for await (const piece of pieces) expect(piece).toBeDefined();
  });
  expect(ended).toMatchObject({ ending: 'aborted' });
});

test('[R-1600] a broken stream is cut off, with the code of the error', async () => {
  const breaks = async (reply: http.ServerResponse) => {
    await halfAStream(reply);
    reply.destroy();
  };
  const ended = await endedBy(breaks, async (url, captured) => {
    await (await captured(`${url}/v1/responses`, post())).text();
  });
  expect(ended).toEqual({ ending: 'cut off', error_name: 'UND_ERR_SOCKET', status: undefined });
});
