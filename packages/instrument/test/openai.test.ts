import { EventEmitter, once } from 'node:events';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { openaiFetch } from '../src/openai.js';
import {
  eventually,
  expectMadeBy,
  json,
  modelServer,
  recording,
  SECRET,
  startStream,
  stream,
} from './recording.js';

const MESSAGES = [{ role: 'user', content: SECRET }] as const;
const TOOLS = [
  { type: 'function', function: { name: 'find_dose', parameters: { type: 'object' } } },
] satisfies OpenAI.ChatCompletionTool[];
const REQUEST = { model: 'gpt-9', messages: [...MESSAGES], tools: TOOLS };
const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
const ARGUMENTS = JSON.stringify({ patient: SECRET });

function completion(message: object, finish_reason: string) {
  const choices = [{ index: 0, finish_reason, message: { role: 'assistant', ...message } }];
  return { ...chunkHead('chat.completion'), choices, usage: USAGE };
}

function chunkHead(object = 'chat.completion.chunk') {
  return { id: 'chatcmpl-1', object, created: 1, model: 'gpt-9-2026-05-01' };
}

function chunk(delta: object, finish_reason: string | null = null) {
  return { ...chunkHead(), choices: [{ index: 0, delta, finish_reason }] };
}

const WORDS = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ content: SECRET }),
  chunk({ content: ', treat.' }),
];
const WHOLE = [...WORDS, chunk({}, 'stop'), { ...chunkHead(), choices: [], usage: USAGE }, '[DONE]'];

function clientOf(url: string, fetch?: typeof globalThis.fetch) {
  return new OpenAI({ apiKey: 'k', baseURL: `${url}/v1`, maxRetries: 0, ...(fetch && { fetch }) });
}

test('[R-865] OpenAI: a completion becomes a start and an output, without its words', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response) => json(response, completion({ content: SECRET }, 'stop')));
  const plain = await clientOf(server.url).chat.completions.create(REQUEST).withResponse();
  const captured = await clientOf(server.url, openaiFetch(log))
    .chat.completions.create(REQUEST)
    .withResponse();
  expect(captured.data).toEqual(plain.data);
  expect(captured.request_id).toBe('req_1');
  expect(captured.response.url).toBe(plain.response.url);
  expect(captured.response.status).toBe(200);
  expect(server.requests[1]).toEqual(server.requests[0]);
  const [start, output, ...more] = await events();
  expect(more).toEqual([]);
  expect(start).toMatchObject({
    kind: 'inference-start',
    model_instance: { model_id: 'gpt-9', provider: 'openai' },
    inputs: { message_count: 1, tool_count: 1, streamed: false },
    system_metadata: { instrumentation: { by: 'openai' } },
  });
  expect(output).toMatchObject({
    kind: 'human-output',
    run_id: start?.run_id,
    output: {
      ...{
        output_type: 'text',
        output_uri: `urn:uuid:${String(start?.run_id)}?=output=1`,
        ending: 'complete',
      },
      ...{ response_id: 'chatcmpl-1', response_model: 'gpt-9-2026-05-01', finish_reason: 'stop' },
      usage: { input_tokens: 11, output_tokens: 7 },
      characters: SECRET.length,
    },
  });
  expect(output?.system_metadata.latency_ms).toBeGreaterThanOrEqual(0);
  expect(JSON.stringify([start, output])).not.toContain(SECRET);
  expectMadeBy('openai', await events());
});

