import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import zlib from 'node:zlib';
import { EVENT_KINDS, EVENT_PATHS } from '@clinical-events/protocol';
import { expect, onTestFinished, test } from 'vitest';
import {
  KEY,
  launch,
  limits,
  outcomeEvent,
  postEvent,
  run,
  type Running,
  start,
  storedEvents,
} from '../running/collector-process.js';
import { Authority, writePair } from '../running/certificates.js';
import { issueKey } from '../running/issued-keys.js';
import { scratch } from '../running/scratch.js';
import { post, shownName } from '../running/tls-client.js';
import { modelSpan, otlpPortOf, sendOtlp, tracesOf } from './sending.js';

/** A collector that accepts OTLP, for one test. */
async function takingOtlp(args: readonly string[] = [], dataDir = scratch()) {
  const key = (await issueKey(dataDir)).text;
  const running = await start(dataDir, ['--otlp-port', '0', ...args]);
  onTestFinished(() => running.kill());
  return { dataDir, key, running, port: otlpPortOf(running) };
}

async function metric(running: Running, pattern: RegExp): Promise<string[]> {
  const port = /"port":(\d+),"token".*"msg":"management listening"/.exec(running.output.stderr)?.[1];
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return text.split('\n').filter((line) => pattern.test(line));
}

test('[R-1920] OTLP has a port of its own and is off by default; the five endpoints are not on it', async () => {
  const dataDir = scratch();
  const key = (await issueKey(dataDir)).text;
  const without = await start(dataDir);
  expect(without.output.stderr).not.toContain('otlp');
  expect((await sendOtlp(without.port, key, tracesOf([modelSpan()]))).status).toBe(404);
  await without.stop();
  const { running, port } = await takingOtlp([], dataDir);
  expect((await sendOtlp(running.port, key, tracesOf([modelSpan()]))).status).toBe(404);
  expect((await postEvent(running, key, outcomeEvent())).status).toBe(201);
  for (const kind of EVENT_KINDS)
    expect((await sendOtlp(port, key, '{}', { path: EVENT_PATHS[kind] })).status).toBe(404);
  for (const at of ['/v1/traces', '/api/public/otel/v1/traces', '/v1/logs'])
    expect(await sendOtlp(port, key, '{}', { path: at })).toMatchObject({ status: 200, json: {} });
  expect((await run(['serve', '--check', '--otlp-port', '9', '--port', '9'])).stderr).toContain(
    '--otlp-port: is the same as --port: OTLP needs its own port',
  );
});

test('[R-1921] a 200 means that every event of the request is durable: a kill loses none, and a repeat adds none', async () => {
  const { dataDir, key, running, port } = await takingOtlp();
  const spans = Array.from({ length: 700 }, () => modelSpan());
  const body = tracesOf(spans);
  expect(await sendOtlp(port, key, body)).toMatchObject({ status: 200, json: {} });
  await running.kill();
  const stored = await storedEvents(dataDir);
  expect(stored).toHaveLength(1400);
  const again = await start(dataDir, ['--otlp-port', '0']);
  const answers = await Promise.all(Array.from({ length: 10 }, () => sendOtlp(otlpPortOf(again), key, body)));
  expect(answers.map(({ status }) => status)).toEqual(Array<number>(10).fill(200));
  await again.stop();
  expect(await storedEvents(dataDir)).toEqual(stored);
});

