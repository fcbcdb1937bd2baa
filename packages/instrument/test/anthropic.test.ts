import Anthropic from '@anthropic-ai/sdk';
import { expect, test } from 'vitest';
import { anthropicFetch } from '../src/anthropic.js';
import {
  eventually,
  expectMadeBy,
  json,
  modelServer,
  recording,
  SECRET,
  startStream,
  stream,
  streamed,
} from './recording.js';

const INPUT = { patient: SECRET };
const REQUEST = {
  ...{ model: 'claude-9', max_tokens: 100, messages: [{ role: 'user' as const, content: SECRET }] },
  tools: [{ name: 'find_dose', input_schema: { type: 'object' as const } }],
};
const HEAD = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-9-20260501',
  stop_sequence: null,
};
const MESSAGE = {
  ...{ ...HEAD, stop_reason: 'tool_use', usage: { input_tokens: 11, output_tokens: 7 } },
  content: [
    { type: 'thinking', thinking: SECRET, signature: 's' },
    { type: 'text', text: SECRET, citations: null },
    { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: INPUT },
    { type: 'tool_use', id: 'toolu_1', name: 'find_dose', input: INPUT },
  ],
};
const usage = { input_tokens: 11, output_tokens: 1 };
const START = { type: 'message_start', message: { ...HEAD, content: [], stop_reason: null, usage } };
const delta = (index: number, more: object) => ({ type: 'content_block_delta', index, delta: more });
const block = (index: number, content_block: object, ...deltas: readonly object[]) => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((each) => delta(index, each)),
  { type: 'content_block_stop', index },
];
const TEXT = [
  { type: 'text_delta', text: SECRET.slice(0, 5) },
  { type: 'text_delta', text: SECRET.slice(5) },
];
const ASKED = JSON.stringify(INPUT);
const END = [
  {
    type: 'message_delta',
    delta: { stop_reason: 'tool_use', stop_sequence: null },
    usage: { output_tokens: 7 },
  },
  { type: 'message_stop' },
];
const PIECES = [
  START,
  { type: 'ping' },
  ...block(
    0,
    { type: 'thinking', thinking: '', signature: '' },
    { type: 'thinking_delta', thinking: SECRET },
  ),
  ...block(1, { type: 'text', text: '' }, ...TEXT),
  ...block(
    2,
    { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
    { type: 'input_json_delta', partial_json: ASKED },
  ),
  ...block(
    3,
    { type: 'tool_use', id: 'toolu_1', name: 'find_dose', input: {} },
    { type: 'input_json_delta', partial_json: '' },
    { type: 'input_json_delta', partial_json: ASKED.slice(0, 7) },
    { type: 'input_json_delta', partial_json: ASKED.slice(7) },
  ),
  ...END,
];

function clientOf(baseURL: string, fetch?: typeof globalThis.fetch) {
  return new Anthropic({ apiKey: 'k', baseURL, maxRetries: 0, ...(fetch && { fetch }) });
}

test('[R-865] Anthropic: a message becomes a run with its tools, whole and streamed', async () => {
  const { log, events } = await recording();
  const server = await modelServer(async (response, number) => {
    if (number % 2 === 1) json(response, MESSAGE);
    else await streamed(response, PIECES);
  });
  const answers = async (fetch?: typeof globalThis.fetch) => {
    const anthropic = clientOf(server.url, fetch);
    return [
      await anthropic.messages.create(REQUEST),
      JSON.parse(JSON.stringify(await anthropic.messages.stream(REQUEST).finalMessage())) as unknown,
    ];
  };
  expect(await answers(anthropicFetch(log))).toEqual(await answers());
  expect(server.requests.slice(0, 2)).toEqual(server.requests.slice(2));
  const all = await events();
  expect(all).toHaveLength(10);
  for (const [streaming, run] of [all.slice(0, 5), all.slice(5)].entries()) {
    const [start, thinking, search, tool, output] = run;
    expect(run.map(({ run_id }) => run_id)).toEqual(Array(5).fill(start?.event_id));
    expect(start).toMatchObject({
      model_instance: { model_id: 'claude-9', provider: 'anthropic' },
      inputs: { message_count: 1, tool_count: 1, streamed: streaming === 1 },
    });
    expect(thinking?.artifact).toMatchObject({ artifact_type: 'reasoning_trace', characters: SECRET.length });
    const called = { artifact_type: 'tool_call', input_characters: ASKED.length };
    expect(search?.artifact).toMatchObject({ ...called, tool_name: 'web_search', call_id: 'srvtoolu_1' });
    expect(tool?.artifact).toMatchObject({ ...called, tool_name: 'find_dose', call_id: 'toolu_1' });
    expect(output).toMatchObject({
      kind: 'internal-artifact',
      artifact: {
        ...{ response_id: 'msg_1', response_model: 'claude-9-20260501', finish_reason: 'tool_use' },
        ...{ characters: SECRET.length, usage: { input_tokens: 11, output_tokens: 7 }, ending: 'complete' },
      },
    });
    expect(output?.system_metadata.latency_ms).toBeGreaterThanOrEqual(0);
  }
  expectMadeBy('anthropic', all);
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] Anthropic: a retry belongs to the run that it repeats', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response, number) =>
    number === 1 ? json(response, { type: 'error' }, 529) : json(response, MESSAGE),
  );
  const anthropic = clientOf(server.url, anthropicFetch(log)).withOptions({ maxRetries: 1 });
  await anthropic.messages.create(REQUEST);
  const all = await events();
  expect(new Set(all.map(({ run_id }) => run_id)).size).toBe(1);
  expect(all[1]?.artifact).toMatchObject({ ending: 'failed', status: 529 });
  expect(all.at(-1)).toMatchObject({
    system_metadata: { instrumentation: { by: 'anthropic', attempt: 2 } },
    artifact: { ending: 'complete' },
  });
});

