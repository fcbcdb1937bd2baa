import { ERRORS } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readErrorBody, readRetryAfter, verdictOn } from '../../src/sending/answer.js';

test('[R-862] each failure of the protocol that a retry can help is tried again, and none is taken for stored', () => {
  for (const { status, retry } of Object.values(ERRORS)) {
    const verdict = verdictOn({ status });
    if (retry) expect(verdict, String(status)).toBe('later');
    else expect(verdict, String(status)).not.toMatch(/later|stored/);
  }
});

test('[R-862] what speaks of key or address is kept, and what speaks of the event is refused', () => {
  const verdicts = (...statuses: number[]) => [...new Set(statuses.map((status) => verdictOn({ status })))];
  expect(verdictOn({ status: 201, accepted: true })).toBe('stored');
  expect(verdicts(200, 201, 202, 204, 301, 302, 307, 308, 401, 404, 405, 407, 421, 426)).toEqual([
    'unwelcome',
  ]);
  expect(verdicts(403)).toEqual(['not permitted']);
  expect(verdicts(400, 409, 413, 415, 417, 422, 431)).toEqual(['refused']);
  expect(verdicts(408, 425, 429, 500, 502, 503, 504, 599)).toEqual(['later']);
});

test('an Error body is read, and of any other text nothing is', () => {
  const body = { code: 'validation_failed', message: 'm', details: { issues: [] } };
  expect(readErrorBody(JSON.stringify(body))).toEqual(body);
  expect(readErrorBody('{"code":5,"message":null,"details":"x"}')).toEqual({});
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      expect(readErrorBody(text)).toBeTypeOf('object');
    }),
  );
});

test('[R-894] what nests too deep to be written down is left out of a refusal', () => {
  const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
  const read = (levels: number) => readErrorBody(`{"code":"c","details":${nested(levels)}}`);
  expect(read(32)).toEqual({ code: 'c', details: JSON.parse(nested(32)) as unknown });
  for (const levels of [33, 30_000]) expect(read(levels)).toEqual({ code: 'c' });
});

test('Retry-After is seconds or a date', () => {
  const now = Date.UTC(2026, 0, 1);
  expect(readRetryAfter('120', now)).toBe(120_000);
  expect(readRetryAfter('Thu, 01 Jan 2026 00:00:30 GMT', now)).toBe(30_000);
  expect(readRetryAfter('Wed, 31 Dec 2025 00:00:00 GMT', now)).toBe(0);
  for (const other of ['-1', '1.5', 'soon', '', '2026-01-01', undefined]) {
    expect(readRetryAfter(other, now)).toBeUndefined();
  }
});
