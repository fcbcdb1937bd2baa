import { context, trace, type Span } from '@opentelemetry/api';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { expect, onTestFinished, test, vi } from 'vitest';
import { RunSpanProcessor, type InstrumentationOptions, type RunsIn } from '../src/opentelemetry.js';
import { expectMadeBy, recording, SECRET } from './recording.js';

function tracing(runs: RunsIn, options?: InstrumentationOptions) {
  const exporter = new InMemorySpanExporter();
  const spanProcessors = [new RunSpanProcessor(runs, options), new SimpleSpanProcessor(exporter)];
  const tracer = new BasicTracerProvider({ spanProcessors }).getTracer('test');
  const start = (name: string, attributes: Record<string, string> = {}, parent?: Span) =>
    tracer.startSpan(
      name,
      { attributes },
      parent ? trace.setSpan(context.active(), parent) : context.active(),
    );
  return { start, exporter };
}

const CHAT = { 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'openai' };
const MODEL = { ...CHAT, 'gen_ai.request.model': 'gpt-9' };
const message = (content: string) =>
  JSON.stringify([{ role: 'assistant', parts: [{ type: 'text', content }] }]);

function answered(span: Span, reason: string) {
  span.setAttributes({
    'gen_ai.response.id': 'r1',
    'gen_ai.response.model': 'gpt-9-2026',
    'gen_ai.response.finish_reasons': [reason],
    'gen_ai.usage.input_tokens': 11,
    'gen_ai.usage.output_tokens': 7,
  });
  span.end();
}

test('[R-865] OpenTelemetry: an agent becomes nested runs with artifacts', async () => {
  const { log, events } = await recording();
  const { start, exporter } = tracing(log);
  const request = start('POST /chat');
  const agent = start(
    'invoke_agent nurse',
    { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'nurse' },
    request,
  );
  const step = start('a step', {}, agent);
  const asking = start('chat gpt-9', { ...MODEL, 'gen_ai.input.messages': message(SECRET) }, step);
  answered(asking, 'tool_calls');
  const tool = start(
    'execute_tool find_dose',
    {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'find_dose',
      'gen_ai.tool.call.id': 'call_1',
      'gen_ai.tool.call.arguments': SECRET,
    },
    step,
  );
  const inner = start('chat small', MODEL, tool);
  answered(inner, 'stop');
  tool.end();
  step.end();
  agent.end();
  request.end();
  const all = await events();
  const [outer, first, wanted, within, output, called, ended, ...more] = all;
  expect(more).toEqual([]);
  expect(outer).toMatchObject({
    kind: 'inference-start',
    model_instance: { model_id: 'nurse' },
    inputs: { operation: 'invoke_agent' },
    system_metadata: { instrumentation: { by: 'opentelemetry', trace_id: agent.spanContext().traceId } },
  });
  expect(first).toMatchObject({
    ...{ kind: 'inference-start', parent_event_id: outer?.event_id },
    model_instance: { model_id: 'gpt-9', provider: 'openai' },
  });
  expect(wanted).toMatchObject({
    ...{ kind: 'internal-artifact', run_id: first?.run_id },
    artifact: { artifact_type: 'other', finish_reason: 'tool_calls' },
  });
  expect(within?.parent_event_id).toBe(outer?.event_id);
  expect(output).toMatchObject({
    ...{ kind: 'human-output', run_id: within?.run_id },
    output: {
      response_id: 'r1',
      response_model: 'gpt-9-2026',
      usage: { input_tokens: 11, output_tokens: 7 },
    },
  });
  expect(called).toMatchObject({
    run_id: outer?.run_id,
    artifact: { artifact_type: 'tool_call', tool_name: 'find_dose', call_id: 'call_1' },
  });
  // An agent's span without words is not an output.
  expect(ended).toMatchObject({ kind: 'internal-artifact', artifact: { ending: 'complete' } });
  expectMadeBy('opentelemetry', all);
  expect(JSON.stringify(all)).not.toContain(SECRET);
  expect(exporter.getFinishedSpans()).toHaveLength(6);
});

test('[R-865] OpenTelemetry: events have the times of their spans, also of those named late', async () => {
  const { log, events } = await recording();
  const tracer = new BasicTracerProvider({ spanProcessors: [new RunSpanProcessor(log)] }).getTracer('test');
  const span = tracer.startSpan('chat', { startTime: new Date('2026-03-01T10:00:00.000Z') });
  span.setAttributes(MODEL);
  span.end(new Date('2026-03-01T10:00:02.500Z'));
  const [start, output] = await events();
  expect(start).toMatchObject({
    timestamp: '2026-03-01T10:00:00.000Z',
    model_instance: { model_id: 'gpt-9' },
  });
  expect(output).toMatchObject({
    timestamp: '2026-03-01T10:00:02.500Z',
    system_metadata: { latency_ms: 2500 },
  });
});

