import {
  APICallError,
  generateText,
  simulateReadableStream,
  stepCountIs,
  streamText,
  tool,
  wrapLanguageModel,
} from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { captureMiddleware, type RunsIn } from '../src/ai-sdk.js';
import { expectMadeBy, recording, SECRET } from './recording.js';

const usage = {
  inputTokens: { total: 11, noCache: 11, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 7, text: 7, reasoning: 0 },
};
const INPUT = JSON.stringify({ patient: SECRET });
const CALLED = { type: 'tool-call', toolCallId: 'call_1', toolName: 'findDose', input: INPUT } as const;
const TOOLS_WANTED = { finishReason: { unified: 'tool-calls', raw: 'tool_use' }, usage } as const;
const STOPPED = { finishReason: { unified: 'stop', raw: 'end' }, usage } as const;
const response = { id: 'r1', modelId: 'm-2026', timestamp: new Date(0) };
const tools = {
  findDose: tool({
    inputSchema: z.object({ patient: z.string() }),
    execute: () => Promise.resolve({ dose: SECRET }),
  }),
};

type Generate = NonNullable<ConstructorParameters<typeof MockLanguageModelV4>[0]>['doGenerate'];
type Stream = Extract<
  NonNullable<ConstructorParameters<typeof MockLanguageModelV4>[0]>['doStream'],
  readonly unknown[]
>[number];
type Parts = Stream extends { stream: ReadableStream<infer P> } ? P[] : never;

function modelOf(runs: RunsIn | undefined, mock: MockLanguageModelV4) {
  return runs ? wrapLanguageModel({ model: mock, middleware: captureMiddleware(runs) }) : mock;
}

const generating = (doGenerate: NonNullable<Generate>) =>
  new MockLanguageModelV4({ modelId: 'm', doGenerate });

function streaming(...streams: readonly Parts[]) {
  const doStream = streams.map((chunks) => ({
    stream: simulateReadableStream({ chunks, chunkDelayInMs: 1 }),
  }));
  return new MockLanguageModelV4({ modelId: 'm', doStream });
}

const words = (...texts: readonly string[]): Parts => [
  { type: 'stream-start', warnings: [] },
  { type: 'response-metadata', ...response },
  { type: 'reasoning-start', id: '0' },
  { type: 'reasoning-delta', id: '0', delta: SECRET },
  { type: 'reasoning-end', id: '0' },
  { type: 'text-start', id: '1' },
  ...texts.map((delta) => ({ type: 'text-delta' as const, id: '1', delta })),
];

