import { randomBytes } from 'node:crypto';
import http from 'node:http';
import net from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { start } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { scratch } from '../running/scratch.js';
import { modelSpan, otlpPortOf, sendOtlp, tracesOf } from './sending.js';

/** A message within a message of protobuf: field number and bytes. */
function field(number: number, bytes: Buffer | string): Buffer {
  const contents = Buffer.from(bytes as string);
  const length: number[] = [];
  for (let left = contents.length; left > 0 || length.length === 0; left >>>= 7)
    length.push((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), contents]);
}

/** Spans of models, of which some batches are made, and then spans that are empty, which are decoded with them. */
function largeOnceDecoded(): Buffer {
  const attribute = (name: string, text: string) =>
    field(9, Buffer.concat([field(1, name), field(2, field(1, text))]));
  const model = () =>
    field(
      2,
      Buffer.concat([
        ...[field(1, randomBytes(16)), field(2, randomBytes(8))],
        ...[attribute('gen_ai.operation.name', 'chat'), attribute('gen_ai.request.model', 'm')],
      ]),
    );
  const empty = Buffer.alloc(2 * 259_000, field(2, ''));
  return field(1, field(2, Buffer.concat([...Array.from({ length: 1000 }, model), empty])));
}

test('[R-1923] requests that are much larger once decoded are not decoded all at once, and keys take turns', async () => {
  const dataDir = scratch();
  const [key, other] = [(await issueKey(dataDir)).text, (await issueKey(dataDir)).text];
  const running = await start(dataDir, ['--otlp-port', '0']);
  onTestFinished(() => running.kill());
  const port = otlpPortOf(running);
  const answers: (readonly [by: string, status: number])[] = [];
  const sent = (by: string, body: Buffer | string) => {
    const type = by === key ? 'application/x-protobuf' : 'application/json';
    const answer = sendOtlp(port, by, body, { headers: { 'content-type': type } });
    return answer.then(({ status }) => answers.push([by, status]));
  };
  const large = Array.from({ length: 12 }, () => sent(key, largeOnceDecoded()));
  await Promise.race(large);
  await sent(other, tracesOf([modelSpan()]));
  // It has waited for its turn, and not for all requests before it.
  expect(answers.length).toBeLessThan(1 + large.length);
  await Promise.all(large);
  expect(answers.map(([, status]) => status)).toEqual(Array<number>(1 + large.length).fill(200));
  expect(running.output.stderr).not.toContain('memory');
});

/** Resolves once the collector waits for a body that is announced and does not come. */
async function announce(port: number, key: string): Promise<void> {
  const request = http.request({
    ...{ host: '127.0.0.1', port, path: '/v1/traces', method: 'POST' },
    headers: {
      ...{ 'x-api-key': key, 'content-type': 'application/json' },
      ...{ 'content-length': String(64 << 20), expect: '100-continue' },
    },
  });
  onTestFinished(() => void request.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  request.on('error', reject).on('continue', () => resolve(undefined));
  request.on('response', ({ statusCode }) => reject(new Error(`it was answered ${statusCode}`)));
  request.flushHeaders();
  await promise;
}

test('[R-1923] requests that announce 64 MiB and send nothing block neither their key nor another one', async () => {
  const dataDir = scratch();
  const keys = await Promise.all(Array.from({ length: 3 }, async () => (await issueKey(dataDir)).text));
  const running = await start(dataDir, ['--otlp-port', '0']);
  onTestFinished(() => running.kill());
  const port = otlpPortOf(running);
  const body = tracesOf([modelSpan()]);
  for (const key of keys.slice(1)) for (let count = 0; count < 8; count++) await announce(port, key);
  for (const key of keys) expect((await sendOtlp(port, key, body)).status).toBe(200);
});

/** What is answered to requests that are sent at once on one connection: statuses, in their order, and all text. */
async function pipelined(port: number, key: string, bodies: readonly string[]) {
  const socket = net.connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  let text = '';
  socket.setEncoding('utf8').on('data', (more: string) => (text += more));
  const head = ['POST /v1/traces HTTP/1.1', 'Host: x', `X-API-Key: ${key}`, 'Content-Type: application/json'];
  const said = bodies.map((body) =>
    [...head, `Content-Length: ${Buffer.byteLength(body)}`, '', body].join('\r\n'),
  );
  socket.write(said.join(''));
  const statuses = () => [...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status));
  await expect.poll(() => statuses().length, { timeout: 60_000 }).toBe(bodies.length);
  return { statuses: statuses(), text };
}

test('[R-1923] pipelined requests are answered in their order, and none of their content is in a log line or a page', async () => {
  const dataDir = scratch();
  const [key, full] = await Promise.all([
    ...[issueKey(dataDir), issueKey(dataDir, { profile: 'full' })].map(async (made) => (await made).text),
  ]);
  const running = await start(dataDir, ['--otlp-port', '0', '--log-level', 'debug']);
  onTestFinished(() => running.kill());
  const port = otlpPortOf(running);
  const mark = `mrn-${randomBytes(6).toString('hex')}`;
  const good = () =>
    tracesOf([
      modelSpan({ 'user.id': mark, [mark]: mark, 'error.type': mark, 'gen_ai.request.model': mark }),
    ]);
  const wrong = [
    ...[good().slice(0, -9), `{"resourceSpans":[{"${mark}":1,"scopeSpans":"${mark}"}]}`, mark],
    good().replace('"1795753121694000000"', `"${mark}"`),
    good().replace(`{"stringValue":"${mark}"}`, `{"intValue":"${mark}"}`),
  ];
  const bodies = Array.from({ length: 8 }, () => [good(), ...wrong]).flat();
  const wanted = Array.from({ length: 8 }, () => [200, ...wrong.map(() => 400)]).flat();
  const answers = [await pipelined(port, key ?? '', bodies), await pipelined(port, full ?? '', bodies)];
  expect(answers.map(({ statuses }) => statuses)).toEqual([wanted, wanted]);
  expect(answers[1]?.text).toContain('"rejectedSpans":"1"');
  const management = /"port":(\d+),"token".*"msg":"management listening"/.exec(running.output.stderr)?.[1];
  const pages = ['metrics', 'console/state.json'].map(async (page) => {
    const answer = await fetch(`http://127.0.0.1:${management}/${page}`);
    expect(answer.status).toBe(200);
    return answer.text();
  });
  const texts = await Promise.all(pages);
  expect(await running.stop()).toBe(0);
  const said = [running.output.stderr, ...answers.map(({ text }) => text), ...texts];
  expect(running.output.stderr).toContain('"msg":"request"');
  for (const text of said) for (const secret of [mark, key, full]) expect(text).not.toContain(secret);
  expect(running.output.stderr).not.toContain('Warning');
});
