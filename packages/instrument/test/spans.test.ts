import { expect, test } from 'vitest';
import type { Answer } from '../src/answer.js';
import { RunSpanProcessor } from '../src/opentelemetry.js';
import { identify } from '../src/spans/span.js';
import { expectedOf, type RecordedSpan, recordings, replay, spansOf } from './otlp-spans.js';
import { expectMadeBy, recording } from './recording.js';

/** What a processor has captured, in the form of the expectations. */
async function captured(spans: readonly RecordedSpan[], play = replay): Promise<unknown[]> {
  const { log, events } = await recording();
  const answers = new Map<string, Answer>();
  play(
    spans,
    new RunSpanProcessor(log, {
      describe: ({ runId, answer }) => {
        if (runId !== undefined && answer) answers.set(runId, answer);
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
    const marks = start.system_metadata.instrumentation;
    const span = spans.find(({ spanId }) => spanId === marks?.['span_id']);
    const shownBy = end?.system_metadata.instrumentation?.['shown_by'];
    return filled({
      run: nameOf(start),
      nested_in: outer && nameOf(outer),
      kind: span && identify(span, true, true).kind,
      ending: said['ending'],
      shown: end?.kind === 'human-output',
      shown_by: shownBy === 'default' ? undefined : shownBy,
      ...{ text, reasoning },
      tools_asked: toolCalls.map(({ name, id }) => [name, id].join(' ').trim()),
      tools_executed: executed.map((tool) => [tool['tool_name'], tool['call_id']].join(' ').trim()).sort(byId),
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

/** Tools that run beside each other end in any order. */
function byId(a: string, b: string): number {
  return (a.split(' ')[1] ?? '') < (b.split(' ')[1] ?? '') ? -1 : 1;
}

/** Without what is not there. */
function filled(object: object): object {
  const isEmpty = (value: unknown) =>
    value === undefined || value === '' || (typeof value === 'object' && Object.keys(value ?? {}).length === 0);
  return Object.fromEntries(Object.entries(object).filter(([, value]) => !isEmpty(value)));
}

/** Some emitters say 0 where others say nothing. */
function counted(usage: unknown): object {
  return Object.fromEntries(Object.entries((usage ?? {}) as object).filter(([, count]) => count !== 0));
}

test.each(recordings)('[R-1680] spans of %s become the runs that a person sees in them', async (name) => {
  expect(await captured(spansOf(name))).toEqual(expectedOf(name));
});
