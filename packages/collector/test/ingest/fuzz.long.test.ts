/** Requests that are nearly valid. The right answer to each is unknown; wrong answers are known. */
import zlib from 'node:zlib';
import { ERRORS, EVENT_KINDS, EVENT_PATHS, type ErrorCode } from '@clinical-events/protocol';
import { expect, test } from 'vitest';
import { Random, runs, SEED } from '../../../../test/property-runs.js';
import { limits, run, storedEvents } from '../running/collector-process.js';
import { oneCollector } from '../running/one-collector.js';
import { chunked, RawConnection, requestBytes, send, type RawAnswer } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';

const REQUESTS = runs(100_000, 3000);
const SENDERS = 48;
/** A connection without data for this long gets the end of the client's side. */
const PATIENCE_MS = 150;
/** Far beyond the collector's own time-outs, and the time of Node's check. */
const HUNG_MS = 300_000;

const ODD_TEXTS = [
  ...[
    ...['null', '0', '-0', '1e999', '1E-999', '12345678901234567890', '""', '"\\u0000"', '"\\ud800"'],
    ...['[]', '{}', '[[[]]]'],
  ],
  ...[
    ...['NaN', '"\\x"', '{"a":1,"a":2}', '{"__proto__":{}}', 'true', '"2026-02-30T00:00:00Z"'],
    '"9999-12-31T23:59:60Z"',
  ],
  ...[
    ...['[{', '"', '\\', '\u0000', '\ufeff', '"😀"', '/**/', '1 2', '2147483648', '-2147483649', '12.5'],
    '{"":{"":{}}}',
  ],
];
const ODD_HEADERS: readonly (readonly [string, string | readonly string[] | undefined])[] = [
  ...['Host', 'X-API-Key', 'Content-Type', 'Content-Length'].map((name) => [name, undefined] as const),
  ...['Host', 'X-API-Key', 'Content-Type', 'Content-Encoding'].map((name) => [name, ['a', 'b']] as const),
  ...['0', '1', '7', '-1', '99999999999999999999', 'x', '1048577', ''].map(
    (n) => ['Content-Length', n] as const,
  ),
  ...['gzip', 'br', 'zstd', 'deflate', ''].map((coding) => ['Content-Encoding', coding] as const),
  ...['chunked', 'gzip, chunked', 'identity', 'x'].map((coding) => ['Transfer-Encoding', coding] as const),
  ...['100-continue', 'x'].map((what) => ['Expect', what] as const),
  ...['close', 'keep-alive', 'Upgrade'].map((what) => ['Connection', what] as const),
  ...['text/plain', 'application/json; charset=x', ''].map((type) => ['Content-Type', type] as const),
  ['Upgrade', 'websocket'],
  ['X-Long', 'x'.repeat(17_000)],
  ['X-Odd', '\x00\x01\x7f\xff'],
];

function mutatedText(random: Random, text: string): string {
  const values = [...text.matchAll(/:("(?:[^"\\]|\\.)*"|-?\d+|\{|\})/g)];
  // After earlier faults there may be no value left.
  if (values.length === 0) return text;
  const { index, 0: found } = random.of(values);
  switch (random.below(5)) {
    case 0: // another value
      return `${text.slice(0, index)}:${random.of(ODD_TEXTS)}${text.slice(index + found.length)}`;
    case 1: // a member more
      return text.replace(
        '{',
        `{${JSON.stringify(random.of(['x', 'run_id', '__proto__', 'event_id']))}:${random.of(ODD_TEXTS)},`,
      );
    case 2: // deep
      return text.replace(/\}$/, `,"deep":${'['.repeat(random.below(90))}${']'.repeat(random.below(90))}}`);
    case 3: // large
      return text.replace(/\}$/, `,"large":"${'x'.repeat(random.below(40_000))}"}`);
    default: // a part left out
      return text.slice(0, index) + text.slice(index + random.below(60));
  }
}

interface Fuzzed {
  readonly bytes: Buffer;
  readonly requests: number;
  /** The content of the bodies, or undefined where it is unknown. */
  readonly text: string | undefined;
}

