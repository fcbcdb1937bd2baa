import { ERRORS } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AnswerReader } from '../../src/sending/answer-reader.js';
import {
  type Answer,
  AnswerMalformed,
  readErrorBody,
  readRetryAfter,
  verdictOn,
} from '../../src/sending/answer.js';

/** The answer that a reader gives for these bytes, in pieces of these sizes. */
function read(text: string, sizes: readonly number[] = [], reader = new AnswerReader()): Answer | undefined {
  const bytes = Buffer.from(text, 'latin1');
  let whole = false;
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? bytes.length;
    // A copy that is overwritten: the reader must not need it later.
    const piece = Buffer.from(bytes.subarray(at, at + size));
    whole = reader.take(piece);
    piece.fill(0);
    at += size;
  }
  return whole ? reader.answer() : undefined;
}

const chunked = (text: string, size: number): string => {
  const chunks = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
  const lines = chunks.map(
    (chunk, i) => `${chunk.length.toString(16)}${i % 2 ? ';a=b' : ''}\r\n${chunk}\r\n`,
  );
  return `${lines.join('')}0\r\nTrailer: x\r\n\r\n`;
};

test('[R-862] an answer is read alike in any pieces, sized or chunked, also after 1xx answers', () => {
  const code = fc.stringMatching(/^[a-z_]{0,300}$/);
  fc.assert(
    fc.property(
      ...[fc.constantFrom(400, 401, 413, 503), code, fc.option(fc.integer({ min: 1, max: 50 })), fc.nat(3)],
      fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1 }),
      (status, text, chunk, interim, sizes) => {
        const body = JSON.stringify({ code: text });
        const framing =
          chunk === null
            ? `Content-Length: ${body.length}\r\n\r\n${body}`
            : `transfer-encoding:  Chunked \r\n\r\n${chunked(body, chunk)}`;
        const before = 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(interim);
        const whole = `${before}HTTP/1.1 ${status} x\r\nRetry-After: 7\r\n${framing}`;
        const reader = new AnswerReader();
        // Twice on one connection.
        for (let i = 0; i < 2; i++) {
          expect(read(whole, sizes, reader)).toEqual({ status, code: text, retryAfterMs: 7000 });
          expect(reader.keepsOpen).toBe(true);
          expect(reader.untouched).toBe(true);
        }
        expect(read(whole.slice(0, -1), sizes)).toBeUndefined();
      },
    ),
  );
});

test('[R-862] any bytes are an answer, the beginning of one, or refused', () => {
  const piece = fc.oneof(
    fc.constantFrom('HTTP/1.1 ', '201', '503 x', '\r\n', '\r\n\r\n', 'Content-Length: ', '0', '5', ': '),
    fc.constantFrom('Transfer-Encoding: chunked', 'ffffffff', '-1', ' ', '\n', '\0', 'Connection: close'),
    fc.string(),
  );
  fc.assert(
    fc.property(
      fc.array(piece),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
      (pieces, sizes) => {
        try {
          const answer = read(pieces.join(''), sizes);
          if (answer) expect(answer.status).toBeGreaterThanOrEqual(200);
        } catch (error) {
          expect(error).toBeInstanceOf(AnswerMalformed);
        }
      },
    ),
  );
});

const OK = 'HTTP/1.1 201 Created\r\n';

test.each([
  ['another protocol', 'SSH-2.0-OpenSSH\r\n\r\n'],
  ['another version', 'HTTP/2 201\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 20\r\n\r\n'],
  ['a status of four digits', 'HTTP/1.1 2010\r\n\r\n'],
  ['an answer that begins with an empty line', `\r\n${OK}\r\n`],
  ['lines that end without a carriage return', 'HTTP/1.1 201 x\nContent-Length: 0\r\n\r\n'],
  ['a header without a name', `${OK}: 1\r\n\r\n`],
  ['a space before the colon', `${OK}Content-Length : 0\r\n\r\n`],
  ['a header that continues in the next line', `${OK}X: 1\r\n 2\r\n\r\n`],
  ['a zero byte in a header', `${OK}X: \0\r\n\r\n`],
  ['two lengths', `${OK}Content-Length: 0\r\nContent-Length: 0\r\n\r\n`],
  ['a list of lengths', `${OK}Content-Length: 5, 5\r\n\r\n`],
  ['a negative length', `${OK}Content-Length: -1\r\n\r\n`],
  ['a length beyond 2^53', `${OK}Content-Length: 9999999999999999\r\n\r\n`],
  ['a length and chunks', `${OK}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`],
  ['chunks of HTTP/1.0', 'HTTP/1.0 201 x\r\nTransfer-Encoding: chunked\r\n\r\n'],
  ['an encoding that was not requested', `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n`],
  ['a change of protocol', 'HTTP/1.1 101 x\r\nConnection: Upgrade\r\n\r\n'],
  ['a chunk without a size', `${OK}Transfer-Encoding: chunked\r\n\r\n\r\n`],
  ['a chunk of a negative size', `${OK}Transfer-Encoding: chunked\r\n\r\n-1\r\n`],
  ['a chunk longer than its size', `${OK}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n`],
])('[R-862] %s is no answer', (_what, text) => {
  for (const size of [1, 3, text.length]) expect(() => read(text, [size])).toThrow(AnswerMalformed);
});