test('[R-1921] the answer has the encoding of the request, with any coding, and a refusal is a google.rpc.Status', async () => {
  const { key, port } = await takingOtlp();
  const json = tracesOf([modelSpan()]);
  for (const [coding, body] of [
    ['gzip', zlib.gzipSync(json)],
    ['br', zlib.brotliCompressSync(json)],
    ['identity', Buffer.from(json)],
  ] as const) {
    const headers = { 'content-encoding': coding, 'content-type': 'application/json; charset=utf-8' };
    expect(await sendOtlp(port, key, body, { headers })).toMatchObject({ status: 200, json: {} });
  }
  const protobuf = { 'content-type': 'application/x-protobuf' };
  const empty = await sendOtlp(port, key, Buffer.alloc(0), { headers: protobuf });
  expect([empty.status, empty.headers['content-type'], empty.bytes.length]).toEqual([
    ...[200, 'application/x-protobuf', 0],
  ]);
  // Empty bodies share their memory.
  expect((await sendOtlp(port, key, Buffer.alloc(0), { headers: protobuf })).status).toBe(200);
  // A Status: field 1 is the code, 3 (INVALID_ARGUMENT), and field 2 the message.
  const broken = await sendOtlp(port, key, Buffer.from([0x0a, 0xff]), { headers: protobuf });
  expect([broken.status, broken.headers['content-type']]).toEqual([400, 'application/x-protobuf']);
  expect([...broken.bytes.subarray(0, 3)]).toEqual([0x08, 3, 0x12]);
  expect(await sendOtlp(port, key, '{"resourceSpans":[{"scopeSpans":"MRN-4711"}]}')).toMatchObject({
    status: 400,
    json: { code: 3, message: expect.not.stringContaining('4711') as string },
  });
  const other = { 'content-type': 'text/plain' };
  expect(await sendOtlp(port, key, json, { headers: other })).toMatchObject({
    status: 415,
    json: {
      code: 3,
      message:
        'unsupported_media_type: ' +
        'The Content-Type must be application/x-protobuf or application/json: OTLP over HTTP, not gRPC.',
    },
  });
  const unknown = { 'content-encoding': 'compress' };
  expect((await sendOtlp(port, key, json, { headers: unknown })).status).toBe(415);
  const cut = zlib.gzipSync(json).subarray(0, 40);
  expect((await sendOtlp(port, key, cut, { headers: { 'content-encoding': 'gzip' } })).status).toBe(400);
});

test('[R-1923] a request may have 64 MiB before and after decompression, and any number of spans; a bomb is refused', async () => {
  const { dataDir, key, running, port } = await takingOtlp();
  const zeros = zlib.gzipSync(Buffer.alloc((64 << 20) + 1, 0x20), { level: 9 });
  const gzip = { 'content-encoding': 'gzip' };
  expect(await sendOtlp(port, key, zeros, { headers: gzip })).toMatchObject({
    status: 413,
    json: { code: 3 },
  });
  const announced = { 'content-length': String((64 << 20) + 1), expect: '100-continue' };
  expect((await sendOtlp(port, key, '', { headers: announced })).status).toBe(413);
  // Twenty million objects: more than fits in memory, or more than is read.
  const many = `{"resourceSpans":[${'{},'.repeat(20_000_000)}{}]}`;
  expect((await sendOtlp(port, key, zlib.gzipSync(many), { headers: gzip })).status).toBe(413);
  const spans = Array.from({ length: 10_000 }, () => modelSpan());
  expect(await sendOtlp(port, key, tracesOf(spans))).toMatchObject({ status: 200, json: {} });
  expect(await running.stop()).toBe(0);
  expect(await storedEvents(dataDir)).toHaveLength(20_000);
});

test('[R-1924] a key needs the permission otlp, which all includes and the five kinds do not', async () => {
  const { dataDir, key, port } = await takingOtlp();
  const kinds = (await issueKey(dataDir, { permissions: EVENT_KINDS })).text;
  const otlp = (await issueKey(dataDir, { permissions: ['otlp'] })).text;
  const body = tracesOf([modelSpan()]);
  expect(await sendOtlp(port, kinds, body)).toMatchObject({ status: 403, json: { code: 7 } });
  expect(await sendOtlp(port, 'cek_none', body)).toMatchObject({ status: 401, json: { code: 16 } });
  expect((await sendOtlp(port, otlp, body)).status).toBe(200);
  expect((await sendOtlp(port, key, body)).status).toBe(200);
  const made = await run([
    ...['keys', 'create', '--data-dir', dataDir, '--permissions', 'otlp', '--otlp-port', String(port)],
  ]);
  expect(made.stdout).toContain(`OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:${port}\n`);
  expect(made.stdout).toMatch(/OTEL_EXPORTER_OTLP_HEADERS=x-api-key=cek_/);
});

test('[R-1921] spans without a model are ignored and counted by reason, and are not in partial_success', async () => {
  const { key, running, port } = await takingOtlp();
  const other = { ...modelSpan(), attributes: { 'http.request.method': 'GET' } };
  expect(await sendOtlp(port, key, tracesOf([other, modelSpan(), other]))).toMatchObject({
    status: 200,
    json: {},
  });
  expect(await metric(running, /^collector_otlp_items_total.*result="(stored|ignored)".* [1-9]/)).toEqual([
    'collector_otlp_items_total{signal="traces",result="stored",reason=""} 1',
    expect.stringMatching(/^collector_otlp_items_total\{signal="traces",result="ignored",reason="\w+"\} 2$/),
  ]);
  const events = await metric(running, /^collector_otlp_events_total.* 1$/);
  expect(events.map((line) => /kind="([a-z-]+)"/.exec(line)?.[1])).toEqual([
    'inference-start',
    'human-output',
  ]);
});

