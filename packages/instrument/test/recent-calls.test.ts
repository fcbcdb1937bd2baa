/** Answers that are fetched later, through the SDK. */
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { openaiFetch } from '../src/openai.js';
import { eventually, json, modelServer, recording, SECRET, startStream, stream } from './recording.js';

type Recording = Awaited<ReturnType<typeof recording>>;

const REQUEST = { model: 'gpt-6-astra', input: SECRET, background: true };

function response(status: string, more: object = {}) {
  const done = status === 'completed' && {
    output: [CALL, MESSAGE],
    usage: { input_tokens: 5, output_tokens: 6 },
  };
  return { id: 'resp_1', object: 'response', model: 'gpt-6', status, output: [], ...done, ...more };
}

const MESSAGE = {
  type: 'message',
  id: 'm_1',
  role: 'assistant',
  content: [{ type: 'output_text', text: SECRET }],
};
const CALL = {
  type: 'web_search_call',
  id: 'ws_1',
  action: { type: 'search', query: SECRET },
  status: 'completed',
};

/** Answers each request with the next of these. */
async function answering(...bodies: readonly object[]) {
  const { url } = await modelServer((reply, number) => json(reply, bodies[number - 1] ?? {}));
  return url;
}

function openaiOf(url: string, log: Recording['log'], options: Parameters<typeof openaiFetch>[1] = {}) {
  return new OpenAI({ apiKey: 'k', baseURL: url, maxRetries: 0, fetch: openaiFetch(log, options) });
}

async function endings({ events }: Recording) {
  const all = await events();
  const ends = all.filter(({ output, artifact }) => 'ending' in (output ?? artifact ?? {}));
  expect(JSON.stringify(all)).not.toContain(SECRET);
  return ends.map(({ kind, output, artifact }) => [kind, (output ?? artifact)?.['ending']]);
}

test('[R-1600] OpenAI: an answer that is fetched later ends the run that asked for it, once', async () => {
  const given = await recording();
  const said = ['queued', 'in_progress', 'completed', 'completed'].map((status) => response(status));
  const openai = openaiOf(await answering(...said), given.log);
  await openai.responses.create(REQUEST);
  for (const status of ['in_progress', 'completed', 'completed']) {
    expect((await openai.responses.retrieve('resp_1')).status).toBe(status);
  }
  expect(await endings(given)).toEqual([
    ['internal-artifact', 'unfinished'],
    ['human-output', 'complete'],
  ]);
  const [start, unfinished, tool, output] = await given.events();
  for (const event of [unfinished, tool, output]) expect(event?.run_id).toBe(start?.run_id);
  expect(output?.output).toMatchObject({ response_id: 'resp_1', usage: { input_tokens: 5 }, tool_calls: 1 });
  const latency = (event: typeof start) => event?.system_metadata.latency_ms ?? -1;
  expect(latency(output)).toBeGreaterThanOrEqual(latency(unfinished));
});

test('[R-1600] OpenAI: another SDK instance fetches an answer; describe gets the request', async () => {
  const given = await recording();
  const url = await answering(response('queued'), response('completed'));
  const requests: unknown[] = [];
  const describe = ({ request, answer }: { request: unknown; answer?: unknown }) => {
    if (answer) requests.push((request as typeof REQUEST).input);
    return {};
  };
  await openaiOf(url, given.log, { describe }).responses.create(REQUEST);
  await openaiOf(url, given.log).responses.retrieve('resp_1');
  expect((await endings(given)).at(-1)).toEqual(['human-output', 'complete']);
  expect(requests).toEqual([SECRET, SECRET]);
});

test.each([
  ['failed', { error: { code: 'server_error', message: SECRET } }, 'failed'],
  ['incomplete', { incomplete_details: { reason: 'max_output_tokens' } }, 'complete'],
  ['cancelled', {}, 'aborted'],
])('[R-1600] OpenAI: an answer that is found %s', async (status, more, ending) => {
  const given = await recording();
  const openai = openaiOf(await answering(response('queued'), response(status, more)), given.log);
  await openai.responses.create(REQUEST);
  await openai.responses.retrieve('resp_1');
  expect(await endings(given)).toEqual([
    ['internal-artifact', 'unfinished'],
    ['internal-artifact', ending],
  ]);
});