test.each([
  ['a head', `${OK}X: ${'x'.repeat(20_000)}`],
  ['many interim answers', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1000)],
  ['a body', `HTTP/1.1 503 x\r\nContent-Length: 70000\r\n\r\n${'x'.repeat(70_000)}`],
  [
    'a body of chunks',
    `HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n${chunked('x'.repeat(70_000), 4000)}`,
  ],
  ['a body that only the connection ends', `HTTP/1.1 503 x\r\n\r\n${'x'.repeat(70_000)}`],
  ['the size of a chunk', `${OK}Transfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(2000)}`],
  ['trailers', `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n${'X: 1\r\n'.repeat(5000)}`],
])('[R-862] %s without an end is read up to a bound', (_what, text) => {
  for (const size of [100, text.length]) expect(() => read(text, [size])).toThrow(AnswerMalformed);
});

test.each([
  ['bytes after the answer', `${OK}Content-Length: 0\r\n\r\nHTTP/1.1 201`],
  ['Connection: Close', `${OK}Connection: x, Close\r\nContent-Length: 0\r\n\r\n`],
  ['HTTP/1.0', 'HTTP/1.0 201 x\r\nContent-Length: 0\r\n\r\n'],
])('[R-862] after %s the connection is not used again, and the answer counts', (_what, text) => {
  const reader = new AnswerReader();
  expect(read(text, [], reader)).toEqual({ status: 201, accepted: false });
  expect(reader.keepsOpen).toBe(false);
});

test('[R-862] an answer counts only when it is complete', () => {
  for (const status of [201, 400]) {
    const half = new AnswerReader();
    expect(read(`HTTP/1.1 ${status} x\r\nContent-Length: 9\r\n\r\n{`, [], half)).toBeUndefined();
    expect([half.status, half.ended]).toEqual([status, false]);
  }
  const open = new AnswerReader();
  read('HTTP/1.1 400 x\r\n\r\n{"code":"c"}', [], open);
  expect([open.ended, open.answer()]).toEqual([true, { status: 400, code: 'c' }]);
});

test.each([
  ['as the collector writes it', '{"status":"accepted"}', true],
  ['with spaces and more fields', '{ "more": 1, "status": "accepted" }\n', true],
  ['a page', '<html>Please log in</html>', false],
  ['another status', '{"status":"queued"}', false],
  ['null', 'null', false],
  ['nothing', '', false],
])('[R-862] the body of a 201 shows whether a collector has answered: %s', (_what, body, accepted) => {
  const sized = `${OK}Content-Length: ${body.length}\r\n\r\n${body}`;
  for (const size of [1, 7, 1000]) {
    expect(read(sized, [size])).toEqual({ status: 201, accepted });
    const pieces = chunked(body, 4);
    expect(read(`${OK}Transfer-Encoding: chunked\r\n\r\n${pieces}`, [size])).toMatchObject({ accepted });
  }
});

test('[R-861] the id of a request is read from each answer, if it is safe for a log', () => {
  const reader = new AnswerReader();
  const answered = (line: string) =>
    read(`${OK}Date: x\r\n${line}Content-Length: 0\r\n\r\n`, [], reader)?.requestId;
  expect(answered('X-Request-Id: a-1\r\n')).toBe('a-1');
  expect(answered('X-Request-Id: a-2\r\n')).toBe('a-2');
  expect(answered('x-request-id:a-3 \r\n')).toBe('a-3');
  expect(answered('')).toBeUndefined();
  expect(answered('X-Request-Id: a b\r\n')).toBeUndefined();
  expect(answered(`X-Request-Id: ${'x'.repeat(129)}\r\n`)).toBeUndefined();
  expect(() => answered('X-Request-Id: a-4\r\n folded: 1\r\n')).toThrow(AnswerMalformed);
  const last = `HTTP/1.1 201 x\r\nContent-Length: 0\r\nX-Request-Id: a-5\r\n\r\n`;
  expect(read(last)).toMatchObject({ requestId: 'a-5' });
});

test.each([204, 304])('[R-862] %i has no body, whatever its headers say', (status) => {
  expect(read(`HTTP/1.1 ${status} x\r\nContent-Length: 5\r\n\r\n`)).toEqual({ status });
});

test('[R-862] each error of the protocol is retried only if that can help, and none counts as stored', () => {
  for (const { status, retry } of Object.values(ERRORS)) {
    const verdict = verdictOn({ status });
    if (retry) expect(verdict, String(status)).toBe('later');
    else expect(verdict, String(status)).not.toMatch(/later|stored/);
  }
});

test('[R-862] a status about key or address keeps the event, and one about the event refuses it', () => {
  const verdicts = (...statuses: number[]) => [...new Set(statuses.map((status) => verdictOn({ status })))];
  expect(verdictOn({ status: 201, accepted: true })).toBe('stored');
  expect(verdicts(200, 201, 202, 204, 301, 302, 307, 308, 401, 404, 405, 407, 421, 426)).toEqual([
    'unwelcome',
  ]);
  expect(verdicts(403)).toEqual(['not permitted']);
  expect(verdicts(400, 409, 413, 415, 417, 422, 431)).toEqual(['refused']);
  expect(verdictOn({ status: 409, code: 'event_erased' })).toBe('erased');
  expect(verdictOn({ status: 409, code: 'event_id_conflict' })).toBe('refused');
  expect(verdictOn({ status: 400, code: 'event_erased' })).toBe('refused');
  expect(verdicts(408, 425, 429, 500, 502, 503, 504, 599)).toEqual(['later']);
});

test('an Error body is read, and other text is ignored', () => {
  const body = { code: 'validation_failed', message: 'm', details: { issues: [] } };
  expect(readErrorBody(JSON.stringify(body))).toEqual(body);
  expect(readErrorBody('{"code":5,"message":null,"details":"x"}')).toEqual({});
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      expect(readErrorBody(text)).toBeTypeOf('object');
    }),
  );
});

test('[R-862] details that are nested too deep are left out of a refusal', () => {
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
