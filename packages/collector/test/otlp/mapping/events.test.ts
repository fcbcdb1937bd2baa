import { expect, test } from 'vitest';
import { eventsOfLog, eventsOfSpan } from '../../../src/otlp/mapping/mapping.js';
import { OPTIONS } from './drawn.js';
import { answered, endOf, eventsFor, eventsForLog, logWith, MODEL, spanWith } from './made-up.js';

test('[R-1900] ids are UUIDs of version 8 from SHA-256; these were computed by another program', () => {
  const events = eventsFor(
    spanWith({
      ...answered('Yes.'),
      'gen_ai.output.messages': '[{"parts":[{"type":"reasoning","content":"x"}]}]',
    }),
  );
  expect(events.map(({ kind, event_id }) => [kind, event_id])).toEqual([
    ['inference-start', 'babcf586-3e3f-8857-b845-e8e8f1ddafb5'],
    ['internal-artifact', '4d58367a-7374-81c8-92f9-2eda7c1a135f'],
    ['internal-artifact', '8b394a60-7cac-8ece-9d54-8ff5bdb55daa'],
  ]);
  expect(new Set(events.map(({ run_id }) => run_id))).toEqual(
    new Set(['d6eda4de-a1ea-89a7-b00b-96ebec9655a5']),
  );
  const [, output] = eventsFor(spanWith(answered('Yes.')));
  expect(output?.event_id).toBe('8b4304ca-aa16-8005-b119-455479639394');
  const attributes = { 'gen_ai.system': 'openai', 'event.name': 'gen_ai.user.message' };
  const body = { n: [1, 2.5, true, null], content: 'Größe 1.5?' };
  const resource = { 'service.name': 'ward' };
  const [log] = eventsForLog(logWith('gen_ai.user.message', { attributes, body, resource }));
  expect(log?.event_id).toBe('128fefd9-bb15-8347-9838-aa78658b91cf');
});

test('[R-1900] another organisation, trace or span gives other ids', () => {
  const ids = [
    ...eventsFor(spanWith(answered('x'))),
    ...eventsFor(spanWith(answered('x')), { organisation: 'other' }),
    ...eventsFor(spanWith(answered('x'), { traceId: '1'.repeat(32) })),
    ...eventsFor(spanWith(answered('x'), { spanId: '1'.repeat(16) })),
  ].map(({ event_id }) => event_id);
  expect(new Set(ids).size).toBe(8);
});

const RUN = '5d2c2f0e-1c5e-4b61-9c0c-1b1d6a2f7a10';

test.each([
  ['of the span', { 'clinical_events.run.id': RUN.toUpperCase() }, {}, RUN, undefined],
  ['of the resource', {}, { 'clinical_events.run.id': RUN }, RUN, undefined],
  [
    'that is not a UUID',
    { 'clinical_events.run.id': 'batch 7' },
    {},
    'd6eda4de-a1ea-89a7-b00b-96ebec9655a5',
    true,
  ],
  [
    'of zeros',
    { 'clinical_events.run.id': RUN.replace(/\w/g, '0') },
    {},
    'd6eda4de-a1ea-89a7-b00b-96ebec9655a5',
    true,
  ],
])('[R-1900] clinical_events.run.id %s', (_name, attributes, resource, run, ignored) => {
  for (const event of eventsFor(spanWith({ ...MODEL, ...attributes }, { resource }))) {
    expect(event.run_id).toBe(run);
    expect(event.system_metadata.instrumentation['run_id_ignored']).toBe(ignored);
  }
});

const ASKS = { type: 'tool_call', id: 'c1', name: 'find_dose', arguments: { drug: 'x' } };
const ASKING = {
  ...MODEL,
  'gen_ai.output.messages': JSON.stringify([{ parts: [{ type: 'text', content: 'Let me look.' }, ASKS] }]),
};
const AGENT = { ...answered('Yes.'), 'gen_ai.operation.name': 'invoke_agent' };