/** A request with faults of a kind that a careless client makes. */
function structured(
  random: Random,
  key: string,
): Fuzzed & { readonly text: string; readonly plain: boolean } {
  const kind = random.of(EVENT_KINDS);
  let text = JSON.stringify({ ...sampleEvent(kind), event_id: random.uuid() });
  while (random.chance(2)) text = mutatedText(random, text);
  const headers: Record<string, string | readonly string[] | undefined> = {};
  let body: Uint8Array | string = text;
  const coding = random.below(8);
  if (coding === 0) body = zlib.gzipSync(text);
  if (coding === 1)
    body = zlib.brotliCompressSync(text, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } });
  if (coding === 2) body = zlib.zstdCompressSync(text);
  if (coding < 3) headers['Content-Encoding'] = ['gzip', 'br', 'zstd'][coding];
  const isChunked = random.chance(4);
  if (isChunked) {
    headers['Transfer-Encoding'] = 'chunked';
    body = chunked(body, 1 + random.below(400), { trailers: random.chance(3) ? 'X-Trailer: 1\r\n' : '' });
  }
  while (random.chance(4)) {
    const [name, value] = random.of(ODD_HEADERS);
    headers[name] = value;
  }
  const target = random.chance(20)
    ? random.of(['/', '*', '/event/x', 'http://a/event/outcome'])
    : EVENT_PATHS[kind];
  const method = random.chance(20) ? random.of(['GET', 'HEAD', 'PUT', 'CONNECT', 'PRI', 'post']) : 'POST';
  const version = random.chance(30)
    ? random.of(['HTTP/1.0', 'HTTP/2.0', 'HTTP/1.2', 'http/1.1'])
    : 'HTTP/1.1';
  const bytes = requestBytes({
    method,
    target,
    version,
    key: random.chance(20) ? `${key}x` : key,
    headers,
    body,
  });
  return { bytes, requests: 1, text, plain: coding >= 3 && !isChunked };
}

/** The same bytes with a few of them changed, anywhere. */
function damaged(random: Random, bytes: Buffer): Buffer {
  const at = random.below(bytes.length);
  const length = 1 + random.below(8);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (random.below(6)) {
    case 0: {
      const flipped = Buffer.from(bytes);
      flipped[at] = (flipped[at] ?? 0) ^ (1 << random.below(8));
      return flipped;
    }
    case 1:
      return Buffer.concat([before, after.subarray(length)]);
    case 2:
      return Buffer.concat([before, after.subarray(0, length), after]);
    case 3:
      return Buffer.concat([before, Buffer.from(Array.from({ length }, () => random.below(256))), after]);
    case 4:
      return Buffer.concat([
        before,
        Buffer.from(random.of(['\r\n', '\n', '\r\n\r\n', '\0', ' ', ':', '"', '{', '}'])),
      ]);
    default:
      return before;
  }
}

function fuzzed(random: Random, key: string): Fuzzed {
  const parts = [structured(random, key)];
  if (random.chance(6)) parts.push(structured(random, key));
  let bytes: Buffer = Buffer.concat(parts.map((part) => part.bytes));
  let text: string | undefined = parts.map((part) => part.text).join('\n');
  while (random.chance(3)) {
    bytes = damaged(random, bytes);
    text = parts.every(({ plain }) => plain) ? bytes.toString('latin1') : undefined;
  }
  return { bytes, requests: parts.length, text };
}

/** The answers to these bytes, up to the end of the connection. Throws when that does not come. */
async function answersTo(random: Random, { bytes, requests }: Fuzzed): Promise<RawAnswer[]> {
  const connection = await RawConnection.open(collector.port);
  try {
    const answers: RawAnswer[] = [];
    const pieces = random.chance(4) ? 1 + random.below(4) : 1;
    for (let i = 0; i < pieces; i++) {
      connection.write(bytes.subarray((bytes.length * i) / pieces, (bytes.length * (i + 1)) / pieces));
      if (i < pieces - 1) await new Promise(setImmediate);
    }
    const resets = random.chance(50);
    for (;;) {
      const head = answers.length === 0 && bytes.toString('latin1', 0, 5) === 'HEAD ';
      const answer = await connection
        .answer({ head, patienceMs: PATIENCE_MS })
        .catch((): 'silent' => 'silent');
      if (answer === undefined) return answers;
      if (answer !== 'silent') {
        answers.push(answer);
        if (answers.length < requests) continue;
      }
      if (resets) {
        connection.reset();
        return answers;
      }
      // Some leave it to the collector's time-outs to end it; and half a close is one, while an answer is under way.
      if (!random.chance(10)) connection.socket.end();
      if ((await connection.ending(HUNG_MS)) === 'open') {
        throw new Error(`hung after ${JSON.stringify(bytes.toString('latin1'))}`);
      }
    }
  } finally {
    connection.close();
  }
}