test('[R-1921] events that can never be stored are counted in partial_success, a metric and a log line, with the reason; the rest is stored', async () => {
  const { dataDir, running, port } = await takingOtlp();
  const full = (await issueKey(dataDir, { profile: 'full' })).text;
  // Profile full asks who the answer was for and about whom.
  const complete = modelSpan({
    ...{ 'clinical_events.user.id': 'nurse-17', 'clinical_events.user.type': 'clinician' },
    ...{ 'clinical_events.target.id': 'p-7', 'clinical_events.target.type': 'patient' },
  });
  const { status, json } = await sendOtlp(port, full, tracesOf([modelSpan(), complete]));
  expect([status, json.partialSuccess?.rejectedSpans]).toEqual([200, '1']);
  expect(json.partialSuccess?.errorMessage).toContain('validation_failed');
  expect(await metric(running, /result="rejected"/)).toEqual([
    'collector_otlp_items_total{signal="traces",result="rejected",reason="validation_failed"} 1',
  ]);
  await expect
    .poll(() => running.output.stderr)
    .toMatch(
      /"rejected":1,"codes":\{"validation_failed":1\},"msg":"spans or log records can never be stored"/,
    );
  expect(running.output.stderr).not.toContain('5.6 mmol');
});

test('[R-1921] if the disk fills during a request the answer is 503 with Retry-After, and a repeat stores the rest, each event once', async () => {
  const { dataDir, key, running, port } = await takingOtlp([
    ...limits({ 'segment-bytes': '1MiB' }),
    ...['--max-body-bytes', '64KiB'],
  ]);
  const spans = Array.from({ length: 1500 }, () => modelSpan());
  const body = tracesOf(spans);
  // The segment has its size already; the next one cannot be made.
  const limit = (bytes: string) =>
    execFileSync('prlimit', ['--pid', String(running.process.pid), `--fsize=${bytes}:`]);
  limit(String((1 << 20) - 1));
  const refused = await sendOtlp(port, key, body);
  expect([refused.status, refused.headers['retry-after'], refused.json.code]).toEqual([503, '1', 14]);
  limit('unlimited');
  await expect.poll(async () => (await sendOtlp(port, key, body)).status).toBe(200);
  expect(await metric(running, /^collector_events_total.outcome="(duplicate|not_committed)"/)).toEqual([
    expect.not.stringMatching(/ 0$/),
    expect.not.stringMatching(/ 0$/),
  ]);
  await running.stop();
  const ids = (await storedEvents(dataDir)).map(({ event_id }) => event_id);
  expect(ids).toHaveLength(3000);
  expect(new Set(ids).size).toBe(3000);
});

test('[R-1921] an event id that came another way first keeps its event: the span is rejected, and named by a log line', async () => {
  const { dataDir, key, port } = await takingOtlp();
  const span = modelSpan();
  expect((await sendOtlp(port, key, tracesOf([span]))).status).toBe(200);
  const [first] = await storedEvents(dataDir);
  const other = await takingOtlp();
  const taken = { ...JSON.parse(first?.body ?? ''), model_instance: { model_id: 'another' } } as object;
  expect((await postEvent(other.running, other.key, taken, 'inference-start')).status).toBe(201);
  const { status, json } = await sendOtlp(other.port, other.key, tracesOf([span]));
  expect([status, json.partialSuccess?.rejectedSpans]).toEqual([200, '1']);
  expect(json.partialSuccess?.errorMessage).toContain('event_id_conflict');
  await expect.poll(() => other.running.output.stderr).toContain('"codes":{"event_id_conflict":1}');
  // Through OTLP, the same span with other content is a repeat: the first one is kept.
  const changed = { ...span, attributes: { ...span.attributes, 'gen_ai.request.model': 'gpt-5' } };
  expect(await sendOtlp(port, key, tracesOf([changed]))).toMatchObject({ status: 200, json: {} });
  expect(await storedEvents(dataDir)).toHaveLength(2);
});

test('[R-1921] a rate limit counts events, and not requests', async () => {
  const { dataDir, port } = await takingOtlp();
  const slow = (await issueKey(dataDir, { rateLimit: { perSecond: 0.001, burst: 4 } })).text;
  const body = () => tracesOf([modelSpan(), modelSpan()]);
  expect((await sendOtlp(port, slow, body())).status).toBe(200);
  const refused = await sendOtlp(port, slow, body());
  expect([refused.status, refused.json.code]).toEqual([429, 8]);
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(100);
});