test.each<[string, object, object, string, string | undefined, string?]>([
  ['a whole answer', answered('Yes.'), {}, 'human-output', 'default'],
  ['a whole answer without captured words', MODEL, {}, 'human-output', 'default'],
  ['an answer without words', answered(''), {}, 'internal-artifact', undefined],
  ['an answer with a tool call', ASKING, {}, 'internal-artifact', undefined],
  [
    'an answer with a tool call, shown',
    { ...ASKING, 'clinical_events.shown': true },
    {},
    'human-output',
    'application',
  ],
  [
    'an answer that is not shown',
    { ...answered('Yes.'), 'clinical_events.shown': false },
    {},
    'internal-artifact',
    undefined,
  ],
  [
    'an answer that is shown, as text',
    { ...answered('Yes.'), 'clinical_events.shown': 'true' },
    {},
    'human-output',
    'application',
  ],
  [
    'an answer with lost attributes',
    answered('Yes.'),
    { droppedAttributesCount: 3 },
    'internal-artifact',
    undefined,
  ],
  ['an agent', AGENT, {}, 'internal-artifact', undefined],
  ['an agent that is shown', { ...AGENT, 'clinical_events.shown': true }, {}, 'human-output', 'application'],
  ['a call that failed', { ...MODEL, 'error.type': '500' }, {}, 'internal-artifact', undefined, 'failed'],
  [
    'a failed call without an answer, shown',
    { ...MODEL, 'error.type': '500', 'clinical_events.shown': true },
    {},
    'internal-artifact',
    undefined,
    'failed',
  ],
  [
    'a failed call with a part of an answer, shown',
    { ...answered('Ye'), 'error.type': '500', 'clinical_events.shown': true },
    {},
    'human-output',
    'application',
    'failed',
  ],
  [
    'an answer that was dropped',
    { ...MODEL, 'clinical_events.shown': true },
    { droppedAttributesCount: 3 },
    'internal-artifact',
    undefined,
    'not read',
  ],
])('[R-1901] %s', (_name, attributes, more, kind, by, ending = 'complete') => {
  const end = endOf(eventsFor(spanWith({ ...attributes }, more)));
  expect(end.kind).toBe(kind);
  expect(end.system_metadata.instrumentation['shown_by']).toBe(by);
  expect((end.output ?? end.artifact)?.['ending']).toBe(ending);
  const marked = endOf(eventsFor(spanWith({ ...attributes }, more), { shown: 'marked' }));
  expect(marked.kind).toBe(by === 'application' ? 'human-output' : 'internal-artifact');
});

test('[R-1901] a tool whose result was shown is also an output', () => {
  const attributes = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'find_dose' };
  const shown = { ...attributes, 'gen_ai.tool.call.result': '{"dose":5}', 'clinical_events.shown': true };
  const [tool, output] = eventsFor(spanWith(shown));
  expect(tool?.artifact).toMatchObject({ artifact_type: 'tool_call', executed: true, result: { dose: 5 } });
  expect(tool?.parent_event_id).toBeUndefined();
  expect(output?.output).toMatchObject({ summary: '{"dose":5}' });
  expect(eventsFor(spanWith(attributes))).toHaveLength(1);
});

test('[R-1900] an answer may have several choices, and each has its reasoning and its tools', () => {
  const parts = [{ type: 'reasoning', content: 'Why.' }, { type: 'text', content: 'No.' }, ASKS];
  const messages = JSON.stringify([{ parts: [{ type: 'text', content: 'Yes.' }] }, { parts }]);
  const events = eventsFor(spanWith({ ...MODEL, 'gen_ai.output.messages': messages }));
  expect(events.map(({ artifact, output }) => artifact ?? output ?? {})).toMatchObject([
    {},
    { artifact_type: 'reasoning_trace', choice: 1, text: 'Why.' },
    { artifact_type: 'tool_call', choice: 1, tool_name: 'find_dose', call_id: 'c1', input: { drug: 'x' } },
    { artifact_type: 'other', choice: 1, text: 'No.' },
    { summary: 'Yes.', choices: 2 },
  ]);
});

test('[R-1901] a failure has a name and a status, and no message', () => {
  const exception = { 'exception.type': 'ServerError', 'exception.message': 'no bed for Mrs Example' };
  const events = [
    { name: 'exception', time: 0n, attributes: { ...exception, 'exception.stacktrace': 'at ward' } },
  ];
  const all = eventsFor(spanWith({ ...MODEL, 'error.type': '503' }, { status: { code: 2 }, events }));
  expect(endOf(all).artifact).toMatchObject({ ending: 'failed', error_name: 'ServerError', status: 503 });
  expect(JSON.stringify(all)).not.toMatch(/Example|at ward/);
});

const SAID = {
  'gen_ai.evaluation.name': 'Dose',
  'gen_ai.evaluation.score.value': 0.9,
  'gen_ai.evaluation.score.label': 'validated',
  'gen_ai.evaluation.explanation': 'As the guideline says.',
};

