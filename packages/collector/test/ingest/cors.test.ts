import { EVENT_PATHS } from '@clinical-events/protocol';
import { describe, expect, test } from 'vitest';
import { oneCollector } from '../running/one-collector.js';
import { send, type RawAnswer, type RequestParts } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';

const PAGE = 'https://app.example.org';
const open = oneCollector(['--cors-origins', `${PAGE}, http://localhost:3000`]);
const closed = oneCollector();

function preflight(origin: string | undefined, more: RequestParts = {}): RequestParts {
  const asking = {
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': 'content-type,x-api-key',
  };
  const none = { 'Content-Type': undefined, 'Content-Length': undefined };
  return { method: 'OPTIONS', ...more, headers: { ...none, Origin: origin, ...asking, ...more.headers } };
}

/** All that a page could learn from: the headers of the Fetch standard, and what a cache goes by. */
function told(answer: RawAnswer): Record<string, string> {
  return Object.fromEntries(
    answer.headers
      .filter(([name]) => /^access-control-|^vary$/i.test(name))
      .map(([name, value]) => [name, value]),
  );
}

const ALLOWED = { 'Access-Control-Allow-Origin': PAGE, Vary: 'Origin' };

describe('a page that is named [R-824]', () => {
  test.each(Object.values(EVENT_PATHS))('is told that it may post to %s, and how', async (target) => {
    const answer = await send(open.port, preflight(PAGE, { target }));
    expect([answer.status, answer.body, answer.header('Content-Length')]).toEqual([204, '', undefined]);
    expect(told(answer)).toEqual({
      ...ALLOWED,
      'Access-Control-Allow-Methods': 'POST',
      'Access-Control-Allow-Headers': 'content-type, x-api-key, content-encoding',
      'Access-Control-Max-Age': '600',
    });
  });

  test('reads the answer to what it sends, also when it is refused', async () => {
    const body = JSON.stringify(sampleEvent());
    const headers = { Origin: PAGE };
    for (const [parts, status] of [
      [{ key: open.key, body, headers }, 201],
      [{ key: open.key, body: '{}', headers }, 400],
      [{ headers }, 401],
      [{ key: open.key, headers: { ...headers, 'Content-Type': 'text/plain' } }, 415],
      [{ key: open.key, headers: { ...headers, 'Content-Length': '2000000' } }, 413],
    ] as const) {
      const answer = await send(open.port, parts);
      expect(answer.status).toBe(status);
      expect(told(answer)).toEqual({
        ...ALLOWED,
        'Access-Control-Expose-Headers': 'Retry-After, X-Request-Id',
      });
    }
  });

  test('is told nothing more of an event than anybody [R-302]', async () => {
    const answer = await send(open.port, {
      key: open.key,
      body: JSON.stringify(sampleEvent()),
      headers: { Origin: PAGE },
    });
    expect(answer.body).toBe('{"status":"accepted"}');
    const others = answer.headers
      .map(([name]) => name)
      .filter((name) => !/^access-control-|^vary$/i.test(name));
    const usual = ['Connection', 'Content-Length', 'Content-Type', 'Date', 'Keep-Alive', 'X-Request-Id'];
    expect(others.sort()).toEqual(usual);
  });
});

describe('is told nothing [R-824]', () => {
  const CASES: readonly (readonly [what: string, parts: RequestParts, status: number])[] = [
    ['a page that is not named', preflight('https://evil.test'), 405],
    ['a page of the same name over http', preflight('http://app.example.org'), 405],
    ['a page without an origin', preflight('null'), 405],
    ['who does not say where it is from', preflight(undefined), 405],
    ['who says so twice', preflight(undefined, { headers: { Origin: [PAGE, PAGE] } }), 405],
    [
      'who asks for another method',
      preflight(PAGE, { headers: { 'Access-Control-Request-Method': 'PUT' } }),
      405,
    ],
    ['who asks for none', preflight(PAGE, { headers: { 'Access-Control-Request-Method': undefined } }), 405],
    [
      'who sends a body with the question',
      preflight(PAGE, { body: 'x', headers: { 'Content-Length': '1' } }),
      405,
    ],
    ['who asks at another path', preflight(PAGE, { target: '/event' }), 404],
    ['who asks of all', preflight(PAGE, { target: '*' }), 404],
    ['who sends from elsewhere', { headers: { Origin: 'https://evil.test' } }, 401],
    ['who sends from two places', { headers: { Origin: [PAGE, PAGE] } }, 401],
  ];
  test.each(CASES)('%s', async (_what, parts, status) => {
    const answer = await send(open.port, parts);
    expect([answer.status, told(answer)]).toEqual([status, {}]);
    expect(answer.header('Allow')).toBe(status === 405 ? 'POST' : undefined);
  });
});

test('without the option no one is told anything [R-824]', async () => {
  const asked = await send(closed.port, preflight(PAGE));
  expect([asked.status, asked.header('Allow'), told(asked)]).toEqual([405, 'POST', {}]);
  const body = JSON.stringify(sampleEvent());
  const sent = await send(closed.port, { key: closed.key, body, headers: { Origin: PAGE } });
  expect([sent.status, told(sent)]).toEqual([201, {}]);
});
