import os from 'node:os';
import { validateEvent } from '@clinical-events/protocol/validate';
import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createClient, EventInvalid } from '../src/index.js';
import { answer, fakeCollector } from './running/fake-collector.js';
import { hurriedClient, temporaryDirectory } from './running/hurried-client.js';
import { realCollector } from './running/real-collector.js';

const MODEL = { model_id: 'triage', model_version: '2.1' };

test('[R-861] a run becomes events that share its id and name their source', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: `${collector.url}/base/`, app: { app_name: 'ward-chat' } });
  const before = Date.now();
  const run = log.startRun({
    model: MODEL,
    user: { caller_id: 'u1' },
    target: { target_id: 't1' },
    inputs: { prompt: 'p' },
  });
  run.artifact({ artifact_type: 'tool_call', artifact_uri: 'urn:x:1' });
  run.output({ output_uri: 'urn:x:2', summary: 's' });
  run.outcome({ outcome_type: 'validated' });
  run.feedback({ comment: 'good' }, { more: { ward: 7 }, metadata: { region: 'north' } });
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(collector.accepted.map(({ path }) => path).sort()).toEqual([
    '/base/event/human-output',
    '/base/event/inference-start',
    '/base/event/internal-artifact',
    '/base/event/outcome',
    '/base/event/user-feedback',
  ]);
  for (const { event, apiKey } of collector.accepted) {
    expect(apiKey).toBe('key');
    expect(event).toMatchObject({ run_id: run.id, protocol_version: '0.0.1' });
    expect(event.system_metadata).toMatchObject({
      ...{ hostname: os.hostname(), app_name: 'ward-chat', proc_id: String(process.pid) },
    });
    expect(Date.parse(event.timestamp)).toBeGreaterThanOrEqual(before);
    expect(Date.parse(event.timestamp)).toBeLessThanOrEqual(Date.now());
  }
  const byPath = new Map(collector.accepted.map(({ path, event }) => [path.slice(12), event]));
  expect(run.id).toBe(run.startEventId);
  expect(byPath.get('inference-start')).toMatchObject({
    event_id: run.startEventId,
    model_instance: MODEL,
    user_identity: { caller_id: 'u1' },
    target_identity: { target_id: 't1' },
    inputs: { prompt: 'p' },
  });
  expect(byPath.get('user-feedback')).toMatchObject({ ward: 7, system_metadata: { region: 'north' } });
});

test('[R-861] an output of a run has its latency; a late output and an artifact have none', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const before = performance.now();
  const run = log.startRun({ model: MODEL });
  await new Promise((resolve) => setTimeout(resolve, 40));
  const ids = [
    run.output({ summary: 'measured' }),
    run.output({ summary: 'given' }, { latencyMs: 7 }),
    run.output({ summary: 'told late' }, { timestamp: '2026-01-01T00:00:00Z' }),
    log.run(run.id).output({ summary: 'by id' }),
    run.artifact({ artifact_type: 'other', artifact_uri: 'urn:x:1' }),
  ].map(({ eventId }) => eventId);
  const longest = Math.ceil(performance.now() - before);
  await log.flush();
  const latency = new Map(
    collector.accepted.map(({ event }) => [event.event_id, event.system_metadata['latency_ms']]),
  );
  const [measured, ...others] = ids.map((id) => latency.get(id));
  expect(measured).toBeGreaterThanOrEqual(39);
  expect(measured).toBeLessThanOrEqual(longest);
  expect(Number.isInteger(measured)).toBe(true);
  expect(others).toEqual([7, undefined, undefined, undefined]);
});

