import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { limits, UNHURRIED } from '../running/collector-process.js';
import { oneCollector } from '../running/one-collector.js';
import { RawConnection, requestBytes, send, type RequestParts } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';
import { storedBodies } from '../running/stored-bodies.js';

const HEADERS_MS = 1000;
const REQUEST_MS = 2000;
const IDLE_MS = 1000;
const MAX_CONNECTIONS = 48;
const LIMITS = {
  ...{ 'headers-timeout-ms': `${HEADERS_MS}ms`, 'max-connections': MAX_CONNECTIONS },
  'segment-bytes': '2MiB',
};

const collector = oneCollector(
  limits({ ...LIMITS, 'request-timeout-ms': `${REQUEST_MS}ms`, 'keep-alive-timeout-ms': `${IDLE_MS}ms` }),
);
/** Here only the limit of the headers can end a request while a test runs. */
const patient = oneCollector(limits({ ...LIMITS, 'request-timeout-ms': '1h' }));
/** Here no time-out ends a connection. */
const unhurried = oneCollector(limits({ ...UNHURRIED, 'max-connections': MAX_CONNECTIONS }));
const post = (parts: RequestParts = {}) =>
  requestBytes({ key: collector.key, body: JSON.stringify(sampleEvent()), ...parts });

/** Sends piece after piece for as long as the connection takes them. */
async function dribble(connection: RawConnection, pieces: Iterable<string>, everyMs = 100): Promise<void> {
  for (const piece of pieces) {
    if (connection.socket.destroyed || (await connection.ending(everyMs)) !== 'open') return;
    connection.write(piece);
  }
}

/** Asserts 408 and the end of the connection, not before the time. */
async function expectTimeout(connection: RawConnection, afterMs: number, begun: number): Promise<void> {
  const answer = await connection.answer();
  const waited = performance.now() - begun;
  expect([answer?.status, answer?.error().code]).toEqual([408, 'request_timeout']);
  expect(answer?.header('Connection')).toBe('close');
  expect(waited).toBeGreaterThan(afterMs - 100);
  expect(await connection.answer()).toBeUndefined();
  connection.close();
}

