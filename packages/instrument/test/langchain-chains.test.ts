/** Which chains of LangChain become runs, their names, and the endings of failed calls. */
import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { Document } from '@langchain/core/documents';
import { AIMessage } from '@langchain/core/messages';
import { StringOutputParser } from '@langchain/core/output_parsers';
import type { ChatResult } from '@langchain/core/outputs';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { BaseRetriever } from '@langchain/core/retrievers';
import {
  type Runnable,
  RunnableEach,
  RunnableLambda,
  RunnableParallel,
  RunnablePassthrough,
  RunnableSequence,
} from '@langchain/core/runnables';
import { FakeListChatModel } from '@langchain/core/utils/testing';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RunCallbackHandler } from '../src/langchain.js';
import { recording, SECRET } from './recording.js';

const NO_MODEL = { provider: 'langchain' };

class Named extends BaseChatModel {
  readonly #errors: Error[];
  readonly modelName: string;
  readonly #json: string | undefined;

  constructor(modelName: string, { errors = [], json }: { errors?: Error[]; json?: string } = {}) {
    super({ maxRetries: 0 });
    this.modelName = modelName;
    this.#errors = errors;
    this.#json = json;
  }
  override _llmType(): string {
    return 'named';
  }
  override getLsParams() {
    return { ls_provider: 'ward', ls_model_name: this.modelName, ls_model_type: 'chat' as const };
  }
  override bindTools() {
    return this.withConfig({});
  }
  override _generate(): Promise<ChatResult> {
    const error = this.#errors.shift();
    if (error) return Promise.reject(error);
    const call = { id: 'c1', name: 'extract', args: { dose: SECRET } };
    const message =
      this.#json === undefined
        ? new AIMessage({ content: SECRET })
        : new AIMessage({ content: '', tool_calls: [call] });
    return Promise.resolve({ generations: [{ text: SECRET, message }] });
  }
}

class Shelf extends BaseRetriever {
  lc_namespace = ['test'];
  override _getRelevantDocuments(): Promise<Document[]> {
    return Promise.resolve([new Document({ pageContent: SECRET })]);
  }
}

const prompt = ChatPromptTemplate.fromTemplate('{question}');
const model = new Named('ward-model');
const parser = new StringOutputParser();
const asked = { question: SECRET };
const busy = () => Object.assign(new Error(SECRET), { status: 429 });

/** The record of one call: models of the starts, the number of each one's enclosing start, and endings. */
async function recorded(chain: Runnable, how: 'invoke' | 'stream' | 'batch' = 'invoke') {
  const { log, events } = await recording();
  const config = { callbacks: [new RunCallbackHandler(log)] };
  if (how === 'invoke') await chain.invoke(asked, config).catch(() => undefined);
  else if (how === 'batch') await chain.batch([asked, asked], config);
  else for await (const piece of await chain.stream(asked, config)) expect(piece).toBeDefined();
  const all = await events();
  expect(JSON.stringify(all)).not.toContain(SECRET);
  const starts = all.filter(({ kind }) => kind === 'inference-start');
  const ids = starts.map(({ event_id }) => event_id);
  return {
    models: starts.map((start) => start['model_instance']),
    parents: starts.map(({ parent_event_id }) => ids.indexOf(parent_event_id ?? '')),
    ends: all.flatMap(({ output, artifact }) => output?.['ending'] ?? artifact?.['ending'] ?? []),
    chunks: all.flatMap(({ run_id, artifact }) =>
      artifact?.['artifact_type'] === 'text_chunk'
        ? starts.findIndex((start) => start.run_id === run_id)
        : [],
    ),
  };
}

const ONE = { models: [{ model_id: 'ward-model', provider: 'ward' }], parents: [-1], chunks: [] };

