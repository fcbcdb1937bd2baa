/**
 * The oldest and the newest version of each library, and majors between them. `tsc` checks that the
 * instrumentations fit the types of these SDKs, which src/ does not import.
 */
import fs from 'node:fs';
import path from 'node:path';
import { context, trace, type Tracer } from '@opentelemetry/api';
import Anthropic from '@anthropic-ai/sdk';
import Anthropic020 from 'anthropic-0.20';
import Anthropic060 from 'anthropic-0.60';
import { FakeListChatModel } from '@langchain/core/utils/testing';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { ChatPromptTemplate as ChatPromptTemplate02 } from 'langchain-core-0.2/prompts';
import { FakeListChatModel as FakeListChatModel02 } from 'langchain-core-0.2/utils/testing';
import { ChatPromptTemplate as ChatPromptTemplate03 } from 'langchain-core-0.3/prompts';
import { FakeListChatModel as FakeListChatModel03 } from 'langchain-core-0.3/utils/testing';
import { TracerProvider } from '@opentelemetry/sdk-trace';
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
import { BasicTracerProvider as BasicTracerProvider1 } from 'opentelemetry-trace-1.19';
import { TracerProvider as TracerProvider29 } from 'opentelemetry-trace-2.9';
import * as ai from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import * as ai5 from 'ai-5';
import { MockLanguageModelV2 } from 'ai-5/test';
import * as ai6 from 'ai-6';
import { MockLanguageModelV3 } from 'ai-6/test';
import OpenAI from 'openai';
import OpenAI4 from 'openai-4';
import OpenAI5 from 'openai-5';
import OpenAI6 from 'openai-6';
import { expect, test } from 'vitest';
import { captureMiddleware } from '../src/ai-sdk.js';
import { anthropicFetch } from '../src/anthropic.js';
import { RunCallbackHandler } from '../src/langchain.js';
import { openaiFetch } from '../src/openai.js';
import { RunSpanProcessor } from '../src/opentelemetry.js';
import { json, modelServer, recording, SECRET, streamed } from './recording.js';

const PACKAGE = path.resolve(import.meta.dirname, '..');
const FACTS = {
  ...{ ending: 'complete', response_id: 'r1', response_model: 'm-2026', finish_reason: 'stop' },
  usage: { input_tokens: 11, output_tokens: 7 },
};
const OUTPUT = { ...FACTS, characters: SECRET.length };

interface Manifest {
  readonly dependencies: object;
  readonly peerDependencies?: object;
  readonly devDependencies: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(fs.readFileSync(path.join(PACKAGE, 'package.json'), 'utf8')) as Manifest;

test('[R-865] the oldest supported version of each library is tested, and a newer one', () => {
  const spec = fs.readFileSync(path.join(PACKAGE, '../../docs/reference/instrumentation.md'), 'utf8');
  const [table = ''] = /(^\| `@clinical-events\/instrument\/.*\n)+/m.exec(spec) ?? [];
  const libraries = [...table.matchAll(/`([^`]+)` from ([\d.]+)/g)];
  expect(libraries).toHaveLength(6);
  for (const [, name = '', oldest] of libraries) {
    const tested = Object.entries(manifest.devDependencies).flatMap(([alias, version]) => {
      if (alias === name) return [version];
      return version.startsWith(`npm:${name}@`) ? [version.slice(`npm:${name}@`.length)] : [];
    });
    expect(tested.filter((version) => version.replace(/(\.0)+$/, '') === oldest)).toHaveLength(1);
    expect(tested.length).toBeGreaterThan(1);
  }
});

test('[R-865] the package neither depends on a captured library nor imports its types', () => {
  expect(manifest.peerDependencies).toBeUndefined();
  expect(Object.keys(manifest.dependencies)).toEqual([
    ...['@clinical-events/client', '@clinical-events/protocol'],
  ]);
  const directory = path.join(PACKAGE, 'src');
  for (const file of fs.readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const code = fs.readFileSync(path.join(directory, file), 'utf8');
    const imported = [...code.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, name]) => name);
    expect(
      imported.filter((name) => !/^(\.|node:|@clinical-events\/(client|protocol\/spans$))/.test(name ?? '')),
    ).toEqual([]);
  }
});

type Fetch = ReturnType<typeof openaiFetch>;
const MESSAGES = [{ role: 'user' as const, content: SECRET }];

