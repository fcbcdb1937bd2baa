import { describe, expect, it } from 'vitest';
import type { ErrorCode, ErrorEntry } from '../src/index.js';
import { ERRORS, errorBody } from '../src/index.js';

const entries = Object.entries(ERRORS) as [ErrorCode, ErrorEntry][];

const STATUSES: Record<ErrorCode, number> = {
  malformed_request: 400,
  invalid_encoding: 400,
  invalid_json: 400,
  duplicate_key: 400,
  nesting_too_deep: 400,
  validation_failed: 400,
  invalid_compression: 400,
  key_missing: 401,
  key_invalid: 401,
  key_expired: 401,
  key_revoked: 401,
  certificate_required: 401,
  permission_denied: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  event_id_conflict: 409,
  event_erased: 409,
  body_too_large: 413,
  unsupported_media_type: 415,
  unsupported_content_encoding: 415,
  expectation_failed: 417,
  rate_limited: 429,
  headers_too_large: 431,
  internal: 500,
  overloaded: 503,
  storage_unavailable: 503,
  shutting_down: 503,
};

describe('the error table', () => {
  it('[R-401] holds these codes with these statuses and no others', () => {
    expect(Object.fromEntries(entries.map(([code, entry]) => [code, entry.status]))).toEqual(STATUSES);
  });

  it('allows a retry with 408, 429, 500 and 503 alone', () => {
    const retryable = entries.filter(([, entry]) => entry.retry).map(([, entry]) => entry.status);
    expect(new Set(retryable)).toEqual(new Set([408, 429, 500, 503]));
    for (const [, entry] of entries) expect(entry.retry).toBe(retryable.includes(entry.status));
  });

  it('has Retry-After with 429 and 503 and nothing else', () => {
    for (const [, entry] of entries) expect(entry.retryAfter).toBe([429, 503].includes(entry.status));
  });

  it('logs as errors only faults of the service', () => {
    const loud = entries.filter(([, entry]) => entry.logLevel === 'error').map(([code]) => code);
    expect(loud).toEqual(['internal', 'storage_unavailable']);
  });

  it('has a different sentence for each message and each occasion', () => {
    for (const words of ['message', 'when'] as const) {
      const sentences = entries.map(([, entry]) => entry[words]);
      for (const sentence of sentences) expect(sentence).toMatch(/^[A-Z][^\n]*\.$/);
      expect(new Set(sentences).size).toBe(entries.length);
    }
  });
});

describe('errorBody', () => {
  it.each(entries)('has the default message of %s', (code, entry) => {
    expect(errorBody(code)).toEqual({ message: entry.message, code });
  });

  it('has the details that are given', () => {
    expect(errorBody('permission_denied', { permission: 'outcome' })).toEqual({
      message: ERRORS.permission_denied.message,
      code: 'permission_denied',
      details: { permission: 'outcome' },
    });
  });

  it('has a given message in place of the default one', () => {
    expect(errorBody('invalid_json', undefined, 'The body is empty.')).toEqual({
      message: 'The body is empty.',
      code: 'invalid_json',
    });
  });
});