describe('[R-1600] LangChain: of a chain around one model only the model is a run', () => {
  test.each([
    ['a sequence', prompt.pipe(model).pipe(parser)],
    ['withRetry', prompt.pipe(model.withRetry() as never)],
    ['withFallbacks', prompt.pipe(model.withFallbacks([new Named('other')]))],
    ['withFallbacks of sequences', prompt.pipe(model).withFallbacks([prompt.pipe(new Named('other'))])],
    ['withConfig', prompt.pipe(model).withConfig({ tags: ['ward'] })],
    ['a map', RunnableParallel.from({ answer: prompt.pipe(model) })],
    ['assign', RunnablePassthrough.assign({ answer: prompt.pipe(model) })],
    [
      'structured output',
      new Named('ward-model', { json: '' }).withStructuredOutput(z.object({ dose: z.string() }), {
        name: 'extract',
      }),
    ],
    [
      'structured output with the message',
      new Named('ward-model', { json: '' }).withStructuredOutput(z.object({ dose: z.string() }), {
        ...{ name: 'extract', includeRaw: true },
      }),
    ],
  ] as [string, Runnable][])('%s', async (_, chain) => {
    const call = chain;
    const structured = _.startsWith('structured');
    const seen = await recorded(structured ? prompt.pipe(call as never) : call);
    expect(seen).toMatchObject(ONE);
    expect(seen.ends).toHaveLength(1);
  });

  test('a stream and a batch', async () => {
    expect(await recorded(prompt.pipe(model).pipe(parser), 'stream')).toMatchObject(ONE);
    expect((await recorded(prompt.pipe(model), 'batch')).models).toEqual([...ONE.models, ...ONE.models]);
  });

  test('a chain without a model is not recorded', async () => {
    expect(await recorded(prompt.pipe(new StringOutputParser() as never))).toMatchObject({ models: [] });
  });
});

describe('[R-1600] LangChain: a chain that may call several models is a run without a model name', () => {
  test.each([
    [
      'a function',
      RunnableLambda.from((input: typeof asked, config) => prompt.pipe(model).invoke(input, config)),
      1,
    ],
    ['a sequence of models', prompt.pipe(model).pipe(parser).pipe(new Named('ward-model')), 2],
    ['a map of models', RunnableParallel.from({ a: prompt.pipe(model), b: prompt.pipe(model) }), 2],
    [
      'each',
      RunnableSequence.from([RunnableLambda.from(() => ['a', 'b']), new RunnableEach({ bound: model })]),
      2,
    ],
  ] as [string, Runnable, number][])('%s', async (_, chain, models) => {
    const seen = await recorded(chain);
    expect(seen.models).toEqual([NO_MODEL, ...Array<object>(models).fill(ONE.models[0] ?? {})]);
    expect(seen.parents).toEqual([-1, ...Array<number>(models).fill(0)]);
    expect(seen.ends).toEqual(Array(models + 1).fill('complete'));
  });

  test('a retriever and a model that gets its documents', async () => {
    const find = RunnableLambda.from(() => SECRET).pipe(new Shelf());
    const chain = RunnableSequence.from([{ question: find }, prompt, model, parser]);
    const seen = await recorded(chain as Runnable);
    expect(seen).toMatchObject({ models: [NO_MODEL, ONE.models[0]], parents: [-1, 0], chunks: [0] });
  });

  test('a chain named by the application has that name', async () => {
    const chain = prompt.pipe(model).withConfig({ runName: 'Ward triage' });
    const seen = await recorded(chain);
    expect(seen.models).toEqual([{ model_id: 'Ward triage', provider: 'langchain' }, ONE.models[0]]);
    expect(seen.parents).toEqual([-1, 0]);
  });

  test('names of LangChain and LangGraph do not count', async () => {
    const { log, events } = await recording();
    const handler = new RunCallbackHandler(log);
    const graph = ['langgraph', 'pregel', 'CompiledStateGraph'];
    const begin = (id: string, name: string | undefined, kind: string[]) => {
      handler.handleChainStart({ id: kind }, {}, id, undefined, [], {}, undefined, name);
    };
    begin('1', 'LangGraph', graph);
    begin('2', undefined, ['langchain', 'agents', 'AgentExecutor']);
    begin('3', 'ward rounds', graph);
    begin('4', '\n', graph);
    const starts = (await events()).map((start) => start['model_instance']);
    expect(starts).toEqual([NO_MODEL, NO_MODEL, { model_id: 'ward rounds', ...NO_MODEL }, NO_MODEL]);
  });
});

describe('[R-1600] LangChain: attempts', () => {
  test('a failing model and its fallback are two runs', async () => {
    const first = new Named('ward-model', { errors: [busy()] });
    const { models, ends } = await recorded(prompt.pipe(first.withFallbacks([new Named('other')])));
    expect(models).toMatchObject([{ model_id: 'ward-model' }, { model_id: 'other' }]);
    expect(ends).toEqual(['failed', 'complete']);
  });

  test('withRetry of a model, or of a chain around it, repeats within the run', async () => {
    const once = () => new Named('ward-model', { errors: [busy()] });
    for (const chain of [
      prompt.pipe(once().withRetry({ stopAfterAttempt: 2 }) as never),
      prompt.pipe(once()).withRetry({ stopAfterAttempt: 2 }),
    ])
      expect(await recorded(chain as Runnable)).toMatchObject({ ...ONE, ends: ['failed', 'complete'] });
  });
});