test('[R-897] OpenTelemetry: the application decides which answers are shown', async () => {
  const { log, events } = await recording();
  const shown: InstrumentationOptions['shown'] = ({ model }) => model === 'gpt-9';
  const { start } = tracing(log, { shown });
  answered(start('chat', MODEL), 'stop');
  answered(start('chat', { ...CHAT, 'gen_ai.request.model': 'router' }), 'stop');
  const [, first, , second] = await events();
  expect([first?.kind, second?.kind]).toEqual(['human-output', 'internal-artifact']);
});

test('[R-865] OpenTelemetry: describe chooses the content of spans', async () => {
  const { log, events, contents } = await recording();
  const { start } = tracing(log, { describe: ({ answer }) => ({ outputContent: answer?.text }) });
  const span = start('chat', MODEL);
  span.setAttribute('gen_ai.output.messages', message(SECRET));
  span.end();
  expect((await events())[1]?.output?.['output_uri']).toMatch(/^sha256:/);
  expect(contents).toEqual([SECRET]);
});

test('[R-865] OpenTelemetry: other spans leave no state, and a closed client does not matter', async () => {
  const { log, events } = await recording();
  const { start, exporter } = tracing(log);
  const request = start('GET /');
  start('SELECT', { 'gen_ai.operation.name': 'embeddings' }, request).end();
  start('execute_tool', { 'gen_ai.operation.name': 'execute_tool' }, request).end();
  request.end();
  expect(await events()).toEqual([]);
  await log.close();
  start('chat', MODEL).end();
  expect(exporter.getFinishedSpans()).toHaveLength(4);
});

test('[R-865] OpenTelemetry: the attribute `shown` of a span precedes the option', async () => {
  const { log, events } = await recording();
  const { start } = tracing(log, { shown: true });
  const ask = (attributes: Record<string, string | boolean>) => {
    const span = start('call', { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'nurse' });
    span.setAttributes(attributes);
    span.end();
  };
  ask({ 'gen_ai.output.messages': message(SECRET), 'clinical_events.shown': false });
  ask({ 'clinical_events.shown': true });
  ask({ 'gen_ai.output.messages': message(SECRET) });
  ask({});
  const ends = (await events()).filter(({ kind }) => kind !== 'inference-start');
  expect(ends.map(({ kind }) => kind === 'human-output')).toEqual([false, true, true, false]);
  expect(ends[1]?.system_metadata.instrumentation?.['shown_by']).toBe('application');
});

test('[R-865] OpenTelemetry: each event has the `gen_ai.conversation.id` of its span', async () => {
  const { log, events } = await recording();
  tracing(log)
    .start('chat', { ...MODEL, 'gen_ai.conversation.id': 'c-1', 'gen_ai.agent.name': 'nurse' })
    .end();
  const all = await events();
  expect(all.map((event) => event.system_metadata.instrumentation?.['conversation_id'])).toEqual([
    'c-1',
    'c-1',
  ]);
  expect(all[0]).toMatchObject({ model_instance: { model_id: 'gpt-9' } });
});

test('[R-865] OpenTelemetry: the run of a model names its agent, that of an agent its model', async () => {
  const { log, events } = await recording();
  const tracer = tracing(log);
  tracer.start('chat', { ...MODEL, 'gen_ai.agent.name': 'ward nurse' }).end();
  const agent = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'ward nurse' };
  tracer.start('agent', { ...MODEL, ...agent }).end();
  const starts = (await events()).filter(({ kind }) => kind === 'inference-start');
  expect(starts).toMatchObject([
    {
      model_instance: { model_id: 'gpt-9' },
      system_metadata: { instrumentation: { agent_name: 'ward nurse' } },
    },
    {
      model_instance: { model_id: 'ward nurse' },
      system_metadata: { instrumentation: { agent_model: 'gpt-9' } },
    },
  ]);
});

test('[R-865] OpenTelemetry: one warning for each reason to pass over spans, without words', async () => {
  const { log, events } = await recording();
  const warnings: string[] = [];
  vi.spyOn(process, 'emitWarning').mockImplementation((words) => warnings.push(String(words)));
  onTestFinished(() => {
    vi.restoreAllMocks();
  });
  const { start } = tracing(log);
  start(SECRET, { 'gen_ai.operation.name': 'embeddings' }).end();
  start(SECRET, { 'gen_ai.operation.name': 'embeddings' }).end();
  start(SECRET, { 'llm.of.tomorrow': SECRET }).end();
  start(SECRET, { 'db.query.text': SECRET }).end();
  expect(await events()).toEqual([]);
  const about = 'spans about models are passed over';
  expect(warnings).toEqual([`${about}: embeddings`, `${about}: unknown names`]);
});