test('[R-861] a nested run names the start of the outer one as its parent', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const outer = log.startRun({ model: MODEL });
  const inner = outer.startRun({ model: { model_id: 'retriever' } });
  const innermost = inner.startRun({}, { runId: '0190aabb-ccdd-7102-8304-050607000000' });
  await log.flush();
  const parents = new Map(collector.accepted.map(({ event }) => [event.run_id, event.parent_event_id]));
  expect(parents.get(outer.id)).toBeUndefined();
  expect(parents.get(inner.id)).toBe(outer.startEventId);
  expect(parents.get('0190aabb-ccdd-7102-8304-050607000000')).toBe(inner.startEventId);
  expect(innermost.id).not.toBe(innermost.startEventId);
});

test('[R-861] members that the application adds never replace those that the client sets', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const more = { event_id: 'x', run_id: 'x', timestamp: 'x', outcome: 'x', system_metadata: 'x', ward: 7 };
  const run = log.startRun({});
  const { eventId } = run.outcome({ outcome_type: 'partial' }, { more, metadata: { hostname: 'other' } });
  await log.flush();
  expect(collector.accepted.map(({ event }) => event)).toContainEqual(
    expect.objectContaining({
      ...{ event_id: eventId, run_id: run.id, outcome: { outcome_type: 'partial' }, ward: 7 },
      system_metadata: { hostname: 'other', proc_id: String(process.pid) },
    }),
  );
});

test('[R-861] an awaited event is durable, and its id is known before', async () => {
  const collector = await fakeCollector((_event, response) => {
    response.destroy();
    return true;
  });
  const directory = temporaryDirectory();
  const { log } = hurriedClient({ url: collector.url, spool: { directory, durability: 'fsync' } });
  const run = log.startRun({ model: MODEL });
  const captured = run.output({ summary: 's' });
  expect(captured.eventId).toMatch(/^[0-9a-f-]{36}$/);
  expect(await captured).toBe('durable');
  expect(log.state).toMatchObject({ waiting: 2, refused: 0 });
});

test('[R-861] a later change of an object does not change the captured event', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const output = { summary: 'before' };
  log.startRun({ model: MODEL }).output(output);
  output.summary = 'after';
  await log.flush();
  expect(collector.accepted.map(({ event }) => event['output'])).toContainEqual({ summary: 'before' });
});

test('[R-861] a faulty event is refused to its caller with the issues that the collector would name', async () => {
  const collector = await realCollector();
  const { log, refusals } = hurriedClient({ url: collector.url, apiKey: collector.apiKey });
  const faulty = { output_uri: 5, summary: ['x'] } as unknown as { summary: string };
  const captured = log
    .startRun({})
    .output(faulty, { timestamp: 'yesterday', latencyMs: 'soon' as never, parentEventId: 'x' });
  const error: unknown = await captured.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(EventInvalid);
  const body = JSON.stringify({
    ...{ event_id: crypto.randomUUID(), run_id: crypto.randomUUID(), parent_event_id: 'x' },
    ...{ timestamp: 'yesterday', protocol_version: '0.0.1', system_metadata: { latency_ms: 'soon' } },
    output: faulty,
  });
  const response = await fetch(`${collector.url}/event/human-output`, {
    ...{ method: 'POST', body },
    headers: { 'Content-Type': 'application/json', 'X-API-Key': collector.apiKey },
  });
  const { details } = (await response.json()) as { details: { issues: unknown[] } };
  expect((error as EventInvalid).issues).toEqual(details.issues);
  expect(details.issues).toHaveLength(5);
  expect(String(error)).not.toContain('yesterday');
  expect(refusals).toMatchObject([{ kind: 'human-output', eventId: captured.eventId, error }]);
  expect(log.state.refused).toBe(1);
});

test('[R-861] with the profile full, events are validated by it', async () => {
  const collector = await fakeCollector();
  const { log, refusals } = hurriedClient({ url: collector.url, validate: 'full' });
  const run = log.startRun({
    ...{ model: MODEL, user: { caller_type: 'clinician' }, inputs: {} },
    target: { target_type: 'none' },
  });
  run.output({ output_uri: 'urn:x:1' });
  run.output({} as { output_uri: string });
  await log.flush();
  expect(collector.accepted).toHaveLength(2);
  expect(refusals).toHaveLength(1);
  expect((refusals[0]?.error as EventInvalid).issues).toEqual([
    { pointer: '/output/output_uri', rule: 'required', message: 'is required' },
  ]);
});

