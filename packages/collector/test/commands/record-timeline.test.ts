import { expect, test } from 'vitest';
import { fullTimeline, timeline } from '../../src/commands/records/timeline.js';
import { assembleRecord } from '../../src/records/assemble.js';
import { event, id } from '../records/run-events.js';

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

test('a timeline shows the end, the attempts, the model and the tokens of a captured call [R-1830]', () => {
  const usage = { input_tokens: 11, output_tokens: 7 };
  const answered = { ending: 'complete', response_model: 'gpt-9-2026', usage };
  const text = timeline(
    assembleRecord([START, made('internal-artifact', 2, FAILED), made('human-output', 3, answered, 2)]),
    200,
  );
  expect(text).toContain('Call          complete, attempt 2; captured by openai\n');
  expect(text).toContain('Answered by   gpt-9-2026\n');
  expect(text).toContain('Tokens        11 in, 7 out\n');
  expect(text).toMatch(/internal-artifact +openai +failed, status 429, RateLimit\\u001bError {2}other/);
});

test('a timeline marks a failed call with its status, and shows which events the application made [R-1830]', () => {
  const feedback = event({ kind: 'user-feedback', n: 3 });
  const text = timeline(assembleRecord([START, made('internal-artifact', 2, FAILED), feedback]), 200);
  expect(text).toMatch(/^Call +failed, status 429, RateLimit\\u001bError; captured by openai$/m);
  expect(text).toMatch(/^TIME +EVENT +MADE BY$/m);
  expect(text).toMatch(/inference-start +openai/);
  expect(text).toMatch(/user-feedback +application/);
});

test('[R-720] a timeline escapes text of a sender only once, and leaves quotation marks as they are', () => {
  const start = event({
    ...{ kind: 'inference-start', n: 1 },
    more: { model_instance: { model_id: 'a\u001bb' }, inputs: { prompt: 'say "no"\u202e' } },
  });
  const text = timeline(assembleRecord([start]), 200);
  expect(text).toMatch(/^Model +a\\u001bb$/m);
  expect(text).toMatch(/inference-start {2}a\\u001bb {2}say "no"\\u202e$/m);
});

test('[R-1040] [R-1417] a timeline shows tokens and feedback in words', () => {
  const usage = { input_tokens: 11, output_tokens: '7' };
  const feedback = (n: number, said: object) => event({ kind: 'user-feedback', n, more: { feedback: said } });
  const text = timeline(
    assembleRecord([
      ...[START, made('human-output', 2, { ending: 'complete', summary: 'Low risk.', usage })],
      feedback(3, { feedback_type: 'thumbs', direction: 'up', comment: 'Useful.' }),
      feedback(4, { feedback_type: 'rating', rating_value: '4.5' }),
      feedback(5, { feedback_type: 'survey', rating_value: 4, comment: 'Saves time.' }),
      feedback(6, { feedback_type: 'rating', rating_value: 17 }),
      feedback(7, { feedback_type: 'thumbs', direction: 'sideways' }),
      feedback(8, { feedback_type: 'thumbs', rating_value: 5 }),
      feedback(9, { feedback_type: 'thumbs', rating_value: -1, comment: 'Not so.' }),
    ]),
    200,
  );
  expect(text).toMatch(/^Tokens +11 in, 7 out$/m);
  expect(text).toMatch(/complete {2}Low risk\. {2}tokens: 11 in, 7 out$/m);
  expect(text).toMatch(/application +thumbs up {2}rating 5 of 5$/m);
  expect(text).toMatch(/application +thumbs down {2}Not so\.$/m);
  for (const words of ['thumbs up  Useful.', 'rating 4.5 of 5', 'survey  rating 4 of 5  Saves time.'])
    expect(text).toMatch(new RegExp(`application +${words}$`, 'm'));
  // A value that is on no scale is shown as it was sent.
  expect(text).toMatch(/rating {2}\{"feedback_type":"rating","rating_value":17\}$/m);
  expect(text).toMatch(/thumbs {2}\{"feedback_type":"thumbs","direction":"sideways"\}$/m);
});

