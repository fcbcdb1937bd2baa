import { describe, expect, test } from 'vitest';
import { statusBody, successBody } from '../../../src/otlp/decoding/answers.js';

const hex = (text: string) => Buffer.from(text, 'hex').toString('latin1');

/** Bytes by hand: the fields of opentelemetry-proto's services and of google.rpc.Status. */
describe.each(['traces', 'logs'] as const)('of %s', (signal) => {
  test('a full success has no details [R-1890]', () => {
    expect(successBody(signal, 'protobuf', 0, '').toString('latin1')).toBe('');
    expect(successBody(signal, 'json', 0, '').toString()).toBe('{}');
  });

  test('a partial success has the number rejected, and the reason [R-1890]', () => {
    const name = signal === 'traces' ? 'rejectedSpans' : 'rejectedLogRecords';
    expect(JSON.parse(successBody(signal, 'json', 300, 'why').toString())).toEqual({
      partialSuccess: { [name]: '300', errorMessage: 'why' },
    });
    const bytes = successBody(signal, 'protobuf', 300, 'why').toString('latin1');
    expect(bytes).toBe(`${hex('0a0808ac021203')}why`);
  });

  test('a success that rejects nothing can warn [R-1890]', () => {
    expect(JSON.parse(successBody(signal, 'json', 0, 'two were shortened').toString())).toEqual({
      partialSuccess: { errorMessage: 'two were shortened' },
    });
    expect(successBody(signal, 'protobuf', 0, 'so').toString('latin1')).toBe(`${hex('0a041202')}so`);
  });
});

test('a failure is a google.rpc.Status [R-1890]', () => {
  expect(JSON.parse(statusBody('json', 3, 'no JSON').toString())).toEqual({ code: 3, message: 'no JSON' });
  expect(statusBody('protobuf', 14, 'later').toString('latin1')).toBe(`${hex('080e1205')}later`);
});