test('[R-861] every captured event is one that the collector accepts', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const run = log.startRun({ model: MODEL });
  await fc.assert(
    fc.asyncProperty(fc.anything(), fc.anything(), async (outcome, more) => {
      const captured = run.outcome(outcome as Record<string, unknown>, {
        more: more as Record<string, unknown>,
      });
      const fate = await captured.then(
        (settled) => settled,
        (error: unknown) => {
          expect(error).toBeInstanceOf(EventInvalid);
          return 'refused';
        },
      );
      await log.flush();
      const sent = collector.accepted.find(({ event }) => event.event_id === captured.eventId);
      expect(sent !== undefined).toBe(fate === 'durable');
      if (sent) expect(validateEvent('outcome', 'minimum', sent.event)).toBeUndefined();
    }),
    { numRuns: 100 },
  );
});

test('[R-861] an event that is no JSON or too large is refused to its caller; others are sent', async () => {
  const collector = await fakeCollector();
  const { log, refusals } = hurriedClient({ url: collector.url, maxEventBytes: 1 << 20 });
  const run = log.startRun({ model: MODEL });
  const cyclic: Record<string, unknown> = {};
  cyclic['self'] = cyclic;
  const throws = {
    toJSON: () => {
      throw new Error('patient 4711');
    },
  };
  for (const outcome of [cyclic, { big: 1n }, throws as Record<string, unknown>]) run.outcome(outcome);
  const hostile = Object.defineProperty({}, 'x', { enumerable: true, get: throws.toJSON });
  run.outcome(hostile, { content: 'evidence' });
  run.outcome({ description: 'x'.repeat(1 << 20) });
  await log.flush();
  expect(refusals.map(({ error }) => (error as EventInvalid).code)).toEqual([
    ...['not_json', 'not_json', 'not_json', 'not_json', 'body_too_large'],
  ]);
  const issues = refusals.map(({ error }) => (error as EventInvalid).issues);
  expect(issues.map(([issue]) => [issue?.pointer, issue?.rule])).toEqual([
    ...[
      ['/outcome/self', 'json'],
      ['/outcome/big', 'json'],
      ['/outcome', 'json'],
      ['', 'json'],
    ],
    ['', 'body_too_large'],
  ]);
  expect(issues.at(-1)?.[0]?.message).toBe('has more than 1048576 bytes');
  expect(refusals.map(({ error }) => String(error)).join()).not.toContain('4711');
  expect(collector.accepted).toHaveLength(1);
});

test('[R-861] only an event nested deeper than the collector allows is refused to its caller', async () => {
  const collector = await fakeCollector();
  const { log, refusals } = hurriedClient({ url: collector.url });
  const nested = (levels: number): object => (levels === 1 ? [] : { inner: nested(levels - 1) });
  // Within the event and within its outcome.
  for (const levels of [62, 63])
    log.run(log.startRun({ model: MODEL }).id).outcome({ nested: nested(levels) });
  await log.flush();
  const message = 'is nested more than 64 levels deep';
  expect(refusals).toMatchObject([
    {
      error: {
        code: 'nesting_too_deep',
        issues: [{ pointer: expect.stringMatching(/^\/outcome\/nested\/inner/) as string, message }],
      },
    },
  ]);
  expect(collector.accepted).toHaveLength(3);
});

