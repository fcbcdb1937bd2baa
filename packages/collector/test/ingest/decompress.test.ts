import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import zlib from 'node:zlib';
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';
import { describe, expect, test } from 'vitest';
import { contentEncoding } from '../../src/ingest/request.js';
import { oneCollector } from '../running/one-collector.js';
import { chunked, send, type RawAnswer, type RequestParts } from '../running/raw-http.js';
import { outcomeOfSize, sampleEvent } from '../running/sample-events.js';
import { storedBodies } from '../running/stored-bodies.js';

const LIMIT = 1 << 20;
const CODINGS: Readonly<Record<string, (plain: Uint8Array | string) => Buffer>> = {
  gzip: (plain) => zlib.gzipSync(plain),
  'x-gzip': (plain) => zlib.gzipSync(plain),
  br: (plain) => zlib.brotliCompressSync(plain, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }),
  zstd: (plain) => zlib.zstdCompressSync(plain),
};
const NAMES = Object.keys(CODINGS);
const coded = (coding: string, plain: Uint8Array | string) => CODINGS[coding]?.(plain) ?? Buffer.alloc(0);

const collector = oneCollector();

function post(
  coding: string | undefined,
  body: Uint8Array | string,
  parts: RequestParts = {},
): Promise<RawAnswer> {
  const headers = { 'Content-Encoding': coding, ...parts.headers };
  return send(collector.port, { key: collector.key, ...parts, headers, body });
}

function expectError(answer: RawAnswer, code: ErrorCode): void {
  expect({ status: answer.status, code: answer.error().code }).toEqual({ status: ERRORS[code].status, code });
}

describe('a coding', () => {
  test.each([...NAMES, 'GZIP', 'Br', 'ZSTD', ' gzip '])(
    '%s is decoded, and the plain bytes are stored [R-312] [R-120]',
    async (coding) => {
      const event = sampleEvent('outcome', { text: 'é😀 '.repeat(100) });
      const plain = ` ${JSON.stringify(event)}\r\n`;
      expect((await post(coding, coded(coding.trim().toLowerCase(), plain))).status).toBe(201);
      expect(storedBodies(collector.dataDir, event.event_id)).toEqual([plain]);
    },
  );

  test.each(['identity', 'Identity', ''])('%j means no coding [R-312]', async (coding) => {
    expect((await post(coding, JSON.stringify(sampleEvent()))).status).toBe(201);
  });

  test.each([
    ...['deflate', 'compress', 'gzip, br', 'gzip,', 'identity, gzip', 'gzip;q=1', '"gzip"', '*'],
    ...['__proto__', 'constructor', 'zst', 'br2'],
  ])('%s is not supported [R-312]', async (coding) => {
    expectError(
      await post(coding, coded('gzip', JSON.stringify(sampleEvent()))),
      'unsupported_content_encoding',
    );
  });

  test('does not change which events are repeats [R-304]', async () => {
    const text = JSON.stringify(sampleEvent());
    for (const coding of NAMES) expect((await post(coding, coded(coding, text))).status).toBe(201);
    expect((await post(undefined, text)).status).toBe(201);
  });

  test('has one name for each name in the header', () => {
    const names = [undefined, ' GZip\t', 'x-gzip', 'BR', 'zstd', 'toString', 'gzip gzip'];
    expect(names.map(contentEncoding)).toEqual([
      'identity',
      'gzip',
      'gzip',
      'br',
      'zstd',
      undefined,
      undefined,
    ]);
  });
});

describe.each(NAMES)('a body in %s', (coding) => {
  const whole = coded(
    coding,
    JSON.stringify(sampleEvent('outcome', { noise: randomBytes(3000).toString('base64') })),
  );

  test('that is cut short anywhere is refused [R-312]', async () => {
    for (const length of [
      0,
      1,
      2,
      3,
      5,
      10,
      18,
      whole.length >> 1,
      whole.length - 9,
      whole.length - 2,
      whole.length - 1,
    ]) {
      expectError(await post(coding, whole.subarray(0, length)), 'invalid_compression');
    }
  });

  test.each([
    ['plain JSON', () => Buffer.from(JSON.stringify(sampleEvent()))],
    ['random', () => Buffer.concat([Buffer.of(0x7f), randomBytes(500)])],
    ['of another coding', () => coded(coding === 'br' ? 'gzip' : 'br', JSON.stringify(sampleEvent()))],
    ['followed by garbage', () => Buffer.concat([whole, Buffer.from('garbage')])],
    ['followed by half of itself', () => Buffer.concat([whole, whole.subarray(0, 20)])],
  ])('that is %s is refused [R-312]', async (_what, body) => {
    expectError(await post(coding, body()), 'invalid_compression');
  });

  test('that holds two texts is never read as the first of them [R-312]', async () => {
    const events = [sampleEvent(), sampleEvent()];
    const parts = events.map((event) => coded(coding, JSON.stringify(event)));
    expect((await post(coding, Buffer.concat(parts))).status).toBe(400);
    for (const event of events) expect(storedBodies(collector.dataDir, event.event_id)).toEqual([]);
  });

  test('that unpacks to invalid JSON is refused for that', async () => {
    expectError(await post(coding, coded(coding, 'no JSON')), 'invalid_json');
    expectError(await post(coding, coded(coding, '')), 'invalid_json');
    expectError(await post(coding, coded(coding, Uint8Array.of(0xff))), 'invalid_encoding');
  });

  test('may unpack to exactly the limit [R-312]', async () => {
    expect((await post(coding, coded(coding, outcomeOfSize(LIMIT)))).status).toBe(201);
    expectError(await post(coding, coded(coding, outcomeOfSize(LIMIT + 1))), 'body_too_large');
  });

  test('that is larger than the limit before it is unpacked is refused [R-312]', async () => {
    const packed = coded(coding, randomBytes(LIMIT + 4096));
    expect(packed.length).toBeGreaterThan(LIMIT);
    expectError(await post(coding, packed), 'body_too_large');
    const headers = { 'Transfer-Encoding': 'chunked' };
    expectError(await post(coding, chunked(packed), { headers }), 'body_too_large');
  });
});

