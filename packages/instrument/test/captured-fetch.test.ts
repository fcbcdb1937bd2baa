import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import type { Client, Run } from '@clinical-events/client';
import { expect, expectTypeOf, test, vi } from 'vitest';
import { openaiFetch, type DescribedCall, type FetchOptions, type RunsIn } from '../src/openai.js';
import { json, modelServer, recording, SECRET } from './recording.js';

/** The fetch as an application calls it, without an SDK. */
const capturing = (...given: Parameters<typeof openaiFetch>): typeof fetch => openaiFetch(...given);

const PATH = '/v1/chat/completions';
const QUESTION = 'What does she have?';
const POST = {
  method: 'POST',
  body: JSON.stringify({ model: 'gpt-9', messages: [{ role: 'user', content: QUESTION }] }),
};
const TOOL = { id: 'call_1', function: { name: 'find_dose', arguments: `{"patient":"${SECRET}"}` } };

function completion(message: object) {
  return { id: 'c1', model: 'gpt-9', choices: [{ index: 0, finish_reason: 'stop', message }] };
}

const answersSecret = () =>
  modelServer((response) => json(response, completion({ content: SECRET, tool_calls: [TOOL] })));

test('[R-865] the application chooses the content of events, and content stored separately', async () => {
  const { log, events, contents } = await recording();
  const server = await answersSecret();
  const runId = '0198c0de-0000-4000-8000-000000000001';
  const seen: DescribedCall[] = [];
  const describe = (call: DescribedCall) => {
    seen.push(call);
    const { answer } = call;
    if (!answer) {
      return {
        ...{ runId, model: { model_version: '9.1' }, user: { caller_id: 'u1' }, target: { target_id: 't1' } },
        ...{ inputs: { template: 'rash' }, inputContent: QUESTION },
      };
    }
    const toolCalls = answer.toolCalls.map(({ input }) => ({
      content: input,
      mime_type: 'application/json',
    }));
    return { output: { summary: 'a finding' }, outputContent: answer.text, toolCalls };
  };
  const response = await capturing(log, { describe, shown: true })(server.url + PATH, POST);
  expect(await response.json()).toMatchObject({ id: 'c1' });
  const [start, tool, output] = await events();
  const sha256 = expect.stringMatching(/^sha256:[0-9a-f]{64}$/) as unknown;
  expect(start).toMatchObject({
    run_id: runId,
    model_instance: { model_id: 'gpt-9', model_version: '9.1' },
    ...{ user_identity: { caller_id: 'u1' }, target_identity: { target_id: 't1' } },
    inputs: { template: 'rash', input_uri: sha256, message_count: 1 },
  });
  expect(tool?.artifact).toMatchObject({
    tool_name: 'find_dose',
    mime_type: 'application/json',
    artifact_uri: sha256,
  });
  expect(output?.output).toMatchObject({ summary: 'a finding', output_uri: sha256, ending: 'complete' });
  expect(contents).toEqual([QUESTION, TOOL.function.arguments, SECRET]);
  expect(seen).toMatchObject([
    { provider: 'openai', model: 'gpt-9', request: { messages: [{ content: QUESTION }] } },
    { provider: 'openai', runId, answer: { text: SECRET } },
  ]);
});

test('[R-865] clients and runs of every profile are accepted', () => {
  expectTypeOf<Client | Client<'full'> | Run<'full'>>().toExtend<RunsIn>();
});

test('[R-865] an answer that is not shown is not an output', async () => {
  const { log, events } = await recording();
  const server = await answersSecret();
  const describe = () => ({ output: null });
  await (await capturing(log, { describe, shown: true })(server.url + PATH, POST)).json();
  const [, , ended] = await events();
  expect(ended).toMatchObject({
    kind: 'internal-artifact',
    artifact: { artifact_type: 'other', ending: 'complete' },
  });
});