test.each<[string, object, string, object]>([
  [
    'of a program',
    {},
    'artifact',
    {
      artifact_type: 'explanation',
      evaluation_name: 'Dose',
      score: 0.9,
      label: 'validated',
      text: 'As the guideline says.',
    },
  ],
  [
    'of a person',
    { 'clinical_events.evaluator.type': 'person' },
    'feedback',
    {
      feedback_type: 'survey',
      evaluation_name: 'Dose',
      score: 0.9,
      label: 'validated',
      comment: 'As the guideline says.',
    },
  ],
  [
    'of a person: a thumb',
    { 'clinical_events.evaluator.type': 'person', 'gen_ai.evaluation.score.label': 'Thumbs up' },
    'feedback',
    { feedback_type: 'thumbs', direction: 'up' },
  ],
  [
    'of a person: words',
    {
      'clinical_events.evaluator.type': 'person',
      'gen_ai.evaluation.score.label': undefined,
      'gen_ai.evaluation.score.value': undefined,
    },
    'feedback',
    { feedback_type: 'text', comment: 'As the guideline says.' },
  ],
])('[R-1901] an evaluation %s', (_name, more, payload, expected) => {
  const attributes = { ...SAID, ...more };
  const result = { name: 'gen_ai.evaluation.result', time: 0n, attributes };
  const [start, ofSpan] = eventsFor(spanWith(MODEL, { events: [result] }));
  expect(ofSpan?.[payload]).toMatchObject(expected);
  expect(ofSpan?.parent_event_id).toBe(start?.event_id);
  const [ofLog] = eventsForLog(logWith(result.name, { attributes }));
  expect(ofLog?.[payload]).toMatchObject(expected);
  expect(ofLog?.parent_event_id).toBeUndefined();
  const [alone] = eventsFor(spanWith({}, { events: [result] }));
  expect(alone?.[payload]).toMatchObject(expected);
});

test.each([
  ['validated', 'validated'],
  ['Contradicted', 'contradicted'],
  ['good', 'unknown'],
])('[R-1901] an evaluation named by the operator is an outcome: %s', (label, type) => {
  const attributes = { ...SAID, 'gen_ai.evaluation.score.label': label };
  const log = logWith('gen_ai.evaluation.result', { attributes });
  const [outcome] = eventsForLog(log, { outcomes: new Set(['Dose']) });
  expect(outcome?.outcome).toMatchObject({ outcome_type: type, evaluation_name: 'Dose', score: 0.9, label });
  const [other] = eventsForLog(log, { outcomes: new Set(['Tone']) });
  expect(other?.kind).toBe('internal-artifact');
});

test('[R-1901] a log record is an artifact of the run, has the run of its span, and does not end it', () => {
  const attributes = { 'gen_ai.input.messages': '[{"role":"user"}]', 'gen_ai.request.model': 'gpt-4o' };
  const [artifact, ...none] = eventsForLog(
    logWith('gen_ai.client.inference.operation.details', { attributes, body: { a: 1 } }),
  );
  expect(none).toEqual([]);
  expect(artifact?.run_id).toBe(eventsFor(spanWith(MODEL))[0]?.run_id);
  expect(artifact?.artifact).toMatchObject({
    artifact_type: 'other',
    model: 'gpt-4o',
    input_messages: [{ role: 'user' }],
    body: { a: 1 },
  });
  expect(artifact?.artifact).not.toHaveProperty('ending');
  expect(artifact?.parent_event_id).toBeUndefined();
});

test.each([
  [
    'start and end',
    1_000_000_000n,
    1_900_400_210n,
    '1970-01-01T00:00:01.000Z',
    '1970-01-01T00:00:01.900400210Z',
    900,
    undefined,
  ],
  [
    'an end before the start',
    2_000_000_000n,
    1_000_000_000n,
    '1970-01-01T00:00:02.000Z',
    '1970-01-01T00:00:01.000Z',
    undefined,
    'reversed',
  ],
  [
    'no start',
    0n,
    1_000_000_000n,
    '1970-01-01T00:00:01.000Z',
    '1970-01-01T00:00:01.000Z',
    undefined,
    'no start',
  ],
  ['no end', 1_000_000_000n, 0n, '1970-01-01T00:00:01.000Z', '1970-01-01T00:00:01.000Z', undefined, 'no end'],
  ['neither', 0n, 0n, '1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z', undefined, 'none'],
  [
    'a year beyond 9999',
    1_000_000_000n,
    1n << 70n,
    '1970-01-01T00:00:01.000Z',
    '1970-01-01T00:00:01.000Z',
    undefined,
    'no end',
  ],
  [
    'a time below zero',
    -5n,
    1_000_000_000n,
    '1970-01-01T00:00:01.000Z',
    '1970-01-01T00:00:01.000Z',
    undefined,
    'no start',
  ],
  [
    'the first and the last time',
    1n,
    (1n << 64n) - 1n,
    '1970-01-01T00:00:00.000000001Z',
    '2554-07-21T23:34:33.709551615Z',
    undefined,
    undefined,
  ],
])('[R-1901] %s', (_name, start, end, from, to, latency, times) => {
  const events = eventsFor(spanWith(answered('Yes.'), { start, end }));
  expect(events.map(({ timestamp }) => timestamp)).toEqual([from, to]);
  expect(events.map(({ system_metadata }) => system_metadata['latency_ms'])).toEqual([undefined, latency]);
  expect(events[1]?.system_metadata.instrumentation['times']).toBe(times);
});