test('[R-861] the result of a call has catch and finally, as a Promise has', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const run = log.startRun({ model: MODEL });
  const ended: string[] = [];
  const note = () => void ended.push('ended');
  await expect(run.output({}).finally(note)).resolves.toBe('durable');
  await expect(run.output({}).catch(note)).resolves.toBe('durable');
  const faulty = { output_uri: 5 } as unknown as { output_uri: string };
  await expect(run.output(faulty).finally(note)).rejects.toThrow(EventInvalid);
  const named = (error: unknown) => (error as EventInvalid).name;
  await expect(run.output(faulty).catch(named)).resolves.toBe('EventInvalid');
  expect(ended).toEqual(['ended', 'ended']);
});

test('[R-861] an application that ignores all results gets no unhandled rejection', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  process.on('unhandledRejection', note);
  const log = createClient({
    ...{ url: 'http://127.0.0.1:9', apiKey: 'key', spool: { durability: 'memory', maxBytes: 2000 } },
    onTrouble: () => {
      throw new Error('a listener that is broken');
    },
    onRefused: () => {
      throw new Error('and another one');
    },
  });
  const run = log.startRun({ model: MODEL });
  run.output({ output_uri: 5 } as unknown as { output_uri: string });
  for (let i = 0; i < 20; i++) run.output({ summary: 'x'.repeat(500) });
  run.output({ summary: 'content' }, { content: 'nowhere to be put' });
  await log.close({ timeoutMs: 20 });
  run.output({ summary: 'too late' });
  log.run('no uuid').feedback({});
  log.startRun({ model: MODEL });
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
  expect(log.state.refused).toBeGreaterThan(15);
});

test('[R-861] events captured before close are in the spool, even if close has no time', async () => {
  const directory = temporaryDirectory();
  const options = { url: 'http://127.0.0.1:9', spool: directory, content: `${directory}-content` };
  const { log, refusals } = hurriedClient(options);
  const run = log.startRun({ model: MODEL }, { content: 'the whole question' });
  run.output({ summary: 's' }, { content: 'the whole answer' });
  expect(await log.close({ timeoutMs: 0 })).toEqual({ waiting: 2 });
  expect(refusals).toEqual([]);
  const next = hurriedClient(options);
  await next.log.ready();
  expect(next.log.state.waiting).toBe(2);
});

test('[R-864] close does not wait for content that is never stored: its event is refused', async () => {
  const never = { put: () => new Promise<void>(() => undefined) };
  const { log, refusals } = hurriedClient(
    { url: 'http://127.0.0.1:9', spool: temporaryDirectory(), content: never },
    { settleMs: 50 },
  );
  const run = log.startRun({ model: MODEL }, { content: 'c' });
  expect(await log.close({ timeoutMs: 0 })).toEqual({ waiting: 0 });
  expect(refusals).toMatchObject([{ eventId: run.startEventId, error: { name: 'ContentNotStored' } }]);
});

test('[R-861] events after close are refused, and close may be called again', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const run = log.startRun({ model: MODEL });
  expect(await log.close()).toEqual({ waiting: 0 });
  expect(await log.close()).toEqual({ waiting: 0 });
  expect(await log.flush()).toEqual({ waiting: 0 });
  await expect(run.output({ summary: 's' })).rejects.toThrow('the client is closed');
  await expect(log.run(run.id).outcome({})).rejects.toMatchObject({ name: 'ClientClosed' });
  expect(collector.accepted).toHaveLength(1);
});

test('[R-861] an unusable spool is reported, and every event is refused to its caller', async () => {
  const { log, troubles, refusals } = hurriedClient({ url: 'http://127.0.0.1:9', spool: '/dev/null/spool' });
  await expect(log.ready()).rejects.toMatchObject({ name: 'SpoolUnwritable' });
  await expect(log.startRun({}).started).rejects.toMatchObject({ name: 'SpoolUnwritable' });
  expect(troubles).toEqual(['the spool cannot be used; no events are captured']);
  expect(refusals).toHaveLength(1);
  expect(await log.close()).toEqual({ waiting: 0 });
});