test('[R-1600] OpenAI: a cancellation ends the run', async () => {
  const given = await recording();
  const openai = openaiOf(await answering(response('queued'), response('cancelled')), given.log);
  await openai.responses.create(REQUEST);
  await openai.responses.cancel('resp_1');
  expect((await endings(given)).at(-1)).toEqual(['internal-artifact', 'aborted']);
});

test('[R-1600] OpenAI: a broken stream is resumed', async () => {
  const given = await recording();
  const created = { type: 'response.created', response: response('in_progress') };
  const search = { type: 'response.output_item.done', output_index: 0, item: CALL };
  const delta = { type: 'response.output_text.delta', item_id: 'm_1', output_index: 1, delta: SECRET };
  const { url } = await modelServer(async (reply, number) => {
    startStream(reply);
    if (number === 1) {
      await stream(reply, [created, search, delta]);
      return void reply.destroy();
    }
    await stream(reply, [delta, { type: 'response.completed', response: response('completed') }]);
    reply.end();
  });
  const openai = openaiOf(url, given.log);
  const drain = async (pieces: AsyncIterable<unknown>) => {
    for await (const piece of pieces) expect(piece).toBeDefined();
  };
  await expect(drain(await openai.responses.create({ ...REQUEST, stream: true }))).rejects.toThrow();
  await drain(await openai.responses.retrieve('resp_1', { stream: true, starting_after: 1 }));
  expect(await endings(given)).toEqual([
    ['internal-artifact', 'cut off'],
    ['human-output', 'complete'],
  ]);
  const tools = (await given.events()).filter(({ artifact }) => artifact?.['artifact_type'] === 'tool_call');
  expect(tools).toHaveLength(1);
});

test('[R-1600] OpenAI: an unknown answer, a list, a deletion and a failed fetch have no run', async () => {
  const given = await recording();
  const { url } = await modelServer((reply, number) => {
    if (number === 2) return json(reply, { error: { message: SECRET } }, 500);
    json(reply, number === 1 ? response('queued') : { data: [], ...response('completed') });
  });
  const openai = openaiOf(url, given.log);
  await openai.responses.create(REQUEST);
  await expect(openai.responses.retrieve('resp_1')).rejects.toThrow();
  await openai.responses.retrieve('resp_other');
  await openai.responses.inputItems.list('resp_1');
  await openai.responses.delete('resp_1');
  await openai.responses.compact({ model: 'gpt-6-astra', input: SECRET });
  await openaiOf(url, (await recording()).log).responses.retrieve('resp_1');
  expect(await endings(given)).toEqual([['internal-artifact', 'unfinished']]);
  expect((await given.events()).map(({ kind }) => kind)).toEqual(['inference-start', 'internal-artifact']);
});

test('[R-1600] OpenAI: an id of two answers matches neither', async () => {
  const given = await recording();
  const openai = openaiOf(
    await answering(response('queued'), response('queued'), response('completed')),
    given.log,
  );
  await openai.responses.create(REQUEST);
  await openai.responses.create({ ...REQUEST, input: 'of another patient' });
  await openai.responses.retrieve('resp_1');
  expect(await endings(given)).toHaveLength(2);
});

test('[R-1600] OpenAI: a background stream that the application stops reading can be fetched', async () => {
  const given = await recording();
  const { url } = await modelServer(async (reply, number) => {
    if (number > 1) return json(reply, response('completed'));
    startStream(reply);
    await stream(reply, [{ type: 'response.created', response: response('in_progress') }]);
  });
  const openai = openaiOf(url, given.log);
  for await (const piece of await openai.responses.create({ ...REQUEST, stream: true })) {
    expect(piece).toBeDefined();
    break;
  }
  await eventually(async () => ((await given.events()).length > 1 ? true : undefined));
  await openai.responses.retrieve('resp_1');
  expect(await endings(given)).toEqual([
    ['internal-artifact', 'aborted'],
    ['human-output', 'complete'],
  ]);
});
