/** Forms of spans that emitters write beside those of the recordings; public reports of them are in the table. */
import { expect, test } from 'vitest';
import { RunSpanProcessor } from '../src/opentelemetry.js';
import { findingsOf, identify } from '@clinical-events/protocol/spans';
import { type RecordedSpan, sdkSpan } from './otlp-spans.js';
import { recording } from './recording.js';

const CHAT = { 'gen_ai.operation.name': 'chat' };

function span(more: Partial<RecordedSpan>): RecordedSpan {
  return {
    ...{ name: 'call', traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), parentSpanId: undefined },
    ...{ start: 1n, end: 2n, attributes: {}, events: [], status: { code: 0 }, scope: '' },
    droppedAttributesCount: 0,
    ...more,
  };
}

function found(attributes: Record<string, unknown>) {
  const { kind } = identify(span({ attributes }), true, true);
  return findingsOf(span({ attributes }), kind ?? 'model');
}

test('[R-1601] spans within many others are each asked once for what they are', async () => {
  const { log } = await recording();
  const processor = new RunSpanProcessor(log);
  const idOf = (number: number) => number.toString(16).padStart(16, '0');
  let asked = 0;
  for (let number = 1; number <= 100; number += 1) {
    const parentSpanId = number === 1 ? undefined : idOf(number - 1);
    const made = sdkSpan(span({ spanId: idOf(number), parentSpanId }));
    const attributes = {};
    Object.defineProperty(made, 'attributes', {
      get: () => {
        asked += 1;
        return attributes;
      },
    });
    processor.onStart(made);
  }
  expect(asked).toBe((100 * 101) / 2);
});

test.each([
  ['asyncio.CancelledError', 'aborted', 'asyncio.CancelledError'],
  ['DEADLINE_EXCEEDED', undefined, 'TimeoutError'],
  ['ETIMEDOUT', undefined, 'TimeoutError'],
])('[R-1680] a span that failed with %s says how it ended', (type, ending, errorName) => {
  const answer = found({ ...CHAT, 'error.type': type, 'http.response.status_code': 200 });
  expect(answer).toMatchObject({ ending, errorName, failed: true });
});

test.each([
  ['a list', ['tool_calls'], 'tool_calls'],
  ['JSON', '["tool_calls"]', 'tool_calls'],
  ['text', 'tool_calls', 'tool_calls'],
  ['an empty list', '[]', undefined],
])('[R-1680] reasons are read from %s', (_form, reasons, reason) => {
  expect(found({ ...CHAT, 'gen_ai.response.finish_reasons': reasons }).answer.finishReason).toBe(reason);
});

test('[R-1680] a reason that stands for one that never came is no complete answer', () => {
  expect(found({ ...CHAT, 'gen_ai.response.finish_reasons': ['error'] }).failed).toBe(true);
});

test.each(['embedding', 'image', 'audio_transcription', 'moderation'])(
  '[R-1680] an operation that answers no person is no run: %s',
  (operation) => {
    const attributes = { 'gen_ai.operation.name': operation, 'gen_ai.request.model': 'm' };
    expect(identify(span({ attributes }), true, true)).toMatchObject({
      kind: undefined,
      reason: 'other operations',
    });
  },
);

test('[R-1680] of the messages of an agent the last with words is its answer', () => {
  const asks = { role: 'assistant', parts: [{ type: 'tool_call', id: 'call_1', name: 'look_up' }] };
  const says = { role: 'assistant', parts: [{ type: 'text', content: 'Halve the dose.' }] };
  const messages = JSON.stringify([asks, says]);
  const { answer } = found({ 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.output.messages': messages });
  expect(answer.text).toBe('Halve the dose.');
  expect(answer.choices).toHaveLength(1);
});

test('[R-1680] OpenInference: the legacy function call is a tool call, and messages of one answer are one', () => {
  const { answer } = found({
    'openinference.span.kind': 'LLM',
    'llm.output_messages.0.message.content': 'Let me look. ',
    'llm.output_messages.1.message.content': 'One moment.',
    'llm.output_messages.1.message.function_call_name': 'look_up',
    'llm.output_messages.1.message.function_call_arguments_json': '{"drug":"apixaban"}',
  });
  expect(answer.text).toBe('Let me look. One moment.');
  expect(answer.toolCalls).toMatchObject([{ name: 'look_up', input: '{"drug":"apixaban"}' }]);
});

test('[R-1680] OpenInference: choices are each by itself', () => {
  const { answer } = found({
    'openinference.span.kind': 'LLM',
    'llm.invocation_parameters': '{"n":2}',
    'llm.output_messages.0.message.content': 'Yes.',
    'llm.output_messages.1.message.content': 'No.',
  });
  expect(answer.choices.map(({ text }) => text)).toEqual(['Yes.', 'No.']);
});

test.each([
  ['cache_read_tokens', 'cache_read_input_tokens'],
  ['input_cached_tokens', 'cache_read_input_tokens'],
  ['input_tokens.cached', 'cache_read_input_tokens'],
  ['cache_write.input_tokens', 'cache_creation_input_tokens'],
  ['cache_write_tokens', 'cache_creation_input_tokens'],
  ['output_tokens.reasoning', 'reasoning_output_tokens'],
])('[R-1680] tokens under the name gen_ai.usage.%s are counted', (name, counted) => {
  const usage = { 'gen_ai.usage.input_tokens': 90, 'gen_ai.usage.output_tokens': 8 };
  const { answer } = found({ ...CHAT, ...usage, [`gen_ai.usage.${name}`]: 7 });
  expect(answer.usage).toEqual({ input_tokens: 90, output_tokens: 8, [counted]: 7 });
});