test('[R-865] OpenAI: tool calls become artifacts', async () => {
  const { log, events } = await recording();
  const called = { id: 'call_1', type: 'function', function: { name: 'find_dose', arguments: ARGUMENTS } };
  const message = { content: null, tool_calls: [called, { ...called, id: 'call_2' }] };
  const server = await modelServer((response) => json(response, completion(message, 'tool_calls')));
  await clientOf(server.url, openaiFetch(log)).chat.completions.create(REQUEST);
  const all = await events();
  const [start, first, next, end] = all;
  expect(all.map(({ run_id }) => run_id)).toEqual(Array(4).fill(start?.event_id));
  const artifact = {
    artifact_type: 'tool_call',
    tool_name: 'find_dose',
    input_characters: ARGUMENTS.length,
  };
  const uri = `urn:uuid:${String(start?.run_id)}?=artifact=`;
  expect(first?.artifact).toEqual({ ...artifact, call_id: 'call_1', artifact_uri: `${uri}1` });
  expect(next?.artifact).toEqual({ ...artifact, call_id: 'call_2', artifact_uri: `${uri}2` });
  expect(end?.artifact).toMatchObject({ artifact_type: 'other', ending: 'complete', tool_calls: 2 });
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-1600] OpenAI: an answer is read by its form, not by the request', async () => {
  const [words, end] = [chunk({ content: SECRET }), chunk({}, 'stop')].map((each) => JSON.stringify(each));
  const WORDS_AND_END = `data: ${words ?? ''}|data: ${end ?? ''}|`;
  const whole = JSON.stringify(completion({ content: SECRET }, 'stop'));
  const bodies: [stream: boolean, type: string, body: string][] = [
    [true, 'application/json', whole],
    [true, 'text/event-stream', whole],
    [false, 'text/event-stream', `${WORDS_AND_END}data: [DONE]|`.replaceAll('|', '\n\n')],
    [true, 'text/event-stream', `: OPENROUTER PROCESSING||${WORDS_AND_END}`.replaceAll('|', '\r\n\r\n')],
    [
      true,
      'text/event-stream',
      `event: x|retry: 1|id: 2|${WORDS_AND_END}data:[DONE]|`.replaceAll('|', '\n\n'),
    ],
    [true, 'text/event-stream', `data: {no json}|${WORDS_AND_END}`.replaceAll('|', '\n\n')],
  ];
  for (const [streamed, type, body] of bodies) {
    const { log, events } = await recording();
    const server = await modelServer((response) => {
      response.writeHead(200, { 'content-type': type });
      response.end(body);
    });
    const request = { model: 'gpt-9', messages: [...MESSAGES], stream: streamed };
    const answer = await openaiFetch(log)(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify(request),
    });
    expect(await answer.text()).toBe(body);
    const [, output, ...more] = await events();
    expect(more).toEqual([]);
    expect([body, output?.output]).toMatchObject([body, { ending: 'complete', characters: SECRET.length }]);
  }
});

test('[R-1600] OpenAI: older completions are calls of a model', async () => {
  const { log, events } = await recording();
  const choices = [{ index: 0, text: SECRET, finish_reason: 'stop', logprobs: null }];
  const server = await modelServer((response) =>
    json(response, { ...chunkHead('text_completion'), choices }),
  );
  await clientOf(server.url, openaiFetch(log)).completions.create({ model: 'gpt-9', prompt: SECRET });
  const [start, output, ...more] = await events();
  expect(more).toEqual([]);
  expect(start).toMatchObject({ kind: 'inference-start', inputs: { message_count: 1, streamed: false } });
  expect(output?.output).toMatchObject({ ending: 'complete', characters: SECRET.length });
});

test('[R-865] OpenAI: a stream is not delayed, and becomes an output at its end', async () => {
  const { log, events } = await recording();
  const said = new EventEmitter();
  const waits = once(said, 'go on');
  const server = await modelServer(async (response) => {
    startStream(response);
    await stream(response, WHOLE.slice(0, 2));
    await waits;
    await stream(response, WHOLE.slice(2));
    response.end();
  });
  const chunks = await clientOf(server.url, openaiFetch(log)).chat.completions.create({
    ...REQUEST,
    stream: true,
  });
  let text = '';
  for await (const { choices } of chunks) {
    text += choices[0]?.delta.content ?? '';
    // The server waits until this has arrived.
    if (text === SECRET) said.emit('go on');
  }
  expect(text).toBe(`${SECRET}, treat.`);
  const [start, output, ...more] = await events();
  expect(more).toEqual([]);
  expect(start?.['inputs']).toMatchObject({ streamed: true });
  expect(output?.output).toMatchObject({
    ending: 'complete',
    characters: text.length,
    usage: { output_tokens: 7 },
  });
});

