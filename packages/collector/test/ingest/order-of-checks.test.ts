import fs from 'node:fs';
import { ERRORS, EVENT_KINDS, EVENT_PATHS, type ErrorCode, type EventKind } from '@clinical-events/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newKeyId, newKeyText } from '../../src/access/key-ring.js';
import { limits, run, start, temporaryDirectory, type Running } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { oneCollector } from '../running/one-collector.js';
import {
  chunked,
  RawConnection,
  requestBytes,
  send,
  type RawAnswer,
  type RequestParts,
} from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';
import { storedBodies } from '../running/stored-bodies.js';

const DAY = 86_400_000;
const MAX_BODY = 64 << 10;

/** What may be wrong with a request, in the order in which it must be found. */
const CHECKS = [
  'route',
  'method',
  'form',
  'key',
  'permission',
  'rate',
  'mediaType',
  'expectation',
  'coding',
  'size',
  'body',
  'schema',
] as const;
type Check = (typeof CHECKS)[number];

const ANSWERS: Readonly<Record<Check, ErrorCode>> = {
  route: 'not_found',
  method: 'method_not_allowed',
  form: 'malformed_request',
  key: 'key_expired',
  permission: 'permission_denied',
  rate: 'rate_limited',
  mediaType: 'unsupported_media_type',
  expectation: 'expectation_failed',
  coding: 'unsupported_content_encoding',
  size: 'body_too_large',
  body: 'duplicate_key',
  schema: 'validation_failed',
};

const keys = new Map<string, string>();
/** The key that has these faults and no others. The permission it lacks is that for inference-start. */
const keyName = (faults: readonly Check[]) =>
  (['key', 'permission', 'rate'] as const).filter((fault) => faults.includes(fault)).join();

const collector = oneCollector(
  ['--max-body-bytes', String(MAX_BODY), ...limits({ 'segment-bytes': '1MiB' })],
  async (dataDir) => {
    for (const faults of subsets<Check>(['key', 'permission', 'rate'])) {
      const past = Date.now() - 2 * DAY;
      const { text } = await issueKey(
        dataDir,
        {
          permissions: faults.includes('permission') ? ['outcome'] : 'all',
          rateLimit: faults.includes('rate') ? { perSecond: 0.001, burst: 1 } : undefined,
          expiresAt: faults.includes('key') ? past + DAY : undefined,
        },
        past,
      );
      keys.set(keyName(faults), text);
    }
  },
);

function subsets<Item>(items: readonly Item[]): Item[][] {
  return items.reduce<Item[][]>((all, item) => [...all, ...all.map((one) => [...one, item])], [[]]);
}

beforeAll(async () => {
  // Takes the one token of each key whose rate is to be used up.
  for (const name of ['rate', 'permission,rate']) {
    const body = JSON.stringify(sampleEvent('outcome'));
    expect((await send(collector.port, { key: keys.get(name), body })).status).toBe(201);
  }
});

/** A request with all these faults. */
function faulty(faults: readonly Check[]): RequestParts {
  const has = (fault: Check) => faults.includes(fault);
  const event: Record<string, unknown> = sampleEvent('inference-start');
  if (has('schema')) delete event['timestamp'];
  let body = JSON.stringify(event);
  if (has('body')) body = body.replace('{', '{"run_id":1,"run_id":2,');
  if (has('size')) body += ' '.repeat(MAX_BODY);
  return {
    method: has('method') ? 'PUT' : 'POST',
    target: has('route') ? '/event/inference' : '/event/inference-start',
    key: keys.get(keyName(faults)),
    body,
    headers: {
      // A second one, beside that of every request.
      ...(has('form') && { host: 'another.test' }),
      ...(has('expectation') && { Expect: 'a miracle' }),
      ...(has('mediaType') && { 'Content-Type': 'text/plain' }),
      ...(has('coding') && { 'Content-Encoding': 'compress' }),
    },
  };
}

function expectError(answer: RawAnswer, code: ErrorCode): void {
  expect({ status: answer.status, code: answer.error().code }).toEqual({ status: ERRORS[code].status, code });
  expect(answer.header('Allow')).toBe(code === 'method_not_allowed' ? 'POST' : undefined);
  expect(answer.header('Retry-After')).toEqual(
    code === 'rate_limited' ? expect.stringMatching(/^[1-9]\d*$/) : undefined,
  );
}