test.each([
  ['4', (baseURL: string, fetch: Fetch) => new OpenAI4({ apiKey: 'k', baseURL, fetch })],
  ['5', (baseURL: string, fetch: Fetch) => new OpenAI5({ apiKey: 'k', baseURL, fetch })],
  ['6', (baseURL: string, fetch: Fetch) => new OpenAI6({ apiKey: 'k', baseURL, fetch })],
  ['7', (baseURL: string, fetch: Fetch) => new OpenAI({ apiKey: 'k', baseURL, fetch })],
] as const)('[R-865] OpenAI %s: a completion, whole and in a stream, becomes an output', async (_, made) => {
  const { log, events } = await recording();
  const head = { id: 'r1', created: 1, model: 'm-2026' };
  const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
  const server = await modelServer(async (response, request) => {
    const message = { role: 'assistant', content: SECRET };
    const choice = { index: 0, finish_reason: 'stop' };
    if (request === 1)
      json(response, { ...head, object: 'chat.completion', choices: [{ ...choice, message }], usage });
    else {
      const object = 'chat.completion.chunk';
      const chunk = { ...head, object, choices: [{ ...choice, delta: message }], usage };
      await streamed(response, [chunk, '[DONE]']);
    }
  });
  const openai = made(`${server.url}/v1`, openaiFetch(log)) as OpenAI;
  const asked = { model: 'm', messages: MESSAGES };
  expect((await openai.chat.completions.create(asked)).choices[0]?.message.content).toBe(SECRET);
  let text = '';
  for await (const { choices } of await openai.chat.completions.create({ ...asked, stream: true }))
    text += choices[0]?.delta.content ?? '';
  expect(text).toBe(SECRET);
  const outputs = (await events()).flatMap(({ output }) => output ?? []);
  expect(outputs).toMatchObject([OUTPUT, OUTPUT]);
});

test.each([
  ['0.20', (baseURL: string, fetch: Fetch) => new Anthropic020({ apiKey: 'k', baseURL, fetch })],
  ['0.60', (baseURL: string, fetch: Fetch) => new Anthropic060({ apiKey: 'k', baseURL, fetch })],
  ['1', (baseURL: string, fetch: Fetch) => new Anthropic({ apiKey: 'k', baseURL, fetch })],
] as const)('[R-865] Anthropic %s: a message, whole and in a stream, becomes an output', async (_, made) => {
  const { log, events } = await recording();
  const message = { id: 'r1', type: 'message', role: 'assistant', model: 'm-2026' };
  const usage = { input_tokens: 11, output_tokens: 7 };
  const server = await modelServer(async (response, request) => {
    const content = [{ type: 'text', text: SECRET }];
    if (request === 1) json(response, { ...message, content, stop_reason: 'stop', usage });
    else {
      const delta = { type: 'text_delta', text: SECRET };
      await streamed(response, [
        { type: 'message_start', message: { ...message, content: [], usage } },
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        { type: 'content_block_delta', index: 0, delta },
        { type: 'message_delta', delta: { stop_reason: 'stop' }, usage: { output_tokens: 7 } },
        { type: 'message_stop' },
      ]);
    }
  });
  const anthropic = made(server.url, anthropicFetch(log)) as Anthropic;
  const asked = { model: 'm', max_tokens: 9, messages: MESSAGES };
  expect((await anthropic.messages.create(asked)).content).toEqual([{ type: 'text', text: SECRET }]);
  let text = '';
  for await (const event of await anthropic.messages.create({ ...asked, stream: true }))
    if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
  expect(text).toBe(SECRET);
  const outputs = (await events()).flatMap(({ output }) => output ?? []);
  expect(outputs).toMatchObject([OUTPUT, OUTPUT]);
});

const response = { id: 'r1', modelId: 'm-2026', timestamp: new Date(0) };
const content = [{ type: 'text' as const, text: SECRET }];
const parts = [
  { type: 'stream-start' as const, warnings: [] },
  { type: 'response-metadata' as const, ...response },
  { type: 'text-start' as const, id: '1' },
  { type: 'text-delta' as const, id: '1', delta: SECRET },
  { type: 'text-end' as const, id: '1' },
];
const flat = {
  finishReason: 'stop' as const,
  usage: { inputTokens: 11, outputTokens: 7, totalTokens: 18 },
};
const nested = {
  finishReason: { unified: 'stop' as const, raw: 'end' },
  usage: {
    inputTokens: { total: 11, noCache: 11, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 7, text: 7, reasoning: 0 },
  },
};
const whole = <End>(end: End) => ({ ...end, content, warnings: [], response });
const inParts = <End>(sdk: { simulateReadableStream: typeof ai.simulateReadableStream }, end: End) => ({
  stream: sdk.simulateReadableStream({ chunks: [...parts, { type: 'finish' as const, ...end }] }),
});
type Middleware = ReturnType<typeof captureMiddleware>;