test('[R-865] Anthropic: a failed call has its status and no message', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response) =>
    json(response, { type: 'error', error: { type: 'overloaded_error', message: SECRET } }, 529),
  );
  const call = (fetch?: typeof globalThis.fetch) => clientOf(server.url, fetch).messages.create(REQUEST);
  const plain: unknown = await call().catch((error: unknown) => error);
  const captured: unknown = await call(anthropicFetch(log)).catch((error: unknown) => error);
  expect(captured).toBeInstanceOf(Anthropic.APIError);
  expect(String(captured)).toBe(String(plain));
  const [, failed, ...more] = await events();
  expect(more).toEqual([]);
  expect(failed?.artifact).toMatchObject({ artifact_type: 'other', ending: 'failed', status: 529 });
  expect(JSON.stringify(failed)).not.toContain(SECRET);
});

test.each(['break', 'abort'] as const)(
  '[R-865] Anthropic: a stream that the application ends by %s has no output',
  async (how) => {
    const { log, events } = await recording();
    const server = await modelServer(async (response) => {
      startStream(response);
      await stream(response, [START, ...block(0, { type: 'text', text: '' }, ...TEXT)]);
    });
    const anthropic = clientOf(server.url, anthropicFetch(log));
    const pieces = await anthropic.messages.create({ ...REQUEST, stream: true });
    for await (const { type } of pieces) {
      if (type !== 'content_block_stop') continue;
      if (how === 'break') break;
      pieces.controller.abort();
    }
    const [, ended, ...more] = await eventually(async () => {
      const all = await events();
      return all.length > 1 ? all : undefined;
    });
    expect(more).toEqual([]);
    expect(ended?.artifact).toMatchObject({ ending: 'aborted', characters: SECRET.length });
    expect(JSON.stringify(ended)).not.toContain(SECRET);
  },
);

test('[R-865] Anthropic: other requests are not captured', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response) => json(response, { input_tokens: 3 }));
  await clientOf(server.url, anthropicFetch(log)).messages.countTokens(REQUEST);
  expect(await events()).toEqual([]);
});