test('[R-1901] the user, the target, and the system of a call', () => {
  const resource = {
    'service.name': 'ward-assistant',
    'host.name': 'node-1',
    'process.pid': 7,
    'clinical_events.user.type': 'clinician',
  };
  const identity = {
    'enduser.id': 'dr-3',
    'clinical_events.target.id': 'p-7',
    'clinical_events.target.type': 'patient',
  };
  const attributes = { ...MODEL, ...identity, 'session.id': 'conv-1', 'deployment.environment.name': 'span' };
  const parent = { parentSpanId: 'c'.repeat(16), isParentRemote: true };
  const sdk = {
    'telemetry.sdk.name': 'opentelemetry',
    'telemetry.sdk.language': 'python',
    'telemetry.sdk.version': '1.39.0',
  };
  const [start] = eventsFor(
    spanWith(attributes, { ...parent, resource: { ...resource, ...sdk, 'deployment.environment': 'test' } }),
  );
  expect(start).toMatchObject({
    user_identity: { caller_id: 'dr-3', caller_type: 'clinician' },
    target_identity: { target_id: 'p-7', target_type: 'patient' },
    system_metadata: { app_name: 'ward-assistant', hostname: 'node-1', proc_id: '7', environment: 'test' },
  });
  expect(start?.system_metadata.instrumentation).toEqual({
    ...{ by: 'otlp', trace_id: '0af7651916cd43dd8448eb211c80319c', span_id: 'b7ad6b7169203331' },
    ...{ parent_span_id: 'c'.repeat(16), parent_is_remote: true, conversation_id: 'conv-1' },
    ...{ scope: 'hand', scope_version: '1.0', sdk: 'opentelemetry python 1.39.0' },
  });
  const [other] = eventsFor(spanWith({ ...MODEL, 'user.id': 'a\u0000b' }));
  expect(other).not.toHaveProperty('user_identity');
  expect(other).not.toHaveProperty('target_identity');
});

test('[R-1901] the request: parameters, offered tools, and all messages if there are several', () => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Which dose?' },
  ];
  const tools = JSON.stringify([{ type: 'function', function: { name: 'find_dose' } }, { name: 'other' }]);
  const request = {
    'gen_ai.request.temperature': 0.2,
    'gen_ai.request.max_tokens': 100,
    'gen_ai.request.stream': true,
  };
  const attributes = {
    ...MODEL,
    ...request,
    'gen_ai.tool.definitions': tools,
    'gen_ai.input.messages': JSON.stringify(messages),
  };
  const [start] = eventsFor(spanWith(attributes));
  expect(start?.inputs).toEqual({
    ...{ operation: 'chat', streamed: true, temperature: 0.2, max_tokens: 100 },
    ...{ tools: ['find_dose', 'other'], prompt: 'Which dose?', messages },
  });
});

test('[R-1901] without ids there are no events', () => {
  expect(eventsOfSpan(spanWith(MODEL, { traceId: '' }), OPTIONS)).toEqual({
    events: [],
    reason: 'no_trace_id',
  });
  expect(eventsOfSpan(spanWith(MODEL, { spanId: '' }), OPTIONS)).toEqual({
    events: [],
    reason: 'no_span_id',
  });
  const log = logWith('gen_ai.choice', { traceId: '' });
  expect(eventsOfLog(log, OPTIONS)).toEqual({ events: [], reason: 'no_trace_id' });
  expect(eventsForLog({ ...log, attributes: { 'clinical_events.run.id': RUN } })[0]?.run_id).toBe(RUN);
  expect(eventsOfLog(logWith('http.request', {}), OPTIONS).reason).toBe('not_about_models');
  expect(eventsOfSpan(spanWith({ 'gen_ai.operation.name': 'retrieval' }), OPTIONS).reason).toBe(
    'no_documents',
  );
});
