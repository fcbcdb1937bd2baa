import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { limits, UNHURRIED } from '../running/collector-process.js';
import { oneCollector } from '../running/one-collector.js';
import {
  chunked,
  RawConnection,
  requestBytes,
  send,
  sendBytes,
  type RawAnswer,
  type RequestParts,
} from '../running/raw-http.js';
import { outcomeOfSize, outcomeText, sampleEvent } from '../running/sample-events.js';
import { allStoredBodies, storedBodies } from '../running/stored-bodies.js';

const collector = oneCollector(limits(UNHURRIED));
const opened: RawConnection[] = [];

async function open(): Promise<RawConnection> {
  const connection = await RawConnection.open(collector.port);
  opened.push(connection);
  return connection;
}

afterEach(() => {
  for (const connection of opened.splice(0)) connection.close();
});

const body = () => JSON.stringify(sampleEvent());
const post = (parts: RequestParts = {}) => requestBytes({ key: collector.key, body: body(), ...parts });

function expectError(answer: RawAnswer | undefined, code: ErrorCode): void {
  expect(answer && { status: answer.status, code: answer.error().code }).toEqual({
    status: ERRORS[code].status,
    code,
  });
  expect(answer?.header('Content-Type')).toBe('application/json');
}

/** Sends bytes and asserts that they get this error alone, and that the connection ends. */
async function expectOnlyError(bytes: string | Uint8Array, code: ErrorCode): Promise<void> {
  const connection = await open();
  connection.write(bytes);
  const answers = await connection.answers();
  expect(answers).toHaveLength(1);
  expectError(answers[0], code);
  expect(answers[0]?.header('Connection')).toBe('close');
  expect(connection.rest).toBe('');
}

/** A request written by hand, with these lines after the usual headers and these bytes after the empty line. */
function byHand(
  lines: string,
  rest: string,
  { key = collector.key, host = 'Host: collector.test\r\n' } = {},
): string {
  return `POST /event/outcome HTTP/1.1\r\n${host}X-API-Key: ${key}\r\nContent-Type: application/json\r\n${lines}\r\n${rest}`;
}

describe('the length of a body', () => {
  const json = outcomeText('"length"');
  const LENGTHS: readonly (readonly [what: string, lines: string, rest?: string])[] = [
    ['two different lengths', `Content-Length: ${json.length}\r\nContent-Length: 3\r\n`],
    ['the same length twice', `Content-Length: ${json.length}\r\nContent-Length: ${json.length}\r\n`],
    ['a list of lengths', `Content-Length: ${json.length}, ${json.length}\r\n`],
    ['a negative length', `Content-Length: -${json.length}\r\n`],
    ['a signed length', `Content-Length: +${json.length}\r\n`],
    ['a hexadecimal length', `Content-Length: 0x${json.length.toString(16)}\r\n`],
    ['a fraction', `Content-Length: ${json.length}.0\r\n`],
    ['a length with a space in it', 'Content-Length: 1 2\r\n'],
    ['a length beyond 64 bits', 'Content-Length: 99999999999999999999999\r\n'],
    ['an empty length', 'Content-Length:\r\n'],
    ['a word', 'Content-Length: many\r\n'],
    ['a length beside chunked', `Content-Length: ${json.length}\r\nTransfer-Encoding: chunked\r\n`],
    ['chunked beside a length', `Transfer-Encoding: chunked\r\nContent-Length: ${json.length}\r\n`],
    ['a space before the colon of a length', `Content-Length : ${json.length}\r\n`],
    ['a space before the colon of chunked', 'Transfer-Encoding : chunked\r\n', chunked(json).toString()],
    ['chunked, then identity', 'Transfer-Encoding: chunked, identity\r\n', chunked(json).toString()],
    ['a coding that ends like chunked', 'Transfer-Encoding: xchunked\r\n', chunked(json).toString()],
    ['chunked in quotes', 'Transfer-Encoding: "chunked"\r\n', chunked(json).toString()],
    ['chunked with a parameter', 'Transfer-Encoding: chunked;q=1\r\n', chunked(json).toString()],
    ['identity', 'Transfer-Encoding: identity\r\n', json],
    ['chunked twice in one header', 'Transfer-Encoding: chunked, chunked\r\n', chunked(json).toString()],
    [
      'chunked in two headers',
      'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n',
      chunked(json).toString(),
    ],
    ['chunked after gzip', 'Transfer-Encoding: gzip, chunked\r\n', chunked(json).toString()],
    [
      'chunked after identity in another header',
      'Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n',
      chunked(json).toString(),
    ],
    ['a vertical tab before chunked', 'Transfer-Encoding: \x0bchunked\r\n', chunked(json).toString()],
  ];

  test.each(LENGTHS.map(([what, lines, rest = json]) => [what, lines, rest] as const))(
    'given in two ways or in none is refused, and nothing after it is read: %s [R-410]',
    async (_what, lines, rest) => {
      const smuggled = sampleEvent();
      const request = byHand(lines, rest) + post({ body: JSON.stringify(smuggled) }).toString('latin1');
      await expectOnlyError(request, 'malformed_request');
      expect(storedBodies(collector.dataDir, smuggled.event_id)).toEqual([]);
    },
  );

  test('that is chunked in HTTP/1.0, which does not have it, is refused [R-410]', async () => {
    const request = post({
      version: 'HTTP/1.0',
      headers: { 'Transfer-Encoding': 'chunked' },
      body: chunked(json),
    });
    await expectOnlyError(request, 'malformed_request');
  });

  test('that is larger than the body stores no event [R-410]', async () => {
    const event = sampleEvent();
    const connection = await open();
    connection.write(post({ body: JSON.stringify(event) }).subarray(0, -1));
    connection.socket.end();
    expectError(await connection.answer(), 'malformed_request');
    expect(await connection.answer()).toBeUndefined();
    expect(storedBodies(collector.dataDir, event.event_id)).toEqual([]);
  });

  test('that is missing altogether is an empty body', async () => {
    expectError(await sendBytes(collector.port, byHand('', '')), 'invalid_json');
    expectError(await sendBytes(collector.port, byHand('Content-Length: 0\r\n', '')), 'invalid_json');
  });
});

