import { type Context, ROOT_CONTEXT, type Span, trace } from '@opentelemetry/api';
import { TracerProvider } from '@opentelemetry/sdk-trace';
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
import { BasicTracerProvider as BasicTracerProvider1 } from 'opentelemetry-trace-1.19';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Answer } from '@clinical-events/protocol/spans';
import { RunSpanProcessor } from '../src/opentelemetry.js';
import { findingsOf, identify, type SpanData } from '@clinical-events/protocol/spans';
import {
  filled,
  expectedOf,
  folders,
  inOrder,
  type RecordedSpan,
  recordings,
  replay,
  spansOf,
  timeOf,
} from './otlp-spans.js';
import { expectMadeBy, recording } from './recording.js';

/** The captured events in the form of the expectations. */
async function captured(spans: readonly RecordedSpan[], play = replay): Promise<unknown[]> {
  const { log, events } = await recording();
  const answers = new Map<string, Answer>();
  const kinds = new Map<string, unknown>();
  play(
    spans,
    new RunSpanProcessor(log, {
      describe: ({ runId, answer, request }) => {
        if (runId === undefined || !answer) return {};
        answers.set(runId, answer);
        kinds.set(runId, identify(request as SpanData, true, true).kind);
        return {};
      },
    }),
  );
  const all = await events();
  expectMadeBy('opentelemetry', all);
  const written = JSON.stringify(all);
  for (const { text, reasoning } of answers.values())
    for (const words of [text, reasoning])
      if (words.length > 12) expect(written).not.toContain(JSON.stringify(words).slice(1, -1));
  expect(written).not.toContain('server had an error');
  const starts = all.filter(({ kind }) => kind === 'inference-start');
  const nameOf = (start: (typeof all)[number]) =>
    (start as unknown as { model_instance: { model_id: string } }).model_instance.model_id;
  return starts.map((start) => {
    const own = all.filter(({ run_id, kind }) => run_id === start.run_id && kind !== 'inference-start');
    const ends = own.filter(({ output, artifact }) => 'ending' in (output ?? artifact ?? {}));
    expect(ends).toHaveLength(1);
    const [end] = ends;
    const said = end?.output ?? end?.artifact ?? {};
    const { text = '', reasoning = '', toolCalls = [] } = answers.get(start.run_id) ?? {};
    const of = (type: string) =>
      own.flatMap(({ artifact }) => (artifact?.['artifact_type'] === type ? [artifact] : []));
    const outer = starts.find(({ event_id }) => event_id === start.parent_event_id);
    const executed = of('tool_call').filter((tool) => tool['executed'] === true);
    expect(of('tool_call').length - executed.length).toBe(toolCalls.length);
    expect(of('reasoning_trace')).toHaveLength(reasoning === '' ? 0 : 1);
    const shownBy = end?.system_metadata.instrumentation?.['shown_by'];
    return filled({
      run: nameOf(start),
      nested_in: outer && nameOf(outer),
      kind: kinds.get(start.run_id),
      ending: said['ending'],
      shown: end?.kind === 'human-output',
      shown_by: shownBy === 'default' ? undefined : shownBy,
      ...{ text, reasoning },
      tools_asked: toolCalls.map(({ name, id }) => [name, id].join(' ').trim()),
      tools_executed: executed
        .map((tool) => [tool['tool_name'], tool['call_id']].join(' ').trim())
        .sort(byId),
      documents: of('text_chunk').length || undefined,
      evaluations: of('explanation').map((made) => [made['evaluation_name'], made['score']].join(' ').trim()),
      usage: counted(said['usage']),
      usage_of_all: counted(said['usage_of_all']),
      response_model: said['response_model'],
      error_name: said['error_name'],
      status: said['status'],
    });
  });
}

/** Parallel tools end in any order. */
function byId(a: string, b: string): number {
  return (a.split(' ')[1] ?? '') < (b.split(' ')[1] ?? '') ? -1 : 1;
}

/** Some emitters write 0 where others write nothing. */
function counted(usage: unknown): object {
  return Object.fromEntries(Object.entries(usage ?? {}).filter(([, count]) => count !== 0));
}

test.each(recordings)('[R-865] spans of %s become the expected runs', async (name) => {
  expect(await captured(spansOf(name))).toEqual(expectedOf(name));
});

interface Tracer {
  startSpan(name: string, options: { startTime: [number, number] }, context?: Context): Span;
}