test.each([
  ['a concurrency of half a request', { concurrency: 0.5 }],
  ['a rate above 1', { sampling: { rate: 2 } }],
  ['a misspelt durability', { spool: { directory: 'spool', durability: 'fysnc' as 'fsync' } }],
  ['an unknown profile', { validate: 'all' as 'full' }],
])('%s is refused when the client is made', (_what, wrong) => {
  const options = { url: 'http://127.0.0.1:9', apiKey: 'key', spool: { durability: 'memory' as const } };
  expect(() => createClient({ ...options, ...wrong })).toThrow(RangeError);
});

test.each([
  ['an empty key', { apiKey: '' }, 'there is no API key'],
  ['no key', { apiKey: undefined as unknown as string }, 'there is no API key'],
  ['a key with a line break', { apiKey: 'secret\r\nX-Other: 1' }, 'invalid characters'],
  ['no URL', { url: undefined as unknown as string }, 'no address of a collector'],
  ['an empty URL', { url: '' }, 'no address of a collector'],
  ['a URL of another scheme', { url: 'ftp://secret' }, 'must begin with http'],
  ['a URL with a password', { url: 'http://user:secret@collector' }, 'origin and a path'],
])(
  '[R-861] with %s, events wait for a client that can send them, and the reason is reported',
  async (_what, wrong, why) => {
    const collector = await fakeCollector();
    const options = { url: collector.url, apiKey: 'key', spool: temporaryDirectory() };
    const told: [string, unknown][] = [];
    const onTrouble = (...trouble: [string, unknown]) => told.push(trouble);
    const { log } = hurriedClient({ ...options, ...wrong, onTrouble });
    await log.ready();
    // Before there is any event.
    expect(told).toEqual([['nothing can be sent; events are kept', expect.any(Error)]]);
    expect(String(told[0]?.[1])).toContain(why);
    expect(String(told[0]?.[1])).not.toContain('secret');
    const { startEventId, started } = log.startRun({});
    expect(await started).toBe('durable');
    await log.flush(50);
    expect(await log.close({ timeoutMs: 50 })).toEqual({ waiting: 1 });
    expect(told).toHaveLength(1);
    const later = hurriedClient(options);
    expect(await later.log.flush()).toEqual({ waiting: 0 });
    expect(collector.accepted.map(({ event }) => event.event_id)).toEqual([startEventId]);
  },
);

test('[R-861] address and key come from the environment unless they are given', async () => {
  const [fromEnvironment, given] = [await fakeCollector(), await fakeCollector()];
  vi.stubEnv('COLLECTOR_URL', fromEnvironment.url);
  vi.stubEnv('COLLECTOR_KEY', 'key-of-environment');
  onTestFinished(() => void vi.unstubAllEnvs());
  const spool = { durability: 'memory' as const };
  const first = createClient({ spool });
  const second = createClient({ spool, url: given.url, apiKey: 'key-given' });
  for (const log of [first, second]) {
    log.startRun({ model: MODEL });
    expect(await log.close()).toEqual({ waiting: 0 });
  }
  expect(fromEnvironment.accepted.map(({ apiKey }) => apiKey)).toEqual(['key-of-environment']);
  expect(given.accepted.map(({ apiKey }) => apiKey)).toEqual(['key-given']);
});