describe('a chunked body', () => {
  const sendChunked = (bytes: Uint8Array | string) =>
    send(collector.port, { key: collector.key, headers: { 'Transfer-Encoding': 'chunked' }, body: bytes });

  test.each([1, 2, 3, 7, 64, 255])('cut into chunks of %i bytes is stored whole', async (size) => {
    const event = sampleEvent('outcome', { text: 'é😀'.repeat(20) });
    const text = JSON.stringify(event);
    expect((await sendChunked(chunked(Buffer.from(text), size))).status).toBe(201);
    expect(storedBodies(collector.dataDir, event.event_id)).toEqual([text]);
  });

  test('may have extensions and trailers, which are ignored', async () => {
    const trailers = 'X-API-Key: nonsense\r\nContent-Encoding: gzip\r\nX-Checksum: 1\r\n';
    const bytes = chunked(body(), 50, { extension: ';name=value;other="quoted"', trailers });
    expect((await sendChunked(bytes)).status).toBe(201);
  });

  test.each([
    ['a size that is not a number', 'xyz\r\n{}\r\n0\r\n\r\n'],
    ['a negative size', '-2\r\n{}\r\n0\r\n\r\n'],
    ['a size with a prefix', '0x2\r\n{}\r\n0\r\n\r\n'],
    ['a size with a space before it', ' 2\r\n{}\r\n0\r\n\r\n'],
    ['an empty size', '\r\n{}\r\n0\r\n\r\n'],
    ['a size beyond 64 bits', 'fffffffffffffffff\r\n{}\r\n0\r\n\r\n'],
    ['a chunk longer than its size', '1\r\n{}\r\n0\r\n\r\n'],
    ['no line break after a chunk', '2\r\n{}0\r\n\r\n'],
    ['bare line feeds', '2\n{}\n0\n\n'],
    ['a bare line feed in an extension', '2;a\n{}\r\n0\r\n\r\n'],
  ])('with %s is refused, with no second answer [R-410]', async (_what, bytes) => {
    await expectOnlyError(
      Buffer.concat([post({ headers: { 'Transfer-Encoding': 'chunked' }, body: bytes }), post()]),
      'malformed_request',
    );
  });

  test('with endless extensions is refused [R-410] [R-803]', async () => {
    const bytes = chunked(body(), 50, { extension: `;${'e'.repeat(20_000)}` });
    await expectOnlyError(
      post({ headers: { 'Transfer-Encoding': 'chunked' }, body: bytes }),
      'body_too_large',
    );
  });

  test('with endless trailers is refused [R-410] [R-803]', async () => {
    const connection = await open();
    const trailers = `X-Trailer: ${'t'.repeat(20_000)}\r\n`;
    connection.write(
      post({ headers: { 'Transfer-Encoding': 'chunked' }, body: chunked(body(), 50, { trailers }) }),
    );
    expectError(await connection.answer(), 'headers_too_large');
  });
});