const collector = oneCollector([
  ...limits({
    ...{ 'headers-timeout-ms': '1s', 'request-timeout-ms': '2s', 'keep-alive-timeout-ms': '1s' },
    'segment-bytes': '1MiB',
  }),
  ...['--max-body-bytes', '64KiB'],
]);

test(`${REQUESTS} fuzzed requests never harm the collector or an event [R-410] [R-601]`, async () => {
  const accepted: string[] = [];
  const statuses = new Map<number, number>();
  let unknown = 0;
  let next = 0;
  const sender = async () => {
    for (;;) {
      const number = next++;
      if (number >= REQUESTS) return;
      const random = new Random(SEED + number);
      const request = fuzzed(random, collector.key);
      const answers = await answersTo(random, request);
      for (const answer of answers) {
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        check(answer, `SEED=${SEED}, request ${number}`);
      }
      const ids = [...(request.text ?? '').matchAll(/"event_id"\s*:\s*"([^"]{36})"/g)].map(
        ([, id]) => id ?? '',
      );
      const successes = answers.filter(({ status }) => status === 201).length;
      // With two ids and one success it is unknown which was accepted.
      if (request.text !== undefined && successes === ids.length)
        accepted.push(...ids.map((id) => id.toLowerCase()));
      else unknown += successes;
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));

  const seen = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`);
  process.stderr.write(`${seen.join(', ')}\n`);
  // Fuzz that is all refused at once, or all accepted, tests nothing.
  expect(accepted.length).toBeGreaterThan(REQUESTS / 20);
  expect(statuses.get(400)).toBeGreaterThan(REQUESTS / 20);

  expect(collector.running.process.exitCode).toBeNull();
  expect(collector.running.output.stderr).not.toMatch(/"level":"(error|fatal)"/);
  const last = sampleEvent();
  const answer = await send(collector.port, { key: collector.key, body: JSON.stringify(last) });
  expect(answer.status).toBe(201);
  const doctor = await run(['doctor', '--json', '--data-dir', collector.dataDir]);
  expect([doctor.code, (JSON.parse(doctor.stdout) as { damaged: boolean }).damaged]).toEqual([0, false]);

  const stored = new Map<string, number>();
  for (const { event_id } of await storedEvents(collector.dataDir)) {
    stored.set(event_id, (stored.get(event_id) ?? 0) + 1);
  }
  expect([...stored].filter(([, times]) => times !== 1)).toEqual([]);
  expect([...accepted, last.event_id].filter((id) => !stored.has(id))).toEqual([]);
  expect(stored.size).toBeGreaterThanOrEqual(new Set(accepted).size + 1);
  process.stderr.write(
    `${accepted.length} accepted and found, ${unknown} accepted of unknown id, ${stored.size} stored\n`,
  );
});

/** To any request, an answer is 201 or an Error of the table, and no internal error. */
function check(answer: RawAnswer, which: string): void {
  if (answer.status === 100) return;
  if (answer.status === 201) {
    expect(answer.body, which).toBe('{"status":"accepted"}');
    return;
  }
  expect(answer.status, which).toBeGreaterThanOrEqual(400);
  expect(answer.status, which).toBeLessThan(500);
  // To HEAD there is no body.
  if (answer.body === '') return;
  const { code = '', message } = answer.error();
  expect(Object.keys(ERRORS), which).toContain(code);
  const entry = ERRORS[code as ErrorCode];
  expect([answer.status, withoutPlace(message)], which).toEqual([entry.status, entry.message]);
}

/** What a message may add to that of the table: why a body is no JSON, in these words, and where. Nothing of the body. */
const PLACE =
  /: (?:it is empty|it begins with (?:a byte order mark|the byte order mark of UTF-16)|(?:it ends too soon,|unexpected character|NaN and Infinity are not JSON values) at line \d+, column \d+)\.$/;

function withoutPlace(message: unknown): unknown {
  return typeof message === 'string' ? message.replace(PLACE, '.') : message;
}