test('[R-1040] a full timeline has every member of every event, whole and wrapped, and nothing that moves a cursor', () => {
  const words = Array.from({ length: 300 }, (_, i) => `word${i}`).join(' ');
  const start = event({
    ...{ kind: 'inference-start', n: 1 },
    more: { inputs: { prompt: `First line.\n\n\tSecond\u001b[2J line.\r\n${words}` }, ward: 'B7' },
  });
  const output = made('human-output', 2, {
    ending: 'failed',
    status: 503,
    summary: words,
    nested: { a: [1, 2] },
  });
  const again = event({
    kind: 'inference-start',
    n: 3,
    more: { model_instance: { model_id: 'other' }, target_identity: { target_id: 'another' } },
  });
  const outcome = event({ kind: 'outcome', n: 4, more: { outcome: { description: 'a' }, description: 'b' } });
  const record = assembleRecord([start, output, again, outcome]);
  const text = fullTimeline(record, 80);
  expect(Math.max(...text.split('\n').map((each) => each.length))).toBeLessThanOrEqual(80);
  expect(text.replace(/\s+/g, ' ').split(words)).toHaveLength(3);
  expect(text).toContain(
    '    prompt:\n        First line.\n\n          Second\\u001b[2J line.\n        word0 word1',
  );
  for (const line of ['ward: B7', 'status: 503', 'nested: {"a":[1,2]}', 'description: a', 'description: b'])
    expect(text).toContain(`    ${line}\n`);
  expect(text).toContain('model_id: other\n');
  expect(text).toMatch(/^CONFLICT +EVENTS\nsecond_start +/m);
  // eslint-disable-next-line no-control-regex -- they are what is looked for
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
  for (const { event_id } of record.metadata.events) expect(text).toContain(event_id);
});

test('a timeline shows when a payload was erased, and by which action [R-1334]', () => {
  const gone = event({ kind: 'human-output', n: 3, payloadState: 'erased' });
  const erasure = { action: id(900), reason: 'erasure-request', at: Date.UTC(2026, 5, 1) } as const;
  const text = timeline(assembleRecord([START, { ...gone, event: { ...gone.event, erasure } }]), 200);
  expect(text).toContain(`payload erased on 2026-06-01 by action ${id(900)}`);
  expect(text).toMatch(/^Completeness +erased; missing: .*payload$/m);
});

test('a timeline of several calls lists them, and shows the call of each event [R-1830]', () => {
  const second = event({
    ...{ kind: 'inference-start', n: 4 },
    more: { model_instance: { model_id: 'gpt-9-mini', model_version: '2' }, inputs: { prompt: 'Again.' } },
  });
  const answered = (n: number, parent: number, input_tokens: number) =>
    event({
      ...{ kind: 'human-output', n, parent: id(parent) },
      more: {
        system_metadata: by(),
        output: {
          ...{ ending: 'complete', summary: `answer ${n}` },
          usage: { input_tokens, output_tokens: 7 },
        },
      },
    });
  const outcome = event({ kind: 'outcome', n: 8 });
  const record = assembleRecord([START, answered(2, 1, 11), second, answered(7, 4, 12), outcome]);
  const text = timeline(record, 200);
  expect(text).toMatch(/^CALL +MODEL +LATENCY +ENDED +ANSWERED BY +TOKENS$/m);
  expect(text).toMatch(/^1 +gpt-9 +1000 ms +complete +- +11 in, 7 out$/m);
  expect(text).toMatch(/^2 +gpt-9-mini 2 +3000 ms +complete +- +12 in, 7 out$/m);
  expect(text).toMatch(/^2026\S+ +1 +inference-start/m);
  expect(text).toMatch(/^\S+ s +2 +inference-start +application +gpt-9-mini 2 {2}Again\.$/m);
  expect(text).toMatch(/^\S+ s +2 +human-output/m);
  expect(text).toMatch(/^\S+ s +- +outcome/m);
  const full = fullTimeline(record, 80);
  expect(full).toMatch(new RegExp(`human-output +by openai +${id(7)}\n +of call 2\n`));
  expect(full).toMatch(new RegExp(`outcome +${id(8)}\n +outcome_type`));
});