async function answersTo(bytes: string | Uint8Array): Promise<RawAnswer[]> {
  const connection = await open();
  connection.write(bytes);
  connection.socket.end();
  return connection.answers();
}

describe('a malformed HTTP request', () => {
  const MALFORMED: readonly (readonly [what: string, bytes: () => string | Uint8Array])[] = [
    ['is a word', () => 'hello\r\n\r\n'],
    ['is of another protocol', () => Buffer.from([0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3])],
    ['is the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['is of SOCKS', () => Buffer.from([5, 1, 0])],
    ['has no version', () => 'POST /event/outcome\r\n\r\n'],
    ['has an unknown version', () => post({ version: 'HTTP/9.9' })],
    ['has a version of HTTP/2', () => post({ version: 'HTTP/2.0' })],
    ['has a version in lower case', () => post({ version: 'http/1.1' })],
    ['has a method in lower case', () => post({ method: 'post' })],
    ['has an unknown method', () => post({ method: 'SPY' })],
    ['has a space in its target', () => post({ target: '/event/out come' })],
    [
      'has a bare line feed after the request line',
      () => post().toString('latin1').replace('HTTP/1.1\r\n', 'HTTP/1.1\n'),
    ],
    ['has bare line feeds throughout', () => post().toString('latin1').replaceAll('\r\n', '\n')],
    ['has a bare carriage return', () => byHand('A: b\rC: d\r\nContent-Length: 0\r\n', '')],
    ['has a folded header', () => byHand('A: b\r\n c\r\nContent-Length: 0\r\n', '')],
    ['has a header that begins with a space', () => byHand(' A: b\r\nContent-Length: 0\r\n', '')],
    ['has a NUL in a header', () => byHand('A: b\0c\r\nContent-Length: 0\r\n', '')],
    ['has a NUL in a header name', () => byHand('A\0: b\r\nContent-Length: 0\r\n', '')],
    ['has a control character in a header', () => byHand('A: b\x01c\r\nContent-Length: 0\r\n', '')],
    ['has a header without a colon', () => byHand('Nonsense\r\nContent-Length: 0\r\n', '')],
    ['has a header without a name', () => byHand(': b\r\nContent-Length: 0\r\n', '')],
    ['has a space in a header name', () => byHand('A B: c\r\nContent-Length: 0\r\n', '')],
    ['has a NUL in its target', () => post({ target: '/event/outcome\0' })],
  ];

  test.each(MALFORMED)(
    'because it %s gets an Error body and the end of the connection [R-401] [R-410]',
    async (_what, bytes) => {
      await expectOnlyError(bytes(), 'malformed_request');
    },
  );

  test.each([
    ['two hosts', () => byHand('Content-Length: 2\r\n', '{}', { host: 'Host: a\r\nHost: b\r\n' })],
    ['the same host twice', () => byHand('Content-Length: 2\r\n', '{}', { host: 'Host: a\r\nhost: a\r\n' })],
    ['no host in HTTP/1.1', () => byHand('Content-Length: 2\r\n', '{}', { host: '' })],
    ['Content-Type twice', () => byHand('Content-Type: application/json\r\nContent-Length: 2\r\n', '{}')],
    [
      'Content-Encoding twice',
      () => byHand('Content-Encoding: gzip\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n', '{}'),
    ],
  ])('because it has %s is refused before its key is looked at [R-410]', async (_what, bytes) => {
    expectError(await sendBytes(collector.port, bytes()), 'malformed_request');
  });

  test.each([
    ['one header', () => byHand(`A: ${'x'.repeat(17_000)}\r\nContent-Length: 2\r\n`, '{}')],
    ['many headers', () => byHand(`${'Abcdefg: hijklmn\r\n'.repeat(1200)}Content-Length: 2\r\n`, '{}')],
    ['a header name', () => byHand(`${'x'.repeat(17_000)}: a\r\nContent-Length: 2\r\n`, '{}')],
    ['the target', () => post({ target: `/event/outcome?${'x'.repeat(17_000)}` })],
    ['the key', () => post({ key: 'x'.repeat(17_000) })],
    ['a header that never ends, a megabyte of it', () => byHand(`A: ${'x'.repeat(1 << 20)}`, '')],
  ])(
    'of more than 16 KiB in %s gets 431, an Error body and the end of the connection [R-410] [R-803]',
    async (_what, bytes) => {
      await expectOnlyError(bytes(), 'headers_too_large');
    },
  );

  test('may have headers of nearly 16 KiB', async () => {
    const answer = await send(collector.port, {
      key: collector.key,
      body: body(),
      headers: { A: 'x'.repeat(15_500) },
    });
    expect(answer.status).toBe(201);
  });
});

describe('the target of a request', () => {
  test.each(['http://collector.test', 'https://collector.test:8443', 'HTTP://127.0.0.1'])(
    'may be absolute, as RFC 9112 section 3.2.2 asks: %s',
    async (origin) => {
      const parts = { key: collector.key, target: `${origin}/event/outcome` };
      expect((await send(collector.port, { ...parts, body: body() })).status).toBe(201);
      expectError(await send(collector.port, { ...parts, method: 'PUT' }), 'method_not_allowed');
    },
  );
});

describe('Expect', () => {
  const expecting = (expectation: string, parts: RequestParts = {}) => {
    const content = body();
    const head = requestBytes({
      key: collector.key,
      ...parts,
      headers: { Expect: expectation, 'Content-Length': String(content.length), ...parts.headers },
    });
    return { head, content };
  };

  test.each(['100-continue', '100-Continue'])(
    '%s gets 100 Continue before it sends its body, and is then answered',
    async (expectation) => {
      const connection = await open();
      const { head, content } = expecting(expectation);
      connection.write(head);
      const goOn = await connection.answer();
      expect([goOn?.status, goOn?.body, goOn?.headers]).toEqual([100, '', []]);
      connection.write(content);
      expect((await connection.answer())?.status).toBe(201);
      connection.write(post());
      expect((await connection.answer())?.status).toBe(201);
    },
  );

  test.each([
    ['a bad key', 'key_invalid', { key: 'nonsense' }],
    ['no key', 'key_missing', { key: undefined }],
    ['a wrong path', 'not_found', { target: '/event/none' }],
    ['a wrong method', 'method_not_allowed', { method: 'PUT' }],
    ['a wrong media type', 'unsupported_media_type', { headers: { 'Content-Type': 'text/plain' } }],
    ['too large a body', 'body_too_large', { headers: { 'Content-Length': '1048577' } }],
  ] as const)(
    '100-continue with %s is refused and never gets 100 Continue [R-313]',
    async (_what, code, parts) => {
      const connection = await open();
      connection.write(expecting('100-continue', parts).head);
      expectError(await connection.answer(), code);
      expect(await connection.ending()).not.toBe('open');
      expect(connection.rest).toBe('');
    },
  );

  test.each(['200-ok', 'json', '100-continued'])(
    '%s is not supported and is answered 417',
    async (expectation) => {
      const { head, content } = expecting(expectation);
      expectError(
        await sendBytes(collector.port, Buffer.concat([head, Buffer.from(content)])),
        'expectation_failed',
      );
    },
  );

  test('of another kind is not reported without a valid key', async () => {
    expectError(await sendBytes(collector.port, expecting('json', { key: 'nonsense' }).head), 'key_invalid');
  });
});

describe('pipelined requests', () => {
  test('are answered in the order in which they were sent [R-410]', async () => {
    const connection = await open();
    const id = randomUUID();
    connection.write(
      Buffer.concat([
        post({ body: outcomeText('1', id) }),
        post({ target: '/event/none' }),
        post({ body: outcomeText('2', id) }),
        post({ key: 'nonsense' }),
        post({ method: 'GET', body: '' }),
        post({ body: '{}' }),
        post({ body: outcomeText('1', id) }),
      ]),
    );
    const statuses: (number | undefined)[] = [];
    for (let i = 0; i < 7; i++) statuses.push((await connection.answer())?.status);
    expect(statuses).toEqual([201, 404, 409, 401, 405, 400, 201]);
  });

  test('a hundred at once are all stored and answered', async () => {
    const connection = await open();
    const events = Array.from({ length: 100 }, () => sampleEvent());
    connection.write(Buffer.concat(events.map((event) => post({ body: JSON.stringify(event) }))));
    for (let i = 0; i < events.length; i++) expect((await connection.answer())?.status).toBe(201);
    const stored = allStoredBodies(collector.dataDir);
    for (const event of events) expect(stored.get(event.event_id)).toEqual([JSON.stringify(event)]);
  });

  const REFUSED: readonly (readonly [what: string, parts: RequestParts])[] = [
    ['no key', { key: undefined }],
    ['a wrong key', { key: 'nonsense' }],
    ['a key that may be new', { key: `cek_abcdefghijkl_${'a'.repeat(43)}` }],
    ['a wrong path', { target: '/event/none' }],
    ['a wrong method', { method: 'GET', body: '' }],
    ['no host', { headers: { Host: undefined } }],
  ];

  test.each(REFUSED)(
    'a hundred with %s, without a key, get one answer, and nothing after it is read [R-316]',
    async (_what, parts) => {
      const connection = await open();
      const event = sampleEvent();
      const behind = post({ body: JSON.stringify(event) });
      connection.write(Buffer.concat([...Array<Buffer>(99).fill(post(parts)), behind, behind]));
      const answers = await connection.answers();
      expect(answers).toHaveLength(1);
      expect(answers[0]?.status).toBeGreaterThanOrEqual(400);
      expect(await connection.ending()).toBe('end');
      expect(storedBodies(collector.dataDir, event.event_id)).toEqual([]);
    },
  );

  test('without a key are not followed by a tunnel or an upgrade [R-316]', async () => {
    for (const behind of ['CONNECT collector.test:443', 'OPTIONS /event/outcome', 'GET /event/outcome']) {
      const connection = await open();
      const upgrade = 'Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
      connection.write(`GET / HTTP/1.1\r\nHost: a\r\n\r\n${behind} HTTP/1.1\r\n${upgrade}`);
      expect((await connection.answers()).map(({ status }) => status)).toEqual([404]);
    }
  });

  test('one after the other are each answered, also without a key [R-316]', async () => {
    const connection = await open();
    for (const [, parts] of REFUSED.slice(0, 5)) {
      connection.write(post(parts));
      expect((await connection.answer())?.status).toBeGreaterThanOrEqual(400);
    }
    connection.write(post());
    expect((await connection.answer())?.status).toBe(201);
  });

  test('with a key are answered before the refusal that ends the connection: the sixteenth at once [R-316]', async () => {
    const connection = await open();
    const wrong = post({ target: '/event/none' });
    connection.write(Buffer.concat([post(), ...Array<Buffer>(100).fill(wrong)]));
    const answers = await connection.answers();
    expect(answers.map(({ status }) => status)).toEqual([201, ...Array<number>(16).fill(404)]);
    expect(answers.map((answer) => answer.header('Connection')).lastIndexOf('keep-alive')).toBe(15);
  });

  const BEHIND: readonly (readonly [what: string, bytes: () => string | Uint8Array])[] = [
    ['garbage', () => 'garbage\r\n\r\n'],
    ['a broken length', () => byHand('Content-Length: -1\r\n', '')],
    ['a broken chunk', () => post({ headers: { 'Transfer-Encoding': 'chunked' }, body: 'xyz\r\n' })],
    ['headers that are too large', () => byHand(`A: ${'x'.repeat(20_000)}\r\n`, '')],
    ['CONNECT', () => 'CONNECT collector.test:443 HTTP/1.1\r\nHost: collector.test\r\n\r\n'],
    ['half a request and the end', () => byHand('Content-Length: 5000\r\n', '{')],
  ];

  test.each(BEHIND)('a valid one before %s never gets an error of that one [R-410]', async (_what, bytes) => {
    const event = sampleEvent();
    const first = post({ body: JSON.stringify(event) });
    const answers = await answersTo(Buffer.concat([first, Buffer.from(bytes() as Uint8Array)]));
    // Its own answer, or none at all: then it is sent again.
    if (answers.length > 0) {
      expect(answers[0]?.status).toBe(201);
      expect(storedBodies(collector.dataDir, event.event_id)).toHaveLength(1);
    }
  });

  test('are all answered before a fault in the body of one of them, also when that was refused [R-410]', async () => {
    const chunked = { headers: { 'Transfer-Encoding': 'chunked' }, body: 'xyz\r\n' };
    for (const [broken, expected] of [
      [post(chunked), 400],
      [post({ ...chunked, key: 'nonsense' }), 401],
    ] as const) {
      const connection = await open();
      connection.write(Buffer.concat([post(), post(), broken, post()]));
      expect((await connection.answers()).map(({ status }) => status)).toEqual([201, 201, expected]);
      expect(await connection.ending()).toBe('end');
    }
  });

  test.each([
    ['a request after Connection: close', { headers: { Connection: 'close' } }, () => post()],
    ['a request after HTTP/1.0', { version: 'HTTP/1.0' }, () => post()],
    ['garbage', {}, () => Buffer.from('garbage\r\n\r\n')],
  ] as const)(
    'a valid one before %s gets its answer, which is the last [R-316]',
    async (_what, parts, behind) => {
      const answers = await answersTo(Buffer.concat([post(), post(parts), behind()]));
      expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    },
  );

  test.each(['garbage\r\n\r\n', 'POST /event/outcome HT'])(
    'a refused one whose answer waits for its turn, before %j, gets it, and the connection ends [R-316]',
    async (behind) => {
      const connection = await open();
      connection.socket.end(Buffer.concat([post(), post({ method: 'GET', body: '' }), Buffer.from(behind)]));
      const [first, second, ...more] = (await connection.answers()).map(({ status }) => status);
      expect([first, second]).toEqual([201, 405]);
      // If both were sent before the end of the connection was seen, the request cut off there has its own error.
      expect(more).toEqual(more.length === 0 ? [] : [400]);
    },
  );

  test('a valid one that was answered, before garbage, is followed by the error of the garbage', async () => {
    for (const [, bytes] of BEHIND.slice(0, 5)) {
      const connection = await open();
      connection.write(post());
      expect((await connection.answer())?.status).toBe(201);
      connection.write(bytes());
      expect((await connection.answer())?.status).toBeGreaterThanOrEqual(400);
      expect(await connection.ending()).not.toBe('open');
    }
  });
});

describe('an early answer to a body that is not read', () => {
  const large = Buffer.alloc(24 << 20, 'x');
  test.each([
    ['a missing key', 'key_missing', { key: undefined }],
    ['an invalid key', 'key_invalid', { key: 'nonsense' }],
    ['a wrong path', 'not_found', { target: '/event/none' }],
    ['a size that is announced', 'body_too_large', {}],
    ['a size that is not announced', 'body_too_large', { headers: { 'Transfer-Encoding': 'chunked' } }],
  ] as const)(
    'arrives whole at a client that sends all of it first: %s [R-313]',
    async (_what, code, parts: RequestParts) => {
      const connection = await open();
      const isChunked = parts.headers?.['Transfer-Encoding'] === 'chunked';
      connection.write(post({ ...parts, body: isChunked ? chunked(large) : large }));
      const answer = await connection.answer();
      expectError(answer, code);
      expect(answer?.header('Connection')).toBe('close');
      expect(await connection.ending()).not.toBe('open');
    },
  );

  test.each([500, 60_000])('leaves the connection open when the body is small: %i bytes', async (size) => {
    const connection = await open();
    connection.write(post({ key: 'nonsense', body: outcomeOfSize(size) }));
    expectError(await connection.answer(), 'key_invalid');
    connection.write(post());
    expect((await connection.answer())?.status).toBe(201);
  });

  test('is not lost in a reset when a client that wants to close sends its body later [R-316]', async () => {
    const connection = await open();
    const error = vi.fn();
    connection.socket.on('error', error);
    const bytes = post({ key: 'nonsense', headers: { Connection: 'close' }, body: outcomeOfSize(60_000) });
    connection.write(bytes.subarray(0, -50_000));
    expectError(await connection.answer(), 'key_invalid');
    for (let at = -50_000; at < 0; at += 10_000) {
      connection.write(bytes.subarray(at, at + 10_000 || undefined));
      await sleep(10);
    }
    expect(await connection.ending()).toBe('end');
    expect(error).not.toHaveBeenCalled();
  });

  test('is not followed by another one when the rest of the body is malformed', async () => {
    const connection = await open();
    connection.write(
      post({ key: 'nonsense', headers: { 'Transfer-Encoding': 'chunked' }, body: '5\r\n12345\r\n' }),
    );
    expectError(await connection.answer(), 'key_invalid');
    connection.write('xyz\r\n');
    expect(await connection.answer()).toBeUndefined();
    expect(connection.rest).toBe('');
  });
});

describe('other methods and versions', () => {
  test('HEAD is answered with no body, and the next request as usual', async () => {
    const connection = await open();
    connection.write(post({ method: 'HEAD', body: '' }));
    const answer = await connection.answer({ head: true });
    expect([answer?.status, answer?.header('Allow')]).toEqual([405, 'POST']);
    connection.write(post());
    expect((await connection.answer())?.status).toBe(201);
  });

  test('OPTIONS of CORS gets no header that would permit another origin', async () => {
    const answer = await send(collector.port, {
      method: 'OPTIONS',
      headers: { Origin: 'https://elsewhere.test', 'Access-Control-Request-Method': 'POST' },
    });
    expect(answer.status).toBe(405);
    expect(answer.raw.toLowerCase()).not.toContain('access-control');
  });

  test('CONNECT is answered 405 and the connection ends', async () => {
    const connection = await open();
    connection.write('CONNECT collector.test:443 HTTP/1.1\r\nHost: collector.test\r\n\r\n');
    const answers = await connection.answers();
    expect(answers.map(({ status }) => status)).toEqual([405]);
    expect(answers[0]?.header('Allow')).toBe('POST');
  });

  test('CONNECT followed by a reset affects no other client', async () => {
    for (let i = 0; i < 20; i++) {
      const connection = await open();
      connection.write(
        `CONNECT collector.test:443 HTTP/1.1\r\nHost: collector.test\r\n\r\n${'x'.repeat(i * 1000)}`,
      );
      if (i % 2 === 0) await sleep(5);
      connection.reset();
    }
    await sleep(100);
    expect((await sendBytes(collector.port, post())).status).toBe(201);
    expect(collector.running.process.exitCode).toBeNull();
  });

  test.each(['websocket', 'h2c', 'TLS/1.3'])(
    'Upgrade to %s is ignored, and the event is accepted',
    async (protocol) => {
      const headers = { Connection: 'Upgrade, HTTP2-Settings', Upgrade: protocol, 'HTTP2-Settings': '' };
      const event = sampleEvent();
      const answer = await send(collector.port, { key: collector.key, headers, body: JSON.stringify(event) });
      expect(answer.status).toBe(201);
      expect(storedBodies(collector.dataDir, event.event_id)).toHaveLength(1);
    },
  );

  test('HTTP/1.0 without Host is served and the connection ends', async () => {
    const connection = await open();
    connection.write(post({ version: 'HTTP/1.0', headers: { Host: undefined } }));
    const answers = await connection.answers();
    expect(answers.map(({ status }) => status)).toEqual([201]);
    expect(answers[0]?.header('Connection')).toBe('close');
  });
});

describe('a connection', () => {
  test('whose client has ended its side is answered for its complete requests [R-316]', async () => {
    const events = [sampleEvent(), sampleEvent()];
    const bytes = Buffer.concat(events.map((event) => post({ body: JSON.stringify(event) })));
    const answers = await answersTo(bytes);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    for (const { event_id } of events) expect(storedBodies(collector.dataDir, event_id)).toHaveLength(1);
  });

  test('is used again for many requests, accepted and refused', async () => {
    const connection = await open();
    for (let i = 0; i < 60; i++) {
      const bad = i % 3 === 1;
      connection.write(post(bad ? { body: '{' } : {}));
      expect((await connection.answer())?.status).toBe(bad ? 400 : 201);
    }
  });

  test('ends after the answer when the client asks for it', async () => {
    const connection = await open();
    connection.write(post({ headers: { Connection: 'close' } }));
    expect((await connection.answers()).map(({ status }) => status)).toEqual([201]);
  });

  test('may send its bytes one at a time', async () => {
    const connection = await open();
    connection.socket.setNoDelay(true);
    for (const byte of post()) {
      connection.write(Uint8Array.of(byte));
      if (byte % 8 === 0) await new Promise(setImmediate);
    }
    expect((await connection.answer())?.status).toBe(201);
  });

  test('that is reset in the middle of a body leaves nothing of its event', async () => {
    const event = sampleEvent();
    for (let i = 0; i < 50; i++) {
      const connection = await open();
      connection.write(post({ body: JSON.stringify(event) }).subarray(0, -1 - i));
      await new Promise(setImmediate);
      connection.reset();
    }
    expect((await sendBytes(collector.port, post())).status).toBe(201);
    expect(storedBodies(collector.dataDir, event.event_id)).toEqual([]);
  });
});