describe('a plain body', () => {
  const HEADERS: readonly (readonly [string, RequestParts['headers'], (text: string) => string | Buffer])[] =
    [
      ['with its length', {}, (text) => text],
      ['in chunks', { 'Transfer-Encoding': 'chunked' }, (text) => chunked(text)],
      ['in many small chunks', { 'Transfer-Encoding': 'chunked' }, (text) => chunked(text, 1000)],
      ['after 100 Continue', { Expect: '100-continue' }, (text) => text],
    ];
  test.each(HEADERS)('%s may have exactly the limit [R-312]', async (_how, headers, form) => {
    expect(
      (await send(collector.port, { key: collector.key, headers, body: form(outcomeOfSize(LIMIT)) })).status,
    ).toBe(201);
    const larger = await send(collector.port, {
      key: collector.key,
      headers,
      body: form(outcomeOfSize(LIMIT + 1)),
    });
    expectError(larger, 'body_too_large');
  });
});

describe('a bomb', () => {
  const zeros = Buffer.alloc(100 << 20);
  /** A zstd frame that asks for a window of 2 GiB and then holds one short block (RFC 8878 section 3.1.1). */
  const hugeWindow = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x11, 0x00, 0x00, 0x7b, 0x7d]);
  /** The escape of large-window brotli, which RFC 7932 section 9.1 reserves, with 30 bits, and an empty last block. */
  const hugeBrotliWindow = Buffer.from([0x11, 0xde, 0x00]);
  const BOMBS: readonly (readonly [what: string, coding: string, bomb: () => Buffer, code: ErrorCode])[] = [
    ['gzip of 100 MiB of zeros', 'gzip', () => zlib.gzipSync(zeros), 'body_too_large'],
    ['br of 100 MiB of zeros', 'br', () => coded('br', zeros), 'body_too_large'],
    ['zstd of 100 MiB of zeros', 'zstd', () => zlib.zstdCompressSync(zeros), 'body_too_large'],
    ['gzip within gzip', 'gzip', () => zlib.gzipSync(zlib.gzipSync(zeros)), 'invalid_encoding'],
    ['zstd with a window of 2 GiB', 'zstd', () => hugeWindow, 'invalid_compression'],
    ['br with a window of 1 GiB', 'br', () => hugeBrotliWindow, 'invalid_compression'],
  ];

  const residentMiB = () =>
    Number(execFileSync('ps', ['-o', 'rss=', '-p', String(collector.pid)]).toString()) / 1024;

  test.each(BOMBS)('of %s is refused in flat memory [R-312] [R-803]', async (_what, coding, make, code) => {
    const bomb = make();
    expect(bomb.length).toBeLessThan(LIMIT);
    expectError(await post(coding, bomb), code);
    const before = residentMiB();
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(coding, bomb)));
    for (const answer of answers) expectError(answer, code);
    expect(residentMiB() - before).toBeLessThan(64);
  });
});

test('a gzip body followed by anything but further members is refused, a zero byte included [R-312]', async () => {
  const plain = JSON.stringify(sampleEvent());
  const member = zlib.gzipSync(plain);
  for (const behind of [
    Buffer.alloc(1),
    Buffer.from('\0garbage'),
    Buffer.concat([Buffer.alloc(1), member]),
  ]) {
    expectError(await post('gzip', Buffer.concat([member, behind])), 'invalid_compression');
  }
  const halves = [plain.slice(0, 40), plain.slice(40)].map((half) => zlib.gzipSync(half));
  expect((await post('gzip', Buffer.concat(halves))).status).toBe(201);
});
