import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { ERRORS, EVENT_KINDS, EVENT_PATHS, type ErrorCode } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { oneCollector } from '../running/one-collector.js';
import {
  chunked,
  requestBytes,
  send,
  sendBytes,
  type RawAnswer,
  type RequestParts,
} from '../running/raw-http.js';
import { outcomeText, sampleEvent } from '../running/sample-events.js';

const collector = oneCollector(['--log-level', 'debug']);

function expectErrorBody(answer: RawAnswer): void {
  expect(answer.header('Content-Type')).toBe('application/json');
  expect(Number(answer.header('Content-Length'))).toBe(Buffer.byteLength(answer.body));
  const { message, code = '', details, ...others } = answer.error();
  expect(Object.keys(ERRORS)).toContain(code);
  const entry = ERRORS[code as ErrorCode];
  expect([answer.status, others]).toEqual([entry.status, {}]);
  expect(message?.startsWith(entry.message.slice(0, -1))).toBe(true);
  if (details !== undefined) expect(details).toBeTypeOf('object');
  expect(answer.header('Retry-After') !== undefined).toBe(entry.retryAfter);
}

/** One request for each code that a request can earn on its own. */
const EARNED: Readonly<Partial<Record<ErrorCode, () => RequestParts | string>>> = {
  malformed_request: () => 'nonsense\r\n\r\n',
  invalid_encoding: () => ({ body: Uint8Array.of(0x22, 0xff, 0x22) }),
  invalid_json: () => ({ body: '{"a":' }),
  duplicate_key: () => ({ body: '{"a":1,"a":2}' }),
  nesting_too_deep: () => ({ body: '['.repeat(2000) }),
  validation_failed: () => ({ body: '{}' }),
  invalid_compression: () => ({ body: 'x', headers: { 'Content-Encoding': 'gzip' } }),
  key_missing: () => ({ key: undefined }),
  key_invalid: () => ({ key: 'x' }),
  not_found: () => ({ target: '/' }),
  method_not_allowed: () => ({ method: 'DELETE' }),
  body_too_large: () => ({ headers: { 'Content-Length': '1048577' } }),
  unsupported_media_type: () => ({ headers: { 'Content-Type': 'text/html' } }),
  unsupported_content_encoding: () => ({ headers: { 'Content-Encoding': 'pack200-gzip' } }),
  expectation_failed: () => ({ headers: { Expect: 'more' } }),
  headers_too_large: () => ({ headers: { A: 'a'.repeat(20_000) } }),
};

test.each(Object.entries(EARNED))('%s has its message and its code, as JSON [R-401]', async (code, make) => {
  const earned = make();
  const bytes = typeof earned === 'string' ? earned : requestBytes({ key: collector.key, ...earned });
  const answer = await sendBytes(collector.port, bytes);
  expectErrorBody(answer);
  expect(answer.error().code).toBe(code);
});

test.each([[{}], [{ headers: { 'Transfer-Encoding': 'chunked' } }]])(
  'a body with NaN or a byte order mark is refused with that reason: %j [R-314]',
  async (parts: RequestParts) => {
    const answerTo = async (body: string) => {
      const isChunked = parts.headers !== undefined;
      const sent = { ...parts, key: collector.key, body: isChunked ? chunked(Buffer.from(body)) : body };
      const answer = await send(collector.port, sent);
      return [answer.error().message, answer.error().details];
    };
    expect(await answerTo('{"a":NaN}')).toEqual([
      'The body is not JSON: NaN and Infinity are not JSON values at line 1, column 6.',
      { offset: 5 },
    ]);
    expect(await answerTo('\ufeff{}')).toEqual([
      'The body is not JSON: it begins with a byte order mark.',
      { offset: 0 },
    ]);
  },
);

