import { describe, expect, test } from 'vitest';
import { assembleRecord } from '../../src/records/assemble.js';
import { versionOf } from '../../src/records/exports/record-columns.js';
import { event, id } from './run-events.js';
import { schemaFaults } from './record-schema.js';

const BY = { instrumentation: { by: 'openai' } };
const FAILED = { artifact_type: 'other', artifact_uri: 'urn:x:1', ending: 'failed', status: 429 };
const ANSWERED = {
  ...{ output_uri: 'urn:x:2', ending: 'complete', response_model: 'gpt-9-2026-05-01' },
  usage: { input_tokens: 11, output_tokens: 7 },
};

const start = (model_instance: object = { model_id: 'gpt-9' }) =>
  event({ kind: 'inference-start', n: 1, more: { model_instance, system_metadata: BY } });
const artifact = (n: number, said: object, system_metadata: object = BY) =>
  event({ kind: 'internal-artifact', n, more: { artifact: said, system_metadata } });
const output = (n: number, said: object, system_metadata: object = BY) =>
  event({ kind: 'human-output', n, more: { output: said, system_metadata } });
const nothing = {
  status: null,
  error_name: null,
  response_model: null,
  input_tokens: null,
  output_tokens: null,
};

describe('the end of a call of a model', () => {
  test('is as an instrumentation reported it, with its usage, and fits the schema [R-1830]', () => {
    const record = assembleRecord([start(), output(2, ANSWERED)]);
    expect(record.metadata.call).toEqual({
      ...{ event_id: id(2), by: 'openai', ending: 'complete', attempts: 1, status: null, error_name: null },
      ...{ response_model: 'gpt-9-2026-05-01', input_tokens: 11, output_tokens: 7 },
    });
    expect(schemaFaults(record)).toEqual([]);
  });

  test('is a failure with its status and name [R-1830]', () => {
    const record = assembleRecord([start(), artifact(2, { ...FAILED, error_name: 'RateLimitError' })]);
    expect(record.metadata.call).toEqual({
      ...nothing,
      ...{
        event_id: id(2),
        by: 'openai',
        ending: 'failed',
        attempts: 1,
        status: 429,
        error_name: 'RateLimitError',
      },
    });
    expect(schemaFaults(record)).toEqual([]);
  });

  test('is that of the last attempt, whatever is reported after it [R-1830]', () => {
    const again = { instrumentation: { by: 'openai', attempt: 2 } };
    const later = artifact(4, { artifact_type: 'tool_call', artifact_uri: 'urn:x:3' });
    const record = assembleRecord([start(), later, output(3, ANSWERED, again), artifact(2, FAILED)]);
    expect(record.metadata.call).toMatchObject({ ending: 'complete', attempts: 2, status: null });
  });

  test.each([
    ['an application without an instrumentation', FAILED, { hostname: 'h' }],
    ['an instrumentation without a name', FAILED, { instrumentation: {} }],
    ['an unknown ending', { ...FAILED, ending: 'done' }, BY],
  ])('is not taken from %s [R-1830]', (_, said, system) => {
    expect(assembleRecord([start(), artifact(2, said, system)]).metadata.call).toBeNull();
  });

  test('omits an invalid status, count or name, and reads a number in a text [R-206] [R-1830]', () => {
    const odd = { ...FAILED, status: 42, error_name: 7, usage: { input_tokens: '11', output_tokens: -1 } };
    const record = assembleRecord([start(), artifact(2, odd, { instrumentation: { by: 'x', attempt: 0 } })]);
    expect(record.metadata.call).toEqual({
      ...nothing,
      ...{ event_id: id(2), by: 'x', ending: 'failed', attempts: 1, input_tokens: 11 },
    });
    expect(schemaFaults(record)).toEqual([]);
  });
});

describe('the version of a model in columns', () => {
  const asSent = (model?: object) => {
    const record = assembleRecord([start(model), output(2, ANSWERED)]);
    return [record.model, versionOf(record)];
  };

  test('is that of the start, or that of the answer where the start has none; the record is as sent [R-1830]', () => {
    expect(asSent({ model_id: 'a', model_version: '1' })).toEqual([
      { model_id: 'a', model_version: '1' },
      '1',
    ]);
    expect(asSent({ model_id: 'a' })).toEqual([{ model_id: 'a' }, 'gpt-9-2026-05-01']);
  });

  test.each(['failed', 'aborted', 'cut off', 'not read', 'unfinished'])(
    'is the requested one where a call that was %s has no answer [R-1830]',
    (ending) => {
      const ended = artifact(2, { ...FAILED, ending });
      expect(versionOf(assembleRecord([start(), ended]))).toBe('gpt-9');
      const versioned = start({ model_id: 'gpt-9', model_version: '2' });
      expect(versionOf(assembleRecord([versioned, ended]))).toBe('2');
      const answering = artifact(2, { ...FAILED, ending, response_model: 'gpt-9-2026-05-01' });
      const asked = ending === 'failed' ? 'gpt-9' : 'gpt-9-2026-05-01';
      expect(versionOf(assembleRecord([start(), answering]))).toBe(asked);
      expect(assembleRecord([start(), ended]).metadata.call).toMatchObject({ ending });
    },
  );

  test('is unknown where a complete answer names none [R-1830]', () => {
    const ended = output(2, { ...ANSWERED, response_model: undefined });
    expect(versionOf(assembleRecord([start(), ended]))).toBeUndefined();
  });

  test('is not guessed where no start names a model [R-1830]', () => {
    expect(versionOf(assembleRecord([output(2, ANSWERED)]))).toBeUndefined();
  });
});
