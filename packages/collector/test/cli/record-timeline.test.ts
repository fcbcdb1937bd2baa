import { expect, test } from 'vitest';
import { timeline } from '../../src/cli/record-timeline.js';
import { assembleRecord } from '../../src/records/assemble.js';
import { event, fullRun, id } from '../records/run-events.js';

const by = (attempt?: number) => ({ instrumentation: { by: 'openai', attempt } });
const made = (kind: 'internal-artifact' | 'human-output', n: number, said: object, attempt?: number) => {
  const payload =
    kind === 'human-output'
      ? { output: { output_uri: 'urn:x:2', ...said } }
      : { artifact: { artifact_type: 'other', artifact_uri: 'urn:x:1', description: 'The call.', ...said } };
  return event({ kind, n, more: { ...payload, system_metadata: by(attempt) } });
};
const START = event({
  ...{ kind: 'inference-start', n: 1 },
  more: { model_instance: { model_id: 'gpt-9' }, system_metadata: by() },
});
const FAILED = { ending: 'failed', status: 429, error_name: 'RateLimit\u001bError' };

test('a timeline says how a captured call ended, after how many attempts, by which model and for how many tokens [R-209]', () => {
  const usage = { input_tokens: 11, output_tokens: 7 };
  const answered = { ending: 'complete', response_model: 'gpt-9-2026', usage };
  const text = timeline(
    assembleRecord([START, made('internal-artifact', 2, FAILED), made('human-output', 3, answered, 2)]),
    200,
  );
  expect(text).toContain('Call          complete, attempt 2; captured by openai\n');
  expect(text).toContain('Answered by   gpt-9-2026\n');
  expect(text).toContain('Tokens        11 in, 7 out\n');
  expect(text).toMatch(/internal-artifact +openai +failed {2}429 {2}RateLimit\\u001bError {2}other/);
});

test('a timeline marks a failed call with its status, and tells events of the application from others [R-209]', () => {
  const feedback = event({ kind: 'user-feedback', n: 3 });
  const text = timeline(assembleRecord([START, made('internal-artifact', 2, FAILED), feedback]), 200);
  expect(text).toMatch(/^Call +failed, status 429, RateLimit\\u001bError; captured by openai$/m);
  expect(text).toMatch(/^TIME +EVENT +MADE BY$/m);
  expect(text).toMatch(/inference-start +openai/);
  expect(text).toMatch(/user-feedback +application/);
});

test('a timeline of an application that tells everything itself says nothing of instrumentation [R-209]', () => {
  const text = timeline(assembleRecord(fullRun()), 200);
  expect(text).not.toMatch(/MADE BY|^Call/m);
});

test('a timeline names the events that write a number as a text [R-208]', () => {
  const rated = event({ kind: 'user-feedback', n: 2, more: { feedback: { rating_value: '5' } } });
  expect(timeline(assembleRecord([START, rated]), 200)).toMatch(new RegExp(`Numbers in text +${id(2)}`));
});

test('[R-720] a timeline escapes what a sender wrote once, and leaves quotation marks as they are', () => {
  const start = event({
    ...{ kind: 'inference-start', n: 1 },
    more: { model_instance: { model_id: 'a\u001bb' }, inputs: { prompt: 'say "no"\u202e' } },
  });
  const text = timeline(assembleRecord([start]), 200);
  expect(text).toMatch(/^Model +a\\u001bb$/m);
  expect(text).toMatch(/inference-start {2}a\\u001bb {2}say "no"\\u202e$/m);
});