describe('[R-1600] LangChain: endings of incomplete calls', () => {
  const named = (name: string, more: object = {}) => Object.assign(new Error(SECRET), { name, ...more });
  class APIConnectionTimeoutError extends Error {}
  class APIUserAbortError extends Error {}
  const socket = new TypeError('fetch failed', {
    cause: Object.assign(new Error('x'), { code: 'UND_ERR_HEADERS_TIMEOUT' }),
  });
  const inStream = named('Error', { error: { type: 'error', error: { type: 'overloaded_error' } } });
  const timeUp = AbortSignal.abort(named('TimeoutError'));
  const stopped = AbortSignal.abort(SECRET);

  test.each([
    ['a status', busy(), undefined, { ending: 'failed', error_name: 'Error', status: 429 }],
    [
      'a time limit of the SDK',
      new APIConnectionTimeoutError(SECRET),
      undefined,
      { ending: 'failed', error_name: 'TimeoutError' },
    ],
    ['a time limit of undici', socket, undefined, { ending: 'failed', error_name: 'TimeoutError' }],
    [
      'a time limit of the call',
      named('AbortError'),
      timeUp,
      { ending: 'failed', error_name: 'TimeoutError' },
    ],
    ['an abort', named('AbortError'), undefined, { ending: 'aborted' }],
    ['an abort of LangChain', named('ModelAbortError'), undefined, { ending: 'aborted' }],
    ['an abort of an SDK', new APIUserAbortError(SECRET), undefined, { ending: 'aborted' }],
    ['an abort with a reason', new Error(SECRET), stopped, { ending: 'aborted' }],
    ['an abort without a reason', new Error('Aborted'), undefined, { ending: 'aborted' }],
    [
      'an error of status 200',
      named('Error', { status: 200 }),
      undefined,
      { ending: 'failed', error_name: 'Error' },
    ],
    ['an error in a stream', inStream, undefined, { ending: 'failed', error_name: 'overloaded_error' }],
    ['an interrupt', named('GraphInterrupt', { is_bubble_up: true }), undefined, { ending: 'unfinished' }],
    ['no error', SECRET, undefined, { ending: 'failed', error_name: 'unknown' }],
  ] as [string, unknown, AbortSignal | undefined, object][])('%s', async (_, error, signal, expected) => {
    const { log, events } = await recording();
    const handler = new RunCallbackHandler(log);
    handler.handleChatModelStart({}, [[]], 'm', undefined, { options: { signal } });
    handler.handleLLMError(error, 'm');
    const [, end, ...more] = await events();
    expect(more).toEqual([]);
    const { status, ...facts } = expected as Record<string, unknown>;
    expect(end?.artifact).toMatchObject(facts);
    expect(end?.artifact?.['status']).toBe(status);
    expect(JSON.stringify(end)).not.toContain(SECRET);
  });

  test('a call with a time limit and an aborted one, through a model', async () => {
    const { log, events } = await recording();
    const slow = new FakeListChatModel({ responses: ['a long answer'], sleep: 200 });
    const callbacks = [new RunCallbackHandler(log)];
    const read = async (config: object) => {
      for await (const piece of await slow.stream('p', { ...config, callbacks })) expect(piece).toBeDefined();
    };
    await expect(read({ timeout: 20 })).rejects.toThrow();
    await expect(read({ signal: AbortSignal.timeout(20) })).rejects.toThrow();
    const abort = new AbortController();
    setTimeout(() => abort.abort(), 20);
    await expect(read({ signal: abort.signal })).rejects.toThrow();
    await expect.poll(async () => (await events()).length).toBe(6);
    const ends = (await events()).flatMap(({ artifact }) => artifact ?? []);
    expect(ends).toMatchObject([
      ...Array<object>(2).fill({ ending: 'failed', error_name: 'TimeoutError' }),
      { ending: 'aborted' },
    ]);
  });

  test('a graph that waits for a person is unfinished, and one that hands over is complete', async () => {
    const { log, events } = await recording();
    const handler = new RunCallbackHandler(log);
    const begin = (id: string, parent?: string) => {
      handler.handleChainStart({ id: ['LangGraph'] }, {}, id, parent, [], {}, undefined, 'LangGraph');
    };
    for (const name of ['GraphInterrupt', 'NodeInterrupt']) {
      begin(name);
      begin(`${name}-node`, name);
      handler.handleChainError(named(name, { is_bubble_up: true }), `${name}-node`);
      handler.handleChainEnd({}, name);
    }
    begin('tool');
    handler.handleToolStart({}, '', 'tool-1', 'tool');
    handler.handleToolError(named('GraphInterrupt'), 'tool-1');
    handler.handleChainEnd({ messages: [] }, 'tool');
    begin('said');
    handler.handleInterrupt({ runId: 'said', interrupts: [] });
    handler.handleChainEnd({}, 'said');
    begin('outputs');
    handler.handleChainEnd({ __interrupt__: [{ value: SECRET }] }, 'outputs');
    begin('over');
    handler.handleChainError(named('ParentCommand', { is_bubble_up: true }), 'over');
    begin('fails');
    handler.handleChainError(named('GraphRecursionError'), 'fails');
    const ends = (await events()).flatMap(({ artifact }) => artifact?.['ending'] ?? []);
    expect(ends).toEqual([...Array<string>(5).fill('unfinished'), 'complete', 'failed']);
  });
});

