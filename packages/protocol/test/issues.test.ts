import { describe, expect, it } from 'vitest';
import { EXPECTATIONS } from '../src/generated/expectations.js';
import { MAX_ISSUES } from '../src/validate.js';
import { issuesOf } from '../src/issues.js';
import { FIELDS } from './sample-events.js';

const missing = (name: string) => ({
  instancePath: '/artifact',
  keyword: 'required',
  params: { missingProperty: name },
});

describe('issuesOf', () => {
  it('points at the missing field and not at the object that lacks it', () => {
    expect(issuesOf([missing('artifact_uri')])).toEqual([
      { pointer: '/artifact/artifact_uri', rule: 'required', message: 'is required' },
    ]);
  });

  it('reports a field that fails two checks once, by the first', () => {
    const path = '/system_metadata/latency_ms';
    const checks = ['type', 'maximum'].map((keyword) => ({ instancePath: path, keyword, params: {} }));
    expect(issuesOf(checks).map(({ pointer, rule }) => [pointer, rule])).toEqual([[path, 'type']]);
  });

  it('[R-402] stops at the highest number of issues in an answer, and keeps their order', () => {
    const checks = Array.from({ length: MAX_ISSUES + 5 }, (_, index) => missing(`field_${index}`));
    expect(issuesOf(checks).map(({ pointer }) => pointer)).toEqual(
      Array.from({ length: MAX_ISSUES }, (_, index) => `/artifact/field_${index}`),
    );
  });

  it('has a general message for a field without its own', () => {
    expect(issuesOf([{ instancePath: '/new', keyword: 'type', params: {} }])).toEqual([
      { pointer: '/new', rule: 'type', message: 'is not valid' },
    ]);
  });

  it('has a message for every named field, and for the event itself', () => {
    const pointers = ['', ...FIELDS.map(({ pointer }) => pointer)];
    expect(Object.keys(EXPECTATIONS).sort()).toEqual(pointers.sort());
  });
});