test('[R-865] OpenAI: retries belong to one run; each failure has its status, no message', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response, number) => {
    if (number === 1) return void response.destroy();
    if (number > 2) return json(response, completion({ content: 'yes' }, 'stop'));
    json(response, { error: { message: SECRET, type: 'rate_limit_exceeded' } }, 429);
  });
  const openai = clientOf(server.url, openaiFetch(log)).withOptions({ maxRetries: 2 });
  await openai.chat.completions.create(REQUEST);
  const all = await events();
  const [start, away, limited, output] = all;
  expect(all.map(({ run_id }) => run_id)).toEqual(Array(4).fill(start?.run_id));
  expect(away?.artifact).toMatchObject({ ending: 'failed', error_name: 'TypeError' });
  expect(limited?.artifact).toMatchObject({ ending: 'failed', status: 429 });
  expect(output).toMatchObject({ kind: 'human-output', output: { ending: 'complete' } });
  expect(all.map(({ system_metadata }) => system_metadata.instrumentation)).toEqual([
    { by: 'openai' },
    { by: 'openai' },
    { by: 'openai', attempt: 2 },
    { by: 'openai', attempt: 3, shown_by: 'default' },
  ]);
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] OpenAI: the error reaches the application unchanged', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response) =>
    json(response, { error: { message: 'no such model' } }, 404),
  );
  const call = (fetch?: typeof globalThis.fetch) =>
    clientOf(server.url, fetch).chat.completions.create(REQUEST);
  const plain: unknown = await call().catch((error: unknown) => error);
  const captured: unknown = await call(openaiFetch(log)).catch((error: unknown) => error);
  expect(captured).toBeInstanceOf(OpenAI.NotFoundError);
  expect(String(captured)).toBe(String(plain));
  const away = clientOf('http://127.0.0.1:1', openaiFetch(log));
  await expect(away.chat.completions.create(REQUEST)).rejects.toBeInstanceOf(OpenAI.APIConnectionError);
  const all = await events();
  expect(
    all.filter(({ kind }) => kind === 'internal-artifact').map(({ artifact }) => artifact),
  ).toMatchObject([
    { ending: 'failed', status: 404 },
    { ending: 'failed', error_name: 'TypeError' },
  ]);
});

test.each(['break', 'abort'] as const)(
  '[R-865] OpenAI: a stream that ends by %s has no output',
  async (how) => {
    const { log, events } = await recording();
    const server = await modelServer(async (response) => {
      startStream(response);
      await stream(response, WORDS);
    });
    const openai = clientOf(server.url, openaiFetch(log));
    const chunks = await openai.chat.completions.create({ ...REQUEST, stream: true });
    let text = '';
    for await (const { choices } of chunks) {
      text += choices[0]?.delta.content ?? '';
      if (how === 'break' && text !== '') break;
      if (how === 'abort' && text !== '') chunks.controller.abort();
    }
    const [, ended, ...more] = await eventually(async () => {
      const all = await events();
      return all.length > 1 ? all : undefined;
    });
    expect(more).toEqual([]);
    expect(ended?.artifact).toMatchObject({ artifact_type: 'other', ending: 'aborted' });
    expect(ended?.artifact?.['characters']).toBeGreaterThan(0);
    expect(JSON.stringify(ended)).not.toContain(SECRET);
  },
);

test('[R-865] OpenAI: other requests are not captured', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response) => json(response, { object: 'list', data: [] }));
  await clientOf(server.url, openaiFetch(log)).models.list();
  await clientOf(server.url, openaiFetch(log)).embeddings.create({ model: 'e', input: SECRET });
  expect(await events()).toEqual([]);
});