test('[R-1600] LangChain: a malformed result is not read, and a repeated end counts once', async () => {
  const { log, events } = await recording();
  const handler = new RunCallbackHandler(log);
  handler.handleChatModelStart({}, [[]], 'm');
  for (let times = 0; times < 2; times++) handler.handleLLMEnd({ generations: null }, 'm');
  handler.handleChatModelStart({}, [[]], 'n');
  handler.handleLLMNewToken('', {}, 'n');
  handler.handleLLMEnd({ generations: [[undefined]] }, 'n');
  expect((await events()).flatMap(({ artifact }) => artifact?.['ending'] ?? [])).toEqual([
    'not read',
    'cut off',
  ]);
});

describe('[R-1600] LangChain: the requested model', () => {
  test.each([
    [{ ls_model_name: 'Ward Model 7B (Q4)' }, {}, {}, 'Ward Model 7B (Q4)'],
    [{}, { model: 'ward-model' }, {}, 'ward-model'],
    [{}, { model_name: 'ward-model' }, {}, 'ward-model'],
    [{ ls_model_name: '' }, { modelId: 'ward.model-v1:0' }, {}, 'ward.model-v1:0'],
    [{}, { deployment: 'ward deployment' }, {}, 'ward deployment'],
    [{}, {}, { model: 'ward-model' }, 'ward-model'],
    [{ ls_model_name: 'two\nlines' }, {}, {}, 'WardModel'],
    [undefined, undefined, undefined, 'WardModel'],
  ])('%j, %j, %j: %s', async (metadata, invocation_params, kwargs, expected) => {
    const { log, events } = await recording();
    const serialized = { id: ['ward', 'WardModel'], kwargs };
    const extra = { invocation_params } as Record<string, unknown>;
    new RunCallbackHandler(log).handleChatModelStart(serialized, [[]], 'm', undefined, extra, [], metadata);
    expect((await events())[0]).toMatchObject({ model_instance: { model_id: expected } });
  });
});

test('[R-1600] LangChain: the handler never throws', async () => {
  const { log, events } = await recording();
  const handler = new RunCallbackHandler(log);
  const hostile: unknown = new Proxy(() => undefined, {
    ...{
      get: () => {
        throw new Error(SECRET);
      },
      has: () => {
        throw new Error(SECRET);
      },
    },
    ownKeys: () => {
      throw new Error(SECRET);
    },
  });
  const circle: Record<string, unknown> = {};
  circle['kwargs'] = circle['bound'] = circle['config'] = circle;
  for (const value of [hostile, circle, null, undefined, 7, [], { message: hostile }]) {
    for (const each of Object.values(handler) as unknown[]) {
      if (typeof each !== 'function') continue;
      for (const args of [
        [value],
        [value, value, 'id', value, value, value, value],
        [value, 'id'],
        [{}, [[value]], 'id'],
      ])
        expect(() => (each as (...all: unknown[]) => unknown)(...args)).not.toThrow();
    }
    const generations = [
      [
        {
          text: value,
          message: {
            content: [value],
            tool_calls: [value, { args: circle }],
            additional_kwargs: value,
            response_metadata: value,
          },
        },
      ],
    ];
    handler.handleChatModelStart({}, [[]], 'm');
    handler.handleLLMEnd({ generations }, 'm');
  }
  expect(JSON.stringify(await events())).not.toContain(SECRET);
});