describe('the issues of an invalid event', () => {
  const issuesOf = async (body: string, target = '/event/internal-artifact') => {
    const answer = await send(collector.port, { key: collector.key, target, body });
    expectErrorBody(answer);
    return answer.error().details?.['issues'] as { pointer: string; rule: string; message: string }[];
  };

  test('name every fault by its pointer, rule and message [R-402]', async () => {
    const event = { ...sampleEvent('internal-artifact'), event_id: 'x', artifact: { artifact_type: 'poem' } };
    const issues = await issuesOf(JSON.stringify(event));
    expect(issues.map(({ pointer, rule }) => `${pointer} ${rule}`).sort()).toEqual([
      '/artifact/artifact_type enum',
      '/artifact/artifact_uri required',
      '/event_id format',
    ]);
    for (const { message } of issues) expect(message).toMatch(/^\w/);
  });

  test.each(['null', '[]', '"text"', '1', 'true', '[{"event_id":1}]'])(
    'of %s is that it is not an object [R-101]',
    async (body) => {
      expect(await issuesOf(body)).toEqual([
        { pointer: '', rule: 'type', message: expect.any(String) as string },
      ]);
    },
  );

  test.each(EVENT_KINDS)('of an empty %s are all the members that are missing [R-402]', async (kind) => {
    const issues = await issuesOf('{}', EVENT_PATHS[kind]);
    expect(issues.map(({ pointer }) => pointer)).toEqual(
      expect.arrayContaining(['/event_id', '/timestamp', '/protocol_version', '/system_metadata']),
    );
  });

  test('are at most 20, and do not mention unknown fields [R-402] [R-403]', async () => {
    const event: Record<string, unknown> = {};
    for (const name of ['event_id', 'run_id', 'parent_event_id', 'timestamp', 'protocol_version'])
      event[name] = 1;
    event['system_metadata'] = { hostname: 1, app_name: 1, proc_id: 1, latency_ms: 'a' };
    event['artifact'] = { artifact_type: 1, artifact_uri: 1, mime_type: 1, description: 1 };
    for (let i = 0; i < 100; i++) event[`unknown${i}`] = { wrong: i };
    const issues = await issuesOf(JSON.stringify(event));
    expect(issues.length).toBeGreaterThan(10);
    expect(issues.length).toBeLessThanOrEqual(20);
    expect(JSON.stringify(issues)).not.toContain('unknown');
  });
});

/** A word and a number that do not occur by chance. */
const secret = () => {
  const digits = BigInt(`0x${randomBytes(8).toString('hex')}`)
    .toString()
    .padStart(20, '7');
  return { word: `zq${randomBytes(9).toString('hex')}`, digits };
};
type Secret = ReturnType<typeof secret>;

/** Where a value of the request could stand when the request is refused. Each is refused. */
const PLACES: Readonly<Record<string, (value: Secret) => RequestParts | string>> = {
  'the path': ({ word }) => ({ target: `/event/${word}` }),
  'the query': ({ word }) => ({ target: `/event/outcome?patient=${word}` }),
  'the authority': ({ word }) => ({ target: `http://${word}.test/event` }),
  'the method': ({ word }) => ({ method: word.toUpperCase() }),
  'the version': ({ word }) => ({ version: `HTTP/${word}` }),
  'the key': ({ word }) => ({ key: word }),
  'a key of the right form': ({ word }) => ({ key: `cek_aaaaaaaaaaaa_${word.padEnd(43, 'A')}` }),
  'the media type': ({ word }) => ({ headers: { 'Content-Type': `text/${word}` } }),
  'the charset': ({ word }) => ({ headers: { 'Content-Type': `application/json; charset=${word}` } }),
  'the coding': ({ word }) => ({ headers: { 'Content-Encoding': word } }),
  'the expectation': ({ word }) => ({ headers: { Expect: word } }),
  'the length': ({ digits }) => ({ headers: { 'Content-Length': digits } }),
  'the transfer coding': ({ word }) => ({ headers: { 'Transfer-Encoding': word } }),
  'a repeated header': ({ word }) => ({ headers: { 'X-API-Key': [word, word] } }),
  'a header name': ({ word }) => ({ headers: { [`${word} x`]: 'x' } }),
  'a large header': ({ word }) => ({ headers: { A: word.repeat(1000) } }),
  'a chunk size': ({ word }) => ({ headers: { 'Transfer-Encoding': 'chunked' }, body: `${word}\r\n` }),
  'a request line alone': ({ word }) => `${word}\r\n\r\n`,
  'a body that is no JSON': ({ word }) => ({ body: word }),
  // V8 quotes all of a text of at most 20 characters.
  'a body that is no JSON and speaks like its parser': ({ digits }) => ({
    body: `x at position ${digits.slice(0, 6)}`,
  }),
  'a string that never ends': ({ word }) => ({ body: `{"a":"${word}` }),
  'a broken escape': ({ word }) => ({ body: `{"a":"\\u${word}"}` }),
  'a broken literal': ({ word }) => ({ body: `{"a":${word}}` }),
  'text behind the JSON': ({ word }) => ({ body: `${outcomeText('1')}${word}` }),
  'a broken number': ({ digits }) => ({ body: `{"a":${digits}.}` }),
  'a repeated name': ({ word }) => ({ body: `{"${word}":1,"${word}":2}` }),
  'a repeated value': ({ word }) => ({ body: `{"a":"${word}","a":"${word}"}` }),
  'text that is not UTF-8': ({ word }) => ({ body: Buffer.from(`"${word}\xff"`, 'latin1') }),
  'deep nesting': ({ word }) => ({ body: `{"${word}":`.repeat(1000) }),
  'what was compressed': ({ word }) => ({ body: gzipSync(word), headers: { 'Content-Encoding': 'gzip' } }),
  'what was to be compressed': ({ word }) => ({ body: word, headers: { 'Content-Encoding': 'br' } }),
  'a body that is chunked': ({ word }) => ({
    body: chunked(word),
    headers: { 'Transfer-Encoding': 'chunked' },
  }),
  ...Object.fromEntries(
    ['event_id', 'run_id', 'parent_event_id', 'timestamp'].map((name) => [
      `the field ${name}`,
      ({ word }: Secret) => ({ body: JSON.stringify({ ...sampleEvent(), [name]: word }) }),
    ]),
  ),
  'the field protocol_version': ({ word }) => ({
    body: JSON.stringify({ ...sampleEvent(), protocol_version: [word] }),
  }),
  'the field system_metadata': ({ word }) => ({
    body: JSON.stringify({ ...sampleEvent(), system_metadata: word }),
  }),
  'a number of system_metadata': ({ digits }) => ({
    body: JSON.stringify(sampleEvent()).replace('"latency_ms":12', `"latency_ms":${digits}`),
  }),
  'the payload': ({ word }) => ({ body: JSON.stringify({ ...sampleEvent(), outcome: word }) }),
  'the type of an artifact': ({ word }) => ({
    target: '/event/internal-artifact',
    body: JSON.stringify({
      ...sampleEvent(),
      artifact: { artifact_type: word, artifact_uri: `${word} ${word}` },
    }),
  }),
  'a field that no one named': ({ word, digits }) => ({
    body: `{"${word}":${digits},"run_id":0,"system_metadata":{"${word}":"${word}"}}`,
  }),
};