test('[R-861] debug prints what is captured, sent and answered, without contents', async () => {
  const printed: string[] = [];
  const print = vi.spyOn(console, 'error').mockImplementation((line: string) => void printed.push(line));
  onTestFinished(() => print.mockRestore());
  const collector = await fakeCollector((_event, response, number) => {
    if (number === 1) response.destroy();
    else if (number > 3) return false;
    else {
      const status = number === 2 ? 503 : 400;
      answer(response, status, { code: 'some_code', message: 'SECRET' }, { 'X-Request-Id': 'r-7' });
    }
    return true;
  });
  const { log } = hurriedClient({ url: collector.url, debug: true, apiKey: 'SECRET', concurrency: 1 });
  const run = log.startRun({ model: { model_id: 'SECRET' }, inputs: { prompt: 'SECRET' } });
  await log.flush();
  const { eventId } = run.output({ summary: 'SECRET' });
  await log.flush();
  await run.feedback('SECRET' as never).then(undefined, () => undefined);
  const start = `inference-start ${run.startEventId}`;
  const output = `human-output ${eventId}`;
  const lines = printed.map((line) => line.replace('clinical-events: ', ''));
  // In memory, an event becomes durable and is sent at the same moment.
  const isCapture = (line: string) => line.startsWith('captured');
  expect(lines.filter(isCapture)).toEqual([`captured ${start}: durable`, `captured ${output}: durable`]);
  expect(lines.filter((line) => !isCapture(line))).toEqual([
    `sending ${start}`,
    expect.stringContaining(`no answer to ${start}: `),
    ...[`sending ${start}`, `answered ${start}: 503 some_code, request r-7`],
    ...[`sending ${start}`, `answered ${start}: 400 some_code, request r-7`],
    ...[`sending ${output}`, `answered ${output}: 201`],
    expect.stringMatching(/^refused user-feedback [0-9a-f-]{36}: the event is not valid/),
  ]);
  expect(printed.join()).not.toContain('SECRET');

  const withoutKey = hurriedClient({ url: collector.url, debug: true, apiKey: '', concurrency: 1 });
  const waiting = withoutKey.log.startRun({});
  await withoutKey.log.flush(50);
  const why = 'there is no API key (apiKey or COLLECTOR_KEY)';
  expect(printed).toContain(`clinical-events: not sent inference-start ${waiting.startEventId}: ${why}`);
});

test('[R-862] blanks around a key, such as the line break of its file, are removed', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url, apiKey: 'key\n' });
  log.startRun({});
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(collector.accepted.map(({ apiKey }) => apiKey)).toEqual(['key']);
});

test.each([
  [11.51, 12],
  [0.4, 0],
  [1e300, 2 ** 31 - 1],
  [Infinity, 2 ** 31 - 1],
  [-1, undefined],
  [NaN, undefined],
])('[R-861] a latency of %d ms loses no event: it is sent as %s', async (latencyMs, said) => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  expect(await log.run(crypto.randomUUID()).output({ output_uri: 'urn:x:1' }, { latencyMs })).toBe('durable');
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(collector.accepted[0]?.event.system_metadata['latency_ms']).toBe(said);
});

test('[R-862] of several large events, the one that the collector refuses is quarantined', async () => {
  const collector = await fakeCollector(
    (_event, response, number) =>
      number === 2 && answer(response, 413, { code: 'body_too_large', message: 'm' }),
  );
  const { log, quarantined } = hurriedClient({ url: collector.url, concurrency: 1 }, { patienceMs: 600_000 });
  const ids: string[] = [];
  for (const size of [2e6, 3e6, 20e6]) {
    const run = log.startRun({ inputs: { image: 'A'.repeat(size) } });
    expect(await run.started).toBe('durable');
    ids.push(run.id);
  }
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(collector.accepted.map(({ event }) => event.event_id)).toEqual([ids[0], ids[2]]);
  expect(quarantined).toMatchObject([{ refusal: { status: 413, code: 'body_too_large' } }]);
});

test('[R-862] maxEventBytes refuses a larger event to its caller', async () => {
  const collector = await fakeCollector();
  const { log, refusals } = hurriedClient({ url: collector.url, maxEventBytes: 1000 });
  const run = log.startRun({ inputs: { text: 'x'.repeat(1000) } });
  await expect(run.started).rejects.toMatchObject({ code: 'body_too_large' });
  expect(refusals).toHaveLength(1);
  for (const maxEventBytes of [0, 1.5, NaN, 2 ** 26 + 1]) {
    expect(() => createClient({ spool: { durability: 'memory' }, maxEventBytes })).toThrow(RangeError);
  }
});