const SHOWN_CASES = [
  ['a final answer, by default', undefined, {}, 'default'],
  ['no answer with a tool call, by default', undefined, { tool_calls: [TOOL] }, undefined],
  ['an answer with a tool call, by the option true', true, { tool_calls: [TOOL] }, 'application'],
  ['no answer, by the option false', false, {}, undefined],
  [
    'no answer without words, also by the option true',
    true,
    { content: null, tool_calls: [TOOL] },
    undefined,
  ],
  ['an answer, by a function of the call', ({ answer }) => answer?.text === SECRET, {}, 'application'],
  ['no answer, by a function of the call', ({ provider }) => provider === 'other', {}, undefined],
  ['an answer by default, when the function throws', () => raise(), {}, 'default'],
  [
    'an answer by default, when the function is async',
    (() => Promise.reject(new Error(SECRET))) as never,
    {},
    'default',
  ],
] as const satisfies readonly (readonly [string, FetchOptions['shown'], object, string | undefined])[];

test.each(SHOWN_CASES)('[R-897] shown to a person: %s', async (_, shown, message, by) => {
  const { log, events } = await recording();
  const server = await modelServer((response) => json(response, completion({ content: SECRET, ...message })));
  await (await capturing(log, { shown })(server.url + PATH, POST)).json();
  const ended = (await events()).at(-1);
  expect(ended?.kind).toBe(by === undefined ? 'internal-artifact' : 'human-output');
  expect(ended?.system_metadata.instrumentation?.['shown_by']).toBe(by);
});

function raise(): never {
  throw new Error(SECRET);
}

const RETRY = { ...POST, headers: { 'x-stainless-retry-count': '1' } };

test('[R-865] a retry continues the run of the only failed call with the same request', async () => {
  const { log, events } = await recording();
  const failing = new Set([1, 3]);
  const server = await modelServer((response, number) =>
    failing.has(number) ? json(response, {}, 503) : json(response, completion({ content: SECRET })),
  );
  const captured = capturing(log);
  const other = { ...POST, body: JSON.stringify({ model: 'gpt-9', messages: [] }) };
  await captured(server.url + PATH, POST); // fails
  await (await captured(server.url + PATH, other)).json();
  await captured(server.url + PATH, other); // fails
  await (await captured(server.url + PATH, RETRY)).json();
  const all = await events();
  const starts = all.filter(({ kind }) => kind === 'inference-start');
  expect(starts).toHaveLength(3);
  const first = all.filter(({ run_id }) => run_id === starts[0]?.run_id);
  expect(first.map(({ kind, artifact }) => [kind, artifact?.['ending'], artifact?.['status']])).toEqual([
    ['inference-start', undefined, undefined],
    ['internal-artifact', 'failed', 503],
    ['human-output', undefined, undefined],
  ]);
  expect(first.map(({ system_metadata }) => system_metadata.instrumentation?.['attempt'])).toEqual([
    ...[undefined, undefined, 2],
  ]);
});

test('[R-865] a retry is a separate run if several calls match', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response) => json(response, {}, 429));
  const captured = capturing(log);
  // They may be of two patients.
  await Promise.all([captured(server.url + PATH, POST), captured(server.url + PATH, POST)]);
  await captured(server.url + PATH, RETRY);
  const all = await events();
  const starts = all.filter(({ kind }) => kind === 'inference-start');
  expect(starts.map(({ system_metadata }) => system_metadata.instrumentation?.['attempt'])).toEqual([
    ...[undefined, undefined, 2],
  ]);
  expect(all.filter(({ run_id }) => run_id === starts[2]?.run_id)).toHaveLength(2);
});

test('[R-865] a retry does not continue a run started in another run', async () => {
  const { log, events } = await recording();
  const server = await modelServer((response) => json(response, {}, 429));
  const runs = new AsyncLocalStorage<Run>();
  const captured = capturing(() => runs.getStore() ?? log);
  const agents = [1, 2].map(() => log.startRun({ model: { model_id: 'agent' } }));
  for (const agent of agents) await runs.run(agent, () => captured(server.url + PATH, POST));
  for (const agent of agents) await runs.run(agent, () => captured(server.url + PATH, RETRY));
  const starts = (await events()).filter(({ kind }) => kind === 'inference-start');
  expect(starts).toHaveLength(4);
  const ends = (await events()).filter(({ artifact }) => artifact?.['ending'] === 'failed');
  const runIds = starts.slice(2).map(({ run_id }) => run_id);
  expect(ends.map(({ run_id }) => run_id)).toEqual([...runIds, ...runIds]);
});