test('the log has every refusal with its code and never a key or a value [R-802]', async () => {
  const { word } = secret();
  await send(collector.port, { key: word, headers: { Cookie: word }, body: word });
  await expect.poll(() => collector.running.output.stderr).toContain('"code":"key_invalid"');
  expect(collector.running.output.stderr).not.toContain(word);
});

describe('an Error', () => {
  const sent: Secret[] = [];

  test('never repeats a value of the request, in whatever place [R-403]', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...Object.keys(PLACES)), async (place) => {
        const value = secret();
        sent.push(value);
        const made = PLACES[place]?.(value) ?? '';
        const bytes = typeof made === 'string' ? made : requestBytes({ key: collector.key, ...made });
        const answer = await sendBytes(collector.port, bytes);
        expect({ place, status: answer.status }).toEqual({
          place,
          status: expect.toBeOneOf([400, 401, 404, 405, 413, 415, 417, 431]) as number,
        });
        expectErrorBody(answer);
        const seen = answer.raw.toLowerCase();
        expect(seen).not.toContain(value.word);
        // A number that was read and written again may have lost the last of its digits.
        expect(answer.body).not.toContain(value.digits.slice(0, 6));
      }),
      { numRuns: 400, examples: Object.keys(PLACES).map((place) => [place]) },
    );
  });

  test('in a conflict reveals nothing of either event [R-403]', async () => {
    const [first, second] = [secret(), secret()];
    sent.push(first, second);
    const event = sampleEvent();
    const post = (value: Secret) =>
      send(collector.port, {
        key: collector.key,
        body: JSON.stringify({ ...event, x: value.word, [value.word]: value.digits }),
      });
    expect((await post(first)).status).toBe(201);
    const answer = await post(second);
    expect(answer.status).toBe(409);
    for (const hidden of [first.word, second.word, first.digits, second.digits, event.event_id]) {
      expect(answer.raw).not.toContain(hidden);
    }
    sent.push({ word: event.event_id, digits: first.digits });
  });

  test('is logged without any of those values, at the most verbose level [R-802]', async () => {
    // Stopped, it has written the last of it.
    await expect(collector.running.stop()).resolves.toBe(0);
    const { stderr } = collector.running.output;
    expect(stderr).toContain('"code":"validation_failed"');
    expect(stderr).toContain('"status":201');
    expect(stderr).not.toContain(collector.key);
    const log = stderr.toLowerCase();
    expect(
      sent.filter(({ word, digits }) => log.includes(word) || log.includes(digits.slice(0, 12))),
    ).toEqual([]);
  });
});