test('[R-1923] with endless requests of OTLP no ordinary sender is refused, and none of the requests is', async () => {
  const { dataDir, key, running, port } = await takingOtlp();
  const ordinary = (await issueKey(dataDir)).text;
  let isOver = false;
  const statuses = new Set<number>();
  const flood = Array.from({ length: 4 }, async () => {
    while (!isOver) {
      const body = tracesOf(Array.from({ length: 512 }, () => modelSpan()));
      statuses.add((await sendOtlp(port, key, body)).status);
    }
  });
  await expect.poll(() => statuses.size).toBe(1);
  for (let sent = 0; sent < 300; sent++)
    expect((await postEvent(running, ordinary, outcomeEvent())).status).toBe(201);
  isOver = true;
  await Promise.all(flood);
  expect([...statuses]).toEqual([200]);
});

test('[R-1920] OTLP uses TLS with the certificate of the collector, also a renewed one, and asks for that of the client', async () => {
  const [dataDir, certificates] = [scratch(), scratch()];
  const authority = new Authority();
  const renew = (commonName: string) =>
    writePair(certificates, authority.issue({ commonName, names: ['dns:collector.test'], days: 90 }));
  const ca = path.join(certificates, 'ca.pem');
  fs.writeFileSync(ca, authority.certificate);
  const bound = (await issueKey(dataDir, { clientCertificate: 'dns:app.test' })).text;
  const { running, port } = await takingOtlp([...renew('first'), '--tls-client-ca', ca], dataDir);
  const named = (name: string) =>
    ({
      ca: authority.certificate,
      client: authority.issue({ commonName: 'app', names: [name], days: 1 }),
    }) as const;
  expect(await post(port, bound, named('dns:app.test'), '/v1/traces', '{}')).toMatchObject({ status: 200 });
  expect(await post(port, bound, named('dns:other.test'), '/v1/traces', '{}')).toMatchObject({ status: 401 });
  await expect(post(port, bound, { ca: authority.certificate }, '/v1/traces', '{}')).rejects.toThrow();
  expect(await shownName(port, named('dns:app.test'))).toBe('first');
  renew('second');
  running.process.kill('SIGHUP');
  await expect.poll(() => shownName(port, named('dns:app.test'))).toBe('second');
});

test('[R-1920] an orderly stop answers the requests whose bodies are complete, and refuses the others', async () => {
  const { dataDir, key, running, port } = await takingOtlp(limits({ 'shutdown-timeout-ms': '10m' }));
  const agent = new http.Agent({ keepAlive: true });
  const body = tracesOf(Array.from({ length: 3000 }, () => modelSpan()));
  const answers = Array.from({ length: 6 }, () => sendOtlp(port, key, body, { agent }));
  await expect
    .poll(() => metric(running, /^collector_events_total.outcome="accepted"/))
    .not.toEqual([expect.stringMatching(/ 0$/)]);
  running.process.kill('SIGTERM');
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  expect(statuses).toContain(200);
  expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect(await running.exited).toBe(0);
  expect(await storedEvents(dataDir)).toHaveLength(6000);
});

test('[R-873] a trial lists the events made from spans, each with its faults under profile full', async () => {
  const trial = launch(['serve', '--trial', '--port', '0', '--otlp-port', '0'], {
    env: { TMPDIR: scratch() },
  });
  onTestFinished(() => void trial.process.kill('SIGKILL'));
  await expect.poll(() => trial.output.stderr).toContain('otlpPort');
  await expect.poll(() => trial.output.stdout).toMatch(KEY);
  const key = KEY.exec(trial.output.stdout)?.[0] ?? '';
  expect((await sendOtlp(otlpPortOf(trial), key, tracesOf([modelSpan()]))).status).toBe(200);
  await expect.poll(() => trial.output.stdout).toMatch(/201 human-output [0-9a-f-]{36}/);
  expect(trial.output.stdout).toMatch(
    /201 inference-start [0-9a-f-]{36} \(request [0-9a-f]{20}\): profile full would refuse it:\n.*\/user_identity/,
  );
  expect(trial.output.stdout).not.toContain('mmol');
  const metrics = await sendOtlp(otlpPortOf(trial), key, '{}', { path: '/v1/metrics' });
  expect(metrics.status).toBe(404);
  await expect.poll(() => trial.output.stdout).toMatch(/404 .* no such endpoint; .*\/v1\/traces/);
});