test.each([
  [
    '5',
    async (middleware: Middleware) => {
      const mock = new MockLanguageModelV2({ doGenerate: whole(flat), doStream: inParts(ai5, flat) });
      const asked = { model: ai5.wrapLanguageModel({ model: mock, middleware }), prompt: SECRET };
      const stream = ai5.streamText(asked);
      await stream.consumeStream();
      return [(await ai5.generateText(asked)).text, await stream.text];
    },
  ],
  [
    '6',
    async (middleware: Middleware) => {
      const mock = new MockLanguageModelV3({ doGenerate: whole(nested), doStream: inParts(ai6, nested) });
      const asked = { model: ai6.wrapLanguageModel({ model: mock, middleware }), prompt: SECRET };
      const stream = ai6.streamText(asked);
      await stream.consumeStream();
      return [(await ai6.generateText(asked)).text, await stream.text];
    },
  ],
  [
    '7',
    async (middleware: Middleware) => {
      const mock = new MockLanguageModelV4({ doGenerate: whole(nested), doStream: inParts(ai, nested) });
      const asked = { model: ai.wrapLanguageModel({ model: mock, middleware }), prompt: SECRET };
      const stream = ai.streamText(asked);
      await stream.consumeStream();
      return [(await ai.generateText(asked)).text, await stream.text];
    },
  ],
] as const)('[R-865] AI SDK %s: an answer, whole and in a stream, becomes an output', async (_, answers) => {
  const { log, events } = await recording();
  expect(await answers(captureMiddleware(log))).toEqual([SECRET, SECRET]);
  const outputs = (await events()).flatMap(({ output }) => output ?? []);
  expect(outputs).toMatchObject([OUTPUT, OUTPUT]);
});

const TEMPLATE = '{question}';
const ASKED = { question: SECRET };
const responses = [SECRET];
const NAMED = { runName: 'triage' };
type Callbacks = Pick<RunCallbackHandler, keyof RunCallbackHandler>;

test.each([
  [
    '0.2',
    (callbacks: [Callbacks]) =>
      ChatPromptTemplate02.fromTemplate(TEMPLATE)
        .pipe<FakeListChatModel02>(new FakeListChatModel02({ responses }) as never)
        .withConfig(NAMED)
        .invoke(ASKED, { callbacks }),
  ],
  [
    '0.3',
    (callbacks: [Callbacks]) =>
      ChatPromptTemplate03.fromTemplate(TEMPLATE)
        .pipe(new FakeListChatModel03({ responses }))
        .withConfig(NAMED)
        .invoke(ASKED, { callbacks }),
  ],
  [
    '1',
    (callbacks: [Callbacks]) =>
      ChatPromptTemplate.fromTemplate(TEMPLATE)
        .pipe(new FakeListChatModel({ responses }))
        .withConfig(NAMED)
        .invoke(ASKED, { callbacks }),
  ],
] as const)('[R-865] LangChain %s: a chain and its model become nested runs', async (_, ask) => {
  const { log, events } = await recording();
  // The second is made by an application that adds its own callbacks.
  for (const handler of [new RunCallbackHandler(log), Object.assign({}, new RunCallbackHandler(log))])
    expect(await ask([handler])).toMatchObject({ content: SECRET });
  const all = await events();
  const starts = all.filter(({ kind }) => kind === 'inference-start');
  expect(starts).toHaveLength(4);
  for (const at of [0, 2]) expect(starts[at + 1]?.parent_event_id).toBe(starts[at]?.event_id);
  const outputs = all.flatMap(({ output }) => output ?? []);
  expect(outputs).toMatchObject(Array(2).fill({ ending: 'complete', characters: SECRET.length }));
});

test.each([
  [
    'trace base 1.19',
    (processor: RunSpanProcessor): Tracer => {
      const provider = new BasicTracerProvider1();
      provider.addSpanProcessor(processor);
      return provider.getTracer('test');
    },
  ],
  [
    'trace base 2',
    (processor: RunSpanProcessor): Tracer =>
      new BasicTracerProvider({ spanProcessors: [processor] }).getTracer('test'),
  ],
  [
    'trace 2.9',
    (processor: RunSpanProcessor): Tracer =>
      new TracerProvider29({ spanProcessors: [processor] }).getTracer('test'),
  ],
  [
    'trace 3',
    (processor: RunSpanProcessor): Tracer =>
      new TracerProvider({ spanProcessors: [processor] }).getTracer('test'),
  ],
] as const)('[R-865] OpenTelemetry SDK %s: nested spans become nested runs', async (_, tracer) => {
  const { log, events } = await recording();
  const spans = tracer(new RunSpanProcessor(log));
  const agent = spans.startSpan('a', { attributes: { 'gen_ai.operation.name': 'invoke_agent' } });
  const within = trace.setSpan(context.active(), agent);
  const chat = spans.startSpan('c', { attributes: { 'gen_ai.operation.name': 'chat' } }, within);
  chat.setAttributes({
    ...{ 'gen_ai.response.id': 'r1', 'gen_ai.response.model': 'm-2026' },
    ...{ 'gen_ai.response.finish_reasons': ['stop'], 'gen_ai.usage.input_tokens': 11 },
    'gen_ai.usage.output_tokens': 7,
  });
  chat.end();
  agent.end();
  const [outer, inner, output] = await events();
  expect(inner).toMatchObject({ kind: 'inference-start', parent_event_id: outer?.event_id });
  expect(output).toMatchObject({ kind: 'human-output', run_id: inner?.run_id, output: FACTS });
});