describe.concurrent('a client that is too slow', () => {
  const HEAD_CASES: readonly (readonly [what: string, pieces: () => Iterable<string>, everyMs: number])[] = [
    ['sends nothing', () => [], 100],
    ['stops in the request line', () => ['POST /event'], 100],
    [
      'stops before the empty line',
      () => [
        post()
          .toString('latin1')
          .replace(/\r\n\r\n[^]*/, '\r\n'),
      ],
      100,
    ],
    [
      'sends its headers byte by byte',
      () => post({ headers: { A: 'x'.repeat(500) } }).toString('latin1'),
      50,
    ],
    [
      'sends header after header',
      () => ['POST /event/outcome HTTP/1.1\r\n', ...Array<string>(100).fill('A: b\r\n')],
      100,
    ],
  ];
  test.each(HEAD_CASES)(
    'and %s is answered 408 and cut off [R-410] [R-803]',
    async (_what, pieces, everyMs) => {
      const begun = performance.now();
      const connection = await RawConnection.open(patient.port);
      const sending = dribble(connection, pieces(), everyMs);
      await expectTimeout(connection, HEADERS_MS, begun);
      await sending;
    },
  );

  const body = JSON.stringify(sampleEvent('outcome', { text: 'x'.repeat(500) }));
  const BODY_CASES: readonly (readonly [what: string, head: () => Buffer, pieces: () => Iterable<string>])[] =
    [
      ['sends no body', () => post({ headers: { 'Content-Length': '500' }, body: '' }), () => []],
      [
        'sends its body byte by byte',
        () => post({ headers: { 'Content-Length': String(body.length) }, body: '' }),
        () => body,
      ],
      ['stops before the last byte', () => post({ body }).subarray(0, -1), () => []],
      [
        'sends its chunks byte by byte',
        () => post({ headers: { 'Transfer-Encoding': 'chunked' }, body: '' }),
        () => Array.from(body, (one) => `1\r\n${one}\r\n`),
      ],
      [
        'never ends its chunks',
        () => post({ headers: { 'Transfer-Encoding': 'chunked' }, body: `2\r\n{}\r\n` }),
        () => [],
      ],
      [
        'sends endless trailers',
        () => post({ headers: { 'Transfer-Encoding': 'chunked' }, body: '2\r\n{}\r\n0\r\n' }),
        () => Array<string>(100).fill('A: b\r\n'),
      ],
    ];
  test.each(BODY_CASES)('and %s is answered 408 and cut off [R-410] [R-803]', async (_what, head, pieces) => {
    const begun = performance.now();
    const connection = await RawConnection.open(collector.port);
    connection.write(head());
    const sending = dribble(connection, pieces());
    await expectTimeout(connection, REQUEST_MS, begun);
    await sending;
  });

  test('with its second request is answered 201 to the first and 408 to the second [R-410]', async () => {
    const event = sampleEvent();
    const connection = await RawConnection.open(collector.port);
    const second = 'POST /event/outcome HTTP/1.1\r\nHost: collector.test\r\n';
    connection.write(post({ body: JSON.stringify(event) }).toString('latin1') + second);
    expect((await connection.answer())?.status).toBe(201);
    expect((await connection.answer())?.status).toBe(408);
    expect(storedBodies(collector.dataDir, event.event_id)).toHaveLength(1);
    connection.close();
  });

  test.each([
    ['short', { key: 'nonsense', headers: { 'Content-Length': '500' } }],
    ['long', { key: 'nonsense', headers: { 'Content-Length': '500000' } }],
    ['chunked', { key: 'nonsense', headers: { 'Transfer-Encoding': 'chunked' } }],
  ] as const)('with a %s body that was refused gets one answer only [R-410]', async (_what, parts) => {
    const connection = await RawConnection.open(collector.port);
    connection.write(post({ ...parts, body: '' }));
    expect((await connection.answer())?.status).toBe(401);
    expect(await connection.answer()).toBeUndefined();
    expect(connection.rest).toBe('');
    connection.close();
  });

  test('when it does not use its connection is cut off without an answer [R-803]', async () => {
    const connection = await RawConnection.open(collector.port);
    // Before the answer, which may be seen long after it was given.
    const begun = performance.now();
    connection.write(post());
    expect((await connection.answer())?.header('Keep-Alive')).toBe('timeout=1');
    expect(await connection.ending()).toBe('end');
    expect(performance.now() - begun).toBeGreaterThan(IDLE_MS - 100);
    expect(connection.rest).toBe('');
    connection.close();
  });

  test('does not delay a fast one', async () => {
    await sleep(200);
    for (let i = 0; i < 10; i++) {
      const answer = await send(collector.port, { key: collector.key, body: JSON.stringify(sampleEvent()) });
      expect(answer.status).toBe(201);
    }
  });
});

describe('the limit of connections [R-803]', () => {
  const opened: RawConnection[] = [];
  afterEach(() => {
    for (const connection of opened.splice(0)) connection.close();
  });

  test('is kept, those within it are served, and a free place is used again', async () => {
    const { port, key } = unhurried;
    for (let i = 0; i < MAX_CONNECTIONS + 12; i++) opened.push(await RawConnection.open(port));
    for (const connection of opened) if (!connection.socket.destroyed) connection.write(post({ key }));
    const statuses = await Promise.all(
      opened.map((connection) =>
        connection.answer().then(
          (answer) => answer?.status,
          () => undefined,
        ),
      ),
    );
    expect(statuses.filter((status) => status === 201)).toHaveLength(MAX_CONNECTIONS);
    expect(statuses.filter((status) => status === undefined)).toHaveLength(12);
    opened.find((_, i) => statuses[i] === 201)?.close();
    await expect
      .poll(() =>
        send(port, { key, body: JSON.stringify(sampleEvent()) }).then(
          ({ status }) => status,
          () => 0,
        ),
      )
      .toBe(201);
  });
});