test('[R-865] if describe throws, only the words are missing', async () => {
  const { log, events } = await recording();
  const server = await answersSecret();
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const describe = () => {
    throw new Error(SECRET);
  };
  const response = await capturing(log, { describe })(server.url + PATH, POST);
  expect(await response.json()).toMatchObject({ id: 'c1' });
  const all = await events();
  expect(all).toHaveLength(3);
  for (const { system_metadata } of all)
    expect(system_metadata.instrumentation).toMatchObject({ describe_failed: true });
  expect(JSON.stringify([all, warn.mock.calls])).not.toContain(SECRET);
  expect(warn).toHaveBeenCalledOnce();
  warn.mockRestore();
});

test('[R-865] if describe is async, only the words are missing, and a rejection is handled', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  const { log, events } = await recording();
  const server = await answersSecret();
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  const describe = (() => Promise.reject(new Error(SECRET))) as unknown as () => undefined;
  const runs = describe as unknown as () => typeof log;
  await (await capturing(log, { describe })(server.url + PATH, POST)).json();
  await (await capturing(runs)(server.url + PATH, POST)).json();
  const all = await events();
  expect(all).toHaveLength(3);
  for (const { system_metadata } of all)
    expect(system_metadata.instrumentation).toMatchObject({ describe_failed: true });
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
  warn.mockRestore();
});

test('[R-865] calls are nested in the run in which they are made', async () => {
  const { log, events } = await recording();
  const server = await answersSecret();
  const runs = new AsyncLocalStorage<Run>();
  const captured = capturing(() => runs.getStore() ?? log);
  const agent = log.startRun({ model: { model_id: 'agent' } });
  await runs.run(agent, async () => {
    await (await captured(server.url + PATH, POST)).json();
  });
  await (await captured(server.url + PATH, POST)).json();
  const starts = (await events()).filter(({ kind }) => kind === 'inference-start');
  expect(starts.map(({ parent_event_id }) => parent_event_id)).toEqual([
    undefined,
    agent.startEventId,
    undefined,
  ]);
});

test('[R-865] a closed client or a failing function for runs does not affect the application', async () => {
  const { log } = await recording();
  const server = await answersSecret();
  await log.close();
  const broken = capturing(() => {
    throw new Error('no run');
  });
  for (const captured of [capturing(log), broken]) {
    expect(await (await captured(server.url + PATH, POST)).json()).toMatchObject({ id: 'c1' });
  }
});

test('[R-865] an unreadable answer reaches the application unchanged', async () => {
  const { log, events } = await recording();
  const bodies: readonly [string, string][] = [
    ['text/plain', 'hello'],
    ['application/json', '{"choices": [null, 5, {"message": 7}], "usage": "no"'],
    ['application/json', '{"choices": [null, 5, {"message": 7, "delta": []}], "usage": "no"}'],
    ['text/event-stream', 'data: {\n\ndata: 7\n\ndata: null\n\ndata: {"choices":{}}\n\n'],
  ];
  const server = await modelServer((response, number) => {
    const [type, body] = bodies[number - 1] ?? ['', ''];
    response.writeHead(200, { 'content-type': type }).end(body);
  });
  for (const [, body] of bodies) {
    expect(await (await capturing(log)(server.url + PATH, POST)).text()).toBe(body);
  }
  const endings = (await events())
    .filter(({ kind }) => kind === 'internal-artifact')
    .map(({ artifact }) => artifact);
  expect(endings.map((artifact) => artifact?.['ending'])).toEqual([
    'not read',
    'not read',
    'complete',
    'cut off',
  ]);
});

test('[R-865] an id or a name of a tool with blanks is left out of events', async () => {
  const { log, events } = await recording();
  const named = completion({ tool_calls: [{ id: SECRET, function: { name: SECRET, arguments: '{}' } }] });
  const server = await modelServer((response) => json(response, { ...named, id: SECRET }));
  await (await capturing(log)(server.url + PATH, POST)).json();
  const all = await events();
  expect(all).toHaveLength(3);
  expect(JSON.stringify(all)).not.toContain(SECRET);
});