/** Sets the attributes after the beginning of a span, as libraries do. */
function throughSdk(provider: (processor: RunSpanProcessor) => (scope: string) => Tracer): typeof replay {
  return (spans, processor) => {
    const tracers = provider(processor);
    const made = new Map<string, Span>();
    inOrder(
      spans,
      (span) => {
        const parent = made.get(span.parentSpanId ?? '');
        const around = parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT;
        const started = tracers(span.scope).startSpan(span.name, { startTime: timeOf(span.start) }, around);
        started.setAttributes(span.attributes);
        made.set(span.spanId, started);
      },
      (span) => {
        const started = made.get(span.spanId);
        for (const { name, attributes } of span.events) started?.addEvent(name, attributes);
        started?.setStatus({ code: span.status.code });
        started?.end(timeOf(span.end));
      },
    );
  };
}

const SDKS = {
  'version 1': throughSdk((processor) => {
    const provider = new BasicTracerProvider1();
    provider.addSpanProcessor(processor);
    return (scope) => provider.getTracer(scope);
  }),
  'version 2': throughSdk((processor) => {
    const provider = new BasicTracerProvider({ spanProcessors: [processor] });
    return (scope) => provider.getTracer(scope);
  }),
  'version 3': throughSdk((processor) => {
    const provider = new TracerProvider({ spanProcessors: [processor] });
    return (scope) => provider.getTracer(scope);
  }),
};

const SOME = [
  '02-genai-current-agent-tools-parallel',
  '06-genai-1.27-span-events-tools',
  '21-ai6-stream-both-tools',
  '33-ai7-error500',
  '56-oi-langchain-agent-both-tools',
  '65-tl-anthropic-thinking-tool',
  '85-langfuse5-observations',
  '95-traceloop-sdk-workflow',
];

for (const [version, play] of Object.entries(SDKS)) {
  test.each(SOME)(`[R-865] through OpenTelemetry's SDK, ${version}: %s`, async (name) => {
    expect(await captured(spansOf(name), play)).toEqual(expectedOf(name));
  });
}

const MESSAGES = 'llm.output_messages.0.message';

test.each<[string, Record<string, unknown>, object]>([
  [
    'OpenLLMetry before it adopted the names of GenAI',
    {
      ...{ 'llm.request.type': 'chat', 'gen_ai.request.model': 'm', 'gen_ai.system': 'OpenAI' },
      ...{ 'gen_ai.completion.0.content': 'Low dose.', 'gen_ai.completion.0.finish_reason': 'tool_calls' },
      ...{
        'gen_ai.completion.0.tool_calls.0.id': 'c1',
        'gen_ai.completion.0.tool_calls.0.name': 'find_dose',
      },
      ...{ 'gen_ai.completion.1.content': 'High dose.' },
      ...{ 'gen_ai.usage.prompt_tokens': 11, 'gen_ai.usage.completion_tokens': 7 },
    },
    {
      text: 'Low dose.',
      toolCalls: [{ id: 'c1', name: 'find_dose', input: '', byProvider: false }],
      usage: { input_tokens: 11, output_tokens: 7 },
    },
  ],
  [
    'a model as the only name',
    {
      'gen_ai.request.model': 'm',
      'gen_ai.output.messages': '[{"parts":[{"type":"text","content":"Yes."}]}]',
    },
    { text: 'Yes.' },
  ],
  [
    'content that OpenInference has hidden',
    {
      'openinference.span.kind': 'LLM',
      [`${MESSAGES}.content`]: '__REDACTED__',
      'output.value': '__REDACTED__',
    },
    { text: '' },
  ],
  [
    'separate token counts of Langfuse',
    {
      'langfuse.observation.type': 'generation',
      'langfuse.observation.usage_details':
        '{"input":40,"output":20,"total":75,"input_cached_tokens":12,"output_reasoning_tokens":3}',
    },
    {
      usage: {
        ...{ input_tokens: 52, output_tokens: 23, cache_read_input_tokens: 12 },
        reasoning_output_tokens: 3,
      },
    },
  ],
  [
    'a call that the application aborted',
    { 'gen_ai.operation.name': 'chat', 'error.type': 'APIUserAbortError' },
    { ending: 'aborted' },
  ],
])('[R-865] %s', (_name, attributes, expected) => {
  const span = { name: 'call', attributes, status: { code: 0 } };
  const { kind } = identify(span, true, true);
  expect(kind).toBe('model');
  const { answer, ending } = findingsOf(span, 'model');
  const { text, toolCalls, usage } = answer;
  expect({ text, toolCalls, usage, ending }).toMatchObject(expected);
  if ('gen_ai.completion.1.content' in attributes) expect(answer.choices).toHaveLength(2);
});

test('[R-865] every recording in the table exists', () => {
  const table = readFileSync('docs/reference/model-answers.md', 'utf8').split('\n## Spans\n')[1] ?? '';
  const named = [...table.matchAll(/`(\d{2,3})`/g)].map(([, number]) => number);
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((number) => !folders.some((name) => name.startsWith(`${number}-`)))).toEqual([]);
});