describe('of two faults the first is answered [R-313]', () => {
  const pairs = CHECKS.flatMap((first, i) => CHECKS.slice(i + 1).map((second) => [first, second] as const));

  test.each(pairs)('%s before %s', async (first, second) => {
    expectError(await send(collector.port, faulty([first, second])), ANSWERS[first]);
  });

  test.each(CHECKS)('%s alone, and with all later ones', async (first) => {
    expectError(await send(collector.port, faulty([first])), ANSWERS[first]);
    expectError(await send(collector.port, faulty(CHECKS.slice(CHECKS.indexOf(first)))), ANSWERS[first]);
  });

  test('a request without a fault is accepted', async () => {
    expect((await send(collector.port, faulty([]))).status).toBe(201);
  });

  test('a chunked body that is too large is refused before it is examined', async () => {
    const parts = faulty(['size', 'body']);
    const headers = { ...parts.headers, 'Transfer-Encoding': 'chunked' };
    expectError(
      await send(collector.port, { ...parts, headers, body: chunked(parts.body ?? '') }),
      'body_too_large',
    );
  });

  test.each(CHECKS.slice(0, 9))('%s is answered before any of the body has come', async (check) => {
    const parts = faulty([check]);
    const connection = await RawConnection.open(collector.port);
    connection.write(
      requestBytes({ ...parts, headers: { ...parts.headers, 'Content-Length': '60000' }, body: '' }),
    );
    const answer = await connection.answer();
    expect(answer?.error().code).toBe(ANSWERS[check]);
    connection.close();
  });

  test.each(['gzip, chunked', 'chunked, chunked'])(
    'a coding of %s is a fault of the framing',
    async (coding) => {
      const parts = faulty(['key']);
      const headers = { ...parts.headers, 'Transfer-Encoding': coding };
      const body = chunked(parts.body ?? '');
      expectError(await send(collector.port, { ...parts, headers, body }), 'malformed_request');
    },
  );

  test('a size announced as too large is refused before any of the body has come', async () => {
    const connection = await RawConnection.open(collector.port);
    const headers = { 'Content-Length': String(MAX_BODY + 1) };
    connection.write(requestBytes({ key: collector.key, headers }));
    expect((await connection.answer())?.error().code).toBe('body_too_large');
    connection.close();
  });
});