test('[R-865] a stream is read and cancelled only by the application', async () => {
  const { log, events } = await recording();
  let asked = 0;
  let cancelled: unknown;
  const source = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        asked++;
        controller.enqueue(Buffer.from('data: {"choices":[{"delta":{"content":"x"}}]}\n\n'));
      },
      cancel: (reason) => void (cancelled = reason),
    },
    { highWaterMark: 0 },
  );
  const headers = { 'content-type': 'text/event-stream' };
  const fetch = () => Promise.resolve(new Response(source, { headers }));
  const { body } = await capturing(log, { fetch })('http://127.0.0.1' + PATH, POST);
  await pause(20);
  expect(asked).toBe(0);
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  await reader.read();
  await pause(20);
  expect(asked).toBe(2);
  await reader.cancel('enough');
  expect(cancelled).toBe('enough');
  const [, ended] = await events();
  expect(ended?.artifact).toMatchObject({ ending: 'aborted', characters: 2 });
});

const RESPONSES = '/v1/responses';
const RESPONSE = {
  ...{ id: 'resp_1', model: 'gpt-9', status: 'completed' },
  output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: SECRET }] }],
};
const EVENT = `data: ${JSON.stringify({ type: 'response.completed', response: RESPONSE })}`;
const PAGE = '<!doctype html><p>Sign in to the portal</p>';

test.each([
  ['events in place of an object', false, 'text/event-stream', `${EVENT}\n\n`, 'complete'],
  ['events without the empty line at the end', true, 'text/event-stream', EVENT, 'complete'],
  ['events under the type of an object', true, 'application/json', `${EVENT}\n\n`, 'complete'],
  ['events without a type', true, undefined, `: ok\n\n${EVENT}\n\n`, 'complete'],
  ['an object in place of events', true, 'application/json', JSON.stringify(RESPONSE), 'complete'],
  ['an object under the type of events', true, 'text/event-stream', JSON.stringify(RESPONSE), 'complete'],
  ['an error in place of events', true, 'text/event-stream', '{"error":{"code":502}}', 'failed'],
  ['a type in capitals', false, 'Application/JSON; charset=utf-8', JSON.stringify(RESPONSE), 'complete'],
  ['a page', false, 'text/html', PAGE, 'not read'],
  ['a page in place of events', true, 'text/event-stream', PAGE, 'not read'],
  ['a page under the type of an object', false, 'application/json', PAGE, 'not read'],
  ['nothing', false, 'application/json', '', 'not read'],
  ['no events', true, 'text/event-stream', '', 'cut off'],
  ['an object of another form', false, 'application/json', '{"detail":"ok"}', 'not read'],
  ['lines of objects', true, 'application/x-ndjson', `${JSON.stringify(RESPONSE)}\n`, 'not read'],
  ['no body', false, undefined, undefined, 'not read'],
] as const)('[R-1600] %s', async (_, streamed, type, body, ending) => {
  const { log, events } = await recording();
  const { url } = await modelServer((response) => {
    response.writeHead(body === undefined ? 204 : 200, type === undefined ? {} : { 'content-type': type });
    response.end(body);
  });
  const request = {
    method: 'POST',
    body: JSON.stringify({ model: 'gpt-9', input: SECRET, stream: streamed }),
  };
  const answer = await capturing(log)(url + RESPONSES, request);
  expect(await answer.text()).toBe(body ?? '');
  const end = (await events()).at(-1);
  expect((end?.output ?? end?.artifact)?.['ending']).toBe(ending);
  expect(end?.kind).toBe(ending === 'complete' ? 'human-output' : 'internal-artifact');
  expect(JSON.stringify(end)).not.toContain(SECRET);
});

test('[R-865] a Request, or a body that is not a text, is captured without its model', async () => {
  const { log, events } = await recording();
  const { url } = await modelServer((response) => json(response, RESPONSE));
  const captured = capturing(log);
  await (await captured(new Request(url + RESPONSES, { method: 'POST', body: '{"model":"gpt-9"}' }))).json();
  const body = Buffer.from('{"model":"gpt-9"}');
  await (await captured(new URL(url + RESPONSES), { method: 'post', body })).json();
  const all = await events();
  expect(all.map(({ kind }) => kind)).toEqual([
    'inference-start',
    'human-output',
    'inference-start',
    'human-output',
  ]);
  expect(all[0]?.['model_instance']).toEqual({ provider: 'openai' });
});
