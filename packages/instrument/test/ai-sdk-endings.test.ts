/** Failed calls of the AI SDK. */
import { APICallError, generateText, simulateReadableStream, streamText, wrapLanguageModel } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { expect, test } from 'vitest';
import { captureMiddleware, type RunsIn } from '../src/ai-sdk.js';
import { eventually, recording, SECRET } from './recording.js';

const TEXT = [
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: SECRET },
] as const;

function wrapped(runs: RunsIn, model: ConstructorParameters<typeof MockLanguageModelV4>[0]) {
  return wrapLanguageModel({ model: new MockLanguageModelV4(model), middleware: captureMiddleware(runs) });
}

/** A stream of words that then waits for the abort of the signal. */
function endless(signal: AbortSignal | undefined) {
  const stream = new ReadableStream({
    start(controller) {
      for (const part of TEXT) controller.enqueue(part);
      signal?.addEventListener('abort', () => controller.error(signal.reason));
    },
  });
  return Promise.resolve({ stream });
}

const waiting = (signal: AbortSignal | undefined) =>
  new Promise<never>((_resolve, reject) => {
    signal?.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
  });

const MODEL = {
  doGenerate: ({ abortSignal }: { abortSignal?: AbortSignal | undefined }) => waiting(abortSignal),
  doStream: ({ abortSignal }: { abortSignal?: AbortSignal | undefined }) => endless(abortSignal),
};

const ABORTED = { ending: 'aborted', error_name: undefined };
const TIMED_OUT = { ending: 'failed', error_name: 'TimeoutError' };

function abortedAtOnce() {
  const abort = new AbortController();
  setImmediate(() => {
    abort.abort();
  });
  return { abortSignal: abort.signal };
}

test.each([
  ['timeout', () => ({ timeout: 20 }), TIMED_OUT],
  ['AbortSignal.timeout', () => ({ abortSignal: AbortSignal.timeout(20) }), TIMED_OUT],
  ['an abort of the application', abortedAtOnce, ABORTED],
])('[R-1600] AI SDK: a call that is ended by %s', async (_name, limit, { ending, error_name }) => {
  const { log, events } = await recording();
  const asked = { model: wrapped(log, MODEL), prompt: 'p', maxRetries: 0, onError: () => undefined };
  await expect(generateText({ ...asked, ...limit() })).rejects.toThrow();
  await streamText({ ...asked, ...limit() }).consumeStream();
  const ends = await eventually(async () => {
    const all = (await events()).flatMap(({ artifact }) => (artifact?.['ending'] ? [artifact] : []));
    return all.length === 2 ? all : undefined;
  });
  for (const end of ends) {
    expect(end).toMatchObject({ ending });
    if (error_name !== undefined) expect(end).toMatchObject({ error_name });
    expect(end).not.toHaveProperty('status');
  }
});

const socket = Object.assign(new TypeError('terminated'), {
  cause: Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }),
});
const about = { message: SECRET, url: 'http://model', requestBodyValues: {} };
const BROKEN = [
  ['before an answer', socket, { ending: 'failed', error_name: 'TypeError' }],
  [
    'in the middle of an answer of status 200',
    new APICallError({ ...about, statusCode: 200, cause: socket }),
    { ending: 'cut off', error_name: 'UND_ERR_SOCKET' },
  ],
  [
    'in an unreadable answer of status 200',
    new APICallError({ ...about, statusCode: 200 }),
    { ending: 'failed', error_name: 'AI_APICallError' },
  ],
  [
    'with an error status',
    new APICallError({ ...about, statusCode: 529 }),
    { ending: 'failed', error_name: 'AI_APICallError', status: 529 },
  ],
] as const;

test.each(BROKEN)('[R-1600] AI SDK: a call that breaks %s', async (_name, error, expected) => {
  const { log, events } = await recording();
  const model = wrapped(log, { doGenerate: () => Promise.reject(error) });
  await expect(generateText({ model, prompt: 'p', maxRetries: 0 })).rejects.toBe(error);
  const { artifact } = (await events())[1] ?? {};
  expect(artifact).toMatchObject(expected);
  expect(artifact?.['status']).toBe('status' in expected ? expected.status : undefined);
  expect(JSON.stringify(artifact)).not.toContain(SECRET);
});

test('[R-1600] AI SDK: a connection that breaks as a part of a stream is cut off', async () => {
  const { log, events } = await recording();
  const stream = simulateReadableStream({ chunks: [...TEXT, { type: 'error' as const, error: socket }] });
  const model = wrapped(log, { doStream: () => Promise.resolve({ stream }) });
  await streamText({ model, prompt: 'p', onError: () => undefined }).consumeStream();
  expect((await events()).at(-1)?.artifact).toMatchObject({
    ...{ ending: 'cut off', error_name: 'UND_ERR_SOCKET', characters: SECRET.length },
  });
});

test('[R-1600] AI SDK: a model that throws synchronously gives its error and a failed run', async () => {
  const { log, events } = await recording();
  const wrong = new RangeError(SECRET);
  const doGenerate = () => {
    throw wrong;
  };
  const model = { provider: 'ward', modelId: 'ward model (2026)' };
  const params = { prompt: [] };
  await expect(captureMiddleware(log).wrapGenerate({ model, params, doGenerate })).rejects.toBe(wrong);
  const [start, failed] = await events();
  expect(start).toMatchObject({ model_instance: { model_id: 'ward model (2026)' } });
  expect(failed?.artifact).toMatchObject({ ending: 'failed', error_name: 'RangeError' });
});

test('[R-1600] AI SDK: an error that cannot be inspected reaches the application unchanged', async () => {
  const { log, events } = await recording();
  const get = () => {
    throw new Error(SECRET);
  };
  const wrong = new Proxy(new Error(SECRET), { get, getPrototypeOf: get });
  const call = { model: { provider: 'ward', modelId: 'm' }, params: { prompt: [] } };
  const doGenerate = () => Promise.reject(wrong);
  const caught = await captureMiddleware(log)
    .wrapGenerate({ ...call, doGenerate })
    .catch((error: unknown) => ({ isSame: error === wrong }));
  expect(caught).toEqual({ isSame: true });
  expect(JSON.stringify(await events())).not.toContain(SECRET);
});

test('[R-1600] AI SDK: an unread stream has no ending, a cancelled one is aborted', async () => {
  const { log, events } = await recording();
  const middleware = captureMiddleware(log);
  const model = { provider: 'ward', modelId: 'ward-model' };
  const call = () =>
    middleware.wrapStream({
      ...{ model, params: { prompt: [] } },
      doStream: () => Promise.resolve({ stream: simulateReadableStream({ chunks: [...TEXT] }) }),
    });
  await call();
  const { stream } = await call();
  for await (const part of stream) if (part.type === 'text-delta') break;
  const all = await events();
  expect(all.map(({ kind }) => kind)).toEqual(['inference-start', 'inference-start', 'internal-artifact']);
  expect(all[2]).toMatchObject({ run_id: all[1]?.run_id, artifact: { ending: 'aborted' } });
});

test('[R-1600] AI SDK: a malformed call is passed on', async () => {
  const { log, events } = await recording();
  const middleware = captureMiddleware(log);
  const result = { content: [{ type: 'text', text: SECRET }] };
  const doGenerate = () => Promise.resolve(result);
  for (const params of [{}, { prompt: 7 }, { prompt: null }, undefined]) {
    const wrong = { model: { provider: 'ward', modelId: 'm' }, params, doGenerate } as never;
    expect(await middleware.wrapGenerate(wrong)).toBe(result);
  }
  expect(JSON.stringify(await events())).not.toContain(SECRET);
});