describe('an unknown path or method', () => {
  const PATHS = [
    ...['/', '/event', '/event/', '/event/outcome/', '//event/outcome', '/event//outcome'],
    ...['/event/Outcome', '/EVENT/OUTCOME', '/event/%6Futcome', '/event/./outcome'],
    ...['/event/x/../outcome', '/event/outcome;v=1', '/event/outcome#', '/event/__proto__'],
    ...['/event/constructor', '/v1/event/outcome', '/event/none?/event/outcome', '*'],
    ...['http://collector.test/event/nothing', 'ftp://collector.test/event/outcome'],
    'http://collector.test',
  ];
  test.each(PATHS)('%s is 404 for everyone [R-308]', async (target) => {
    const body = JSON.stringify(sampleEvent('outcome'));
    expectError(await send(collector.port, { target, key: collector.key, body }), 'not_found');
    expectError(await send(collector.port, { target, method: 'OPTIONS' }), 'not_found');
  });

  test.each([
    '/event/outcome?',
    '/event/outcome?pretty=1',
    '/event/outcome?a=/event/none#x',
    'http://collector.test/event/outcome?x=1',
  ])('%s is the endpoint: a query is ignored, and a key in it does not count [R-308]', async (target) => {
    const event = sampleEvent('outcome');
    const body = JSON.stringify(event);
    expect((await send(collector.port, { target, key: collector.key, body })).status).toBe(201);
    expect(storedBodies(collector.dataDir, event.event_id)).toEqual([body]);
    const inQuery = `${target}${target.includes('?') ? '&' : '?'}X-API-Key=${collector.key}&key=${collector.key}`;
    expectError(await send(collector.port, { target: inQuery, body }), 'key_missing');
    expectError(await send(collector.port, { target, method: 'PUT' }), 'method_not_allowed');
    const { stdout, stderr } = collector.running.output;
    expect(stderr).not.toMatch(/pretty|event\/none#x/);
    expect(stdout + stderr).not.toContain(collector.key);
  });

  test.each(['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PURGE', 'SEARCH', 'QUERY'])(
    '%s on any endpoint is 405 with Allow: POST [R-308]',
    async (method) => {
      for (const kind of EVENT_KINDS) {
        const answer = await send(collector.port, { method, target: EVENT_PATHS[kind] });
        expect([answer.status, answer.header('Allow')]).toEqual([405, 'POST']);
      }
    },
  );
});

describe('a key', () => {
  const post = (key: string | undefined, kind: EventKind = 'outcome', event: object = sampleEvent(kind)) =>
    send(collector.port, { key, target: EVENT_PATHS[kind], body: JSON.stringify(event) });

  test('that is missing or empty is answered key_missing [R-404] [R-501]', async () => {
    expectError(await post(undefined), 'key_missing');
    expectError(await post(''), 'key_missing');
    expectError(await post('   '), 'key_missing');
  });

  test.each([
    ['no key at all', () => 'open sesame'],
    ['one character short', () => collector.key.slice(0, -1)],
    ['one character long', () => `${collector.key}A`],
    ['in upper case', () => collector.key.toUpperCase()],
    ['in quotes', () => `"${collector.key}"`],
    ['a bearer token', () => `Bearer ${collector.key}`],
    ['twice in one header', () => `${collector.key}, ${collector.key}`],
    ['of bytes beyond ASCII', () => `${collector.key.slice(0, -1)}\xe9`],
    ['unknown', () => newKeyText(newKeyId())],
    ['known with a wrong secret', () => newKeyText(collector.key.slice(4, 16))],
    ['expired, with a wrong secret', () => newKeyText((keys.get('key') ?? '').slice(4, 16))],
    ['very long', () => 'x'.repeat(8000)],
    ['named like an object member', () => '__proto__'],
  ])('that is %s is answered key_invalid [R-404]', async (_what, key) => {
    expectError(await post(key()), 'key_invalid');
  });

  test('whose secret is wrong gets the same answer as an unknown one, byte for byte [R-404]', async () => {
    const undated = (answer: RawAnswer) => answer.raw.replace(/(Date|X-Request-Id): .*\r\n/g, '');
    const wrong = await post(newKeyText(collector.key.slice(4, 16)));
    expect(undated(wrong)).toBe(undated(await post(newKeyText(newKeyId()))));
  });

  test('that has expired is answered key_expired [R-404]', async () => {
    expectError(await post(keys.get('key')), 'key_expired');
  });

  test('may have white space around it', async () => {
    expect((await post(` \t${collector.key}\t `)).status).toBe(201);
  });

  test('is found in its header in any case of letters', async () => {
    const headers = { 'X-API-Key': undefined, 'x-aPi-kEy': collector.key };
    const answer = await send(collector.port, { headers, body: JSON.stringify(sampleEvent()) });
    expect(answer.status).toBe(201);
  });

  test.each([
    ['the same twice', () => [collector.key, collector.key]],
    ['a valid one first', () => [collector.key, 'nonsense']],
    ['a valid one last', () => ['nonsense', collector.key]],
    ['an empty one first', () => ['', collector.key]],
  ])('in two headers is ambiguous, and refused: %s', async (_what, both) => {
    const answer = await send(collector.port, {
      headers: { 'X-API-Key': both() },
      body: JSON.stringify(sampleEvent()),
    });
    expectError(answer, 'malformed_request');
  });

  test('after too many headers is not taken for a missing one: the whole request is refused', async () => {
    const headers = { a: Array<string>(2100).fill(''), 'X-API-Key': [collector.key, 'nonsense'] };
    expectError(
      await send(collector.port, { headers, body: JSON.stringify(sampleEvent()) }),
      'headers_too_large',
    );
  });

  test('that is revoked by another process is refused within a second [R-404] [R-504]', async () => {
    const { text, keyId } = await issueKey(collector.dataDir, {});
    await expect.poll(async () => (await post(text)).status).toBe(201);
    const { code } = await run(['keys', 'revoke', '--data-dir', collector.dataDir, keyId]);
    expect(code).toBe(0);
    // A busy machine takes longer.
    await expect.poll(async () => (await post(text)).status).not.toBe(201);
    expectError(await post(text), 'key_revoked');
  });

  test.each(EVENT_KINDS)(
    'that permits only %s is accepted there and refused elsewhere, with the missing permission [R-405] [R-503]',
    async (kind) => {
      const { text } = await issueKey(collector.dataDir, { permissions: [kind] });
      await expect.poll(async () => (await post(text, kind)).status).toBe(201);
      for (const other of EVENT_KINDS.filter((one) => one !== kind)) {
        const answer = await post(text, other);
        expectError(answer, 'permission_denied');
        expect(answer.error().details).toEqual({ permission: other });
      }
    },
  );

  test('over its rate gets the time to wait, and others are accepted [R-409]', async () => {
    const answer = await post(keys.get('rate'));
    expectError(answer, 'rate_limited');
    expect(Number(answer.header('Retry-After'))).toBeGreaterThan(900);
    expect((await post(collector.key)).status).toBe(201);
  });
});

describe('the profile', () => {
  let full: Running;
  let fullDirectory: string;
  let fullKeys: Record<'own' | 'minimum' | 'full', string>;
  const bare = () => {
    const { event_id, timestamp, protocol_version, system_metadata } = sampleEvent();
    return { event_id, timestamp, protocol_version, system_metadata, outcome: {} };
  };
  const statusAt = async (port: number, key: string, event: object) =>
    (await send(port, { key, body: JSON.stringify(event) })).status;

  beforeAll(async () => {
    fullDirectory = temporaryDirectory();
    fullKeys = {
      own: (await issueKey(fullDirectory)).text,
      minimum: (await issueKey(fullDirectory, { profile: 'minimum' })).text,
      full: (await issueKey(fullDirectory, { profile: 'full' })).text,
    };
    full = await start(fullDirectory, ['--profile', 'full']);
  });
  afterAll(async () => {
    await full.stop();
    fs.rmSync(fullDirectory, { recursive: true, force: true });
  });

  test('of a collector is minimum by default [R-114]', async () => {
    expect(await statusAt(collector.port, collector.key, bare())).toBe(201);
  });

  test('full of a key requires more than a collector at minimum [R-114]', async () => {
    const { text } = await issueKey(collector.dataDir, { profile: 'full' });
    await expect.poll(() => statusAt(collector.port, text, sampleEvent())).toBe(201);
    expect(await statusAt(collector.port, text, bare())).toBe(400);
  });

  test('full of a collector applies to its keys, apart from one at minimum [R-114]', async () => {
    expect(await statusAt(full.port, fullKeys.own, bare())).toBe(400);
    expect(await statusAt(full.port, fullKeys.full, bare())).toBe(400);
    expect(await statusAt(full.port, fullKeys.minimum, bare())).toBe(201);
    expect(await statusAt(full.port, fullKeys.own, sampleEvent())).toBe(201);
  });

  test.each([
    ['inference-start', 'user_identity', /^\/user_identity$/],
    ['human-output', 'output', /^\/output$/],
    ['outcome', 'outcome', /^\/outcome$/],
    ['user-feedback', 'feedback', /^\/feedback$/],
  ] as const)(
    'full refuses %s without %s, and names the field [R-115] [R-402]',
    async (kind, member, pointer) => {
      const event: Record<string, unknown> = sampleEvent(kind);
      expect(
        (await send(full.port, { key: fullKeys.own, target: EVENT_PATHS[kind], body: JSON.stringify(event) }))
          .status,
      ).toBe(201);
      const answer = await send(full.port, {
        key: fullKeys.own,
        target: EVENT_PATHS[kind],
        body: JSON.stringify({ ...event, [member]: undefined }),
      });
      expectError(answer, 'validation_failed');
      expect(answer.error().details).toEqual({
        issues: [
          { pointer: expect.stringMatching(pointer) as string, rule: 'required', message: 'is required' },
        ],
      });
    },
  );
});