test('[R-865] AI SDK: each step with tools becomes a run, nested in that of the agent', async () => {
  const { log, events } = await recording();
  const steps = () =>
    generating([
      { ...TOOLS_WANTED, content: [{ type: 'reasoning', text: SECRET }, CALLED], warnings: [], response },
      { ...STOPPED, content: [{ type: 'text', text: SECRET }], warnings: [], response },
    ]);
  const agent = log.startRun({ model: { model_id: 'agent' } });
  const answers = async (runs?: RunsIn) => {
    const asked = { prompt: SECRET, tools, stopWhen: stepCountIs(3) };
    const { text, steps: taken } = await generateText({ model: modelOf(runs, steps()), ...asked });
    return { text, content: taken.map(({ content }) => content) };
  };
  expect(await answers(agent)).toEqual(await answers());
  const all = (await events()).slice(1);
  const [first, reasoning, called, wanted, second, output, ...more] = all;
  expect(more).toEqual([]);
  expect(first).toMatchObject({
    kind: 'inference-start',
    parent_event_id: agent.startEventId,
    model_instance: { model_id: 'm', provider: 'mock-provider' },
    inputs: { message_count: 1, tool_count: 1, streamed: false },
    system_metadata: { instrumentation: { by: 'ai-sdk' } },
  });
  expect(reasoning?.artifact).toMatchObject({ artifact_type: 'reasoning_trace', characters: SECRET.length });
  expect(called?.artifact).toMatchObject({
    ...{
      artifact_type: 'tool_call',
      tool_name: 'findDose',
      call_id: 'call_1',
      input_characters: INPUT.length,
    },
  });
  expect(wanted?.artifact).toMatchObject({
    artifact_type: 'other',
    finish_reason: 'tool-calls',
    ending: 'complete',
  });
  expect(second).toMatchObject({ parent_event_id: agent.startEventId, inputs: { message_count: 3 } });
  expect(output).toMatchObject({
    ...{ kind: 'human-output', run_id: second?.run_id },
    output: {
      ...{ response_id: 'r1', response_model: 'm-2026', finish_reason: 'stop', characters: SECRET.length },
      usage: { input_tokens: 11, output_tokens: 7 },
    },
  });
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] AI SDK: a stream with tools gives the same and is not delayed', async () => {
  const { log, events } = await recording();
  const steps = () =>
    streaming(
      [...words(), CALLED, { type: 'finish', ...TOOLS_WANTED }],
      [
        ...words(SECRET.slice(0, 3), SECRET.slice(3)),
        { type: 'text-end', id: '1' },
        { type: 'finish', ...STOPPED },
      ],
    );
  const parts = async (runs?: RunsIn) => {
    const { stream } = streamText({
      ...{ model: modelOf(runs, steps()), prompt: SECRET, tools, stopWhen: stepCountIs(3) },
    });
    const seen: string[] = [];
    for await (const part of stream) seen.push(part.type === 'text-delta' ? part.text : part.type);
    return seen;
  };
  expect(await parts(log)).toEqual(await parts());
  const all = await events();
  expect(all.map(({ kind }) => kind)).toEqual([
    ...['inference-start', 'internal-artifact', 'internal-artifact', 'internal-artifact'],
    ...['inference-start', 'internal-artifact', 'human-output'],
  ]);
  expect(all[2]?.artifact).toMatchObject({
    artifact_type: 'tool_call',
    tool_name: 'findDose',
    call_id: 'call_1',
  });
  expect(all[6]?.output).toMatchObject({ ending: 'complete', characters: SECRET.length, response_id: 'r1' });
  expect(all[6]?.system_metadata.latency_ms).toBeGreaterThanOrEqual(5);
  expectMadeBy('ai-sdk', all);
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] AI SDK: an error reaches the application unchanged, the run has its name', async () => {
  const { log, events } = await recording();
  const wrong = new RangeError(SECRET);
  const generate = () => Promise.reject(wrong);
  const model = modelOf(log, new MockLanguageModelV4({ doGenerate: generate, doStream: generate }));
  await expect(generateText({ model, prompt: 'p', maxRetries: 0 })).rejects.toBe(wrong);
  const errors: unknown[] = [];
  const onError = ({ error }: { error: unknown }) => void errors.push(error);
  await streamText({ model, prompt: 'p', maxRetries: 0, onError }).consumeStream();
  const broken = modelOf(log, streaming([...words(SECRET), { type: 'error', error: wrong }]));
  await streamText({ model: broken, prompt: 'p', maxRetries: 0, onError }).consumeStream();
  expect(errors).toEqual([wrong, wrong]);
  const all = await events();
  const ends = all
    .filter(({ artifact }) => artifact?.['artifact_type'] === 'other')
    .map(({ artifact }) => artifact);
  expect(ends).toMatchObject(Array(3).fill({ ending: 'failed', error_name: 'RangeError' }));
  expect(all.some(({ kind }) => kind === 'human-output')).toBe(false);
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] [R-897] AI SDK: a retry belongs to the run that it repeats, a new call does not', async () => {
  const { log, events } = await recording();
  let calls = 0;
  const busy = () => {
    if (calls++ > 0)
      return Promise.resolve({
        ...STOPPED,
        content: [{ type: 'text' as const, text: SECRET }],
        warnings: [],
        response,
      });
    const facts = { message: SECRET, url: 'http://model', requestBodyValues: {}, statusCode: 429 };
    return Promise.reject(new APICallError({ ...facts, responseHeaders: { 'retry-after-ms': '1' } }));
  };
  const model = wrapLanguageModel({
    model: generating(busy),
    middleware: captureMiddleware(log, { shown: ({ runId }) => runId === undefined }),
  });
  await generateText({ model, prompt: 'p', maxRetries: 1 });
  await generateText({ model, prompt: 'p', maxRetries: 1 });
  const all = await events();
  const [start, failed, ended, next] = all;
  expect(failed).toMatchObject({ run_id: start?.run_id, artifact: { ending: 'failed', status: 429 } });
  expect(ended).toMatchObject({
    run_id: start?.run_id,
    system_metadata: { instrumentation: { by: 'ai-sdk', attempt: 2 } },
    artifact: { ending: 'complete', response_model: 'm-2026' },
  });
  expect(next).toMatchObject({
    kind: 'inference-start',
    system_metadata: { instrumentation: { by: 'ai-sdk' } },
  });
  expect(JSON.stringify(all)).not.toContain(SECRET);
});
