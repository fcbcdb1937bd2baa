import { expect, test } from 'vitest';
import { Random, runs, SEED } from '../../../test/property-runs.js';
import { RunSpanProcessor } from '../src/opentelemetry.js';
import { findingsOf, identify, type SpanData } from '@clinical-events/protocol/spans';
import { recordings, replay, spansOf } from './otlp-spans.js';
import { recording, SECRET } from './recording.js';

const DEEP = '['.repeat(50_000);
const VALUES: readonly unknown[] = [
  ...[
    undefined,
    null,
    true,
    -1,
    0.5,
    NaN,
    2 ** 60,
    '',
    ' ',
    SECRET,
    '{',
    DEEP,
    '[null, 1, "x", {}]',
    '"\\ud800"',
  ],
  ...[[], [null], [[]], {}, { parts: 1 }, [{ parts: [null, 1, { type: 'text', content: {} }] }]],
  ...[
    '{"__proto__": {"x": 1}}',
    '{"messages": [null]}',
    '[{"parts": [{"type": "tool_call", "arguments": 1}]}]',
  ],
];
const NAMES = [
  'llm.output_messages.__proto__.message.content',
  'llm.output_messages.4095.message.content',
  'llm.output_messages.4096.message.content',
  'llm.output_messages.99999999999.message.contents.0.message_content.text',
  'gen_ai.completion.0.tool_calls.99999.name',
  ...['retrieval.documents.0.document.content', '__proto__', 'constructor', 'gen_ai.output.messages'],
  ...['gen_ai.operation.name', 'openinference.span.kind', 'langfuse.observation.type', 'ai.operationId'],
  ...['error.type', 'http.response.status_code', 'clinical_events.shown', 'gen_ai.conversation.id'],
];
const NAMED = /model|agent\.name|workflow|entity\.name|functionId|provider|system|vendor/;

test('[R-865] any spans: nothing is thrown, no prototype changes, and each run has one end', async () => {
  const spans = recordings.flatMap(spansOf);
  const words = new Set<string>();
  for (let number = 0; number < runs(20_000, 2_000); number += 1) {
    const random = new Random(SEED + number);
    const span = random.of(spans);
    const mutated: Record<string, unknown> = { ...span.attributes };
    const names = [...Object.keys(mutated), ...NAMES];
    for (let times = random.below(6); times >= 0; times -= 1) {
      const name = random.of(names);
      if (random.below(4) === 0) Reflect.deleteProperty(mutated, name);
      else mutated[name] = random.below(2) === 0 ? random.of(VALUES) : span.attributes[random.of(names)];
      // Names of models and agents are recorded unchanged.
      if (NAMED.test(name) && mutated[name] === SECRET) Reflect.deleteProperty(mutated, name);
    }
    const data = { ...span, attributes: mutated } as SpanData;
    for (const isRoot of [true, false]) {
      const { kind } = identify(data, isRoot, true);
      if (kind) words.add(typeof findingsOf(data, kind).answer.text);
    }
    if (number % 40 > 0) continue;
    const { log, events } = await recording();
    replay([{ ...span, attributes: mutated }], new RunSpanProcessor(log));
    const all = await events();
    const starts = all.filter(({ kind }) => kind === 'inference-start');
    const ends = all.filter(({ artifact, output }) => 'ending' in (artifact ?? output ?? {}));
    expect(ends.length, `SEED=${SEED}, span ${number}`).toBe(starts.length);
    expect(JSON.stringify(all)).not.toContain(SECRET);
  }
  expect([...words]).toEqual(['string']);
  expect(Object.keys(Object.prototype)).toEqual([]);
  expect(Object.keys(Array.prototype)).toEqual([]);
});

test('[R-865] an index above 4,095 is left out', () => {
  const attributes: Record<string, unknown> = { 'openinference.span.kind': 'LLM' };
  const message = (index: number) => `llm.output_messages.${index}.message.content`;
  for (let index = 0; index < 10_000; index += 1) attributes[message(index)] = 'x';
  const { answer } = findingsOf({ name: 'LLM', attributes, status: { code: 0 } }, 'model');
  expect(answer.text).toHaveLength(4096);
});
