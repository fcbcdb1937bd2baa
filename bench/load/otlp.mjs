/**
 * Sends OTLP requests over some connections, each as soon as the previous one is answered. A process of its
 * own (lib/otlp.mjs starts it). `argv[2]` has the settings; each line of standard input is a step, `{
 * seconds, requests }`, which ends at the first of the two and is answered by a line with its results.
 *
 * After 503 or no answer a request is sent again, as SDKs do; any other answer but 200 ends the process. A
 * step ends when all its requests, `first` up to `next`, are answered 200.
 */
import http from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { OtlpRequests } from '../lib/otlp-spans.mjs';

const { port, key, encoding, gzip, connections, seed, spans, everyMs = 0 } = JSON.parse(process.argv[2]);
const AGAIN_MS = 250;
/**
 * Bodies compressed before a step, so that compression is not measured. The step ends when they are used up.
 */
const AHEAD_A_SECOND = 100;

const requests = new OtlpRequests({ spans, encoding, seed });
const agent = new http.Agent({ keepAlive: true, maxSockets: connections });
const headers = {
  'Content-Type': encoding === 'json' ? 'application/json' : 'application/x-protobuf',
  'X-API-Key': key,
  ...(gzip && { 'Content-Encoding': 'gzip' }),
};

function post(body) {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, agent, method: 'POST', path: '/v1/traces' };
    const request = http.request({ ...options, headers: { ...headers, 'Content-Length': body.length } });
    request.on('error', reject).on('response', (response) => {
      const pieces = [];
      response.on('data', (piece) => pieces.push(piece)).on('error', reject);
      response.on('end', () => resolve({ response, answer: Buffer.concat(pieces) }));
    });
    request.end(body);
  });
}

/** Sends until the answer is 200. @throws at an answer after which an SDK drops the spans. */
async function deliver(body, seen) {
  for (;;) {
    const sent = await post(body).catch((error) => ({ error }));
    if (sent.error) {
      seen.unanswered++;
      await sleep(AGAIN_MS);
      continue;
    }
    const { statusCode, headers: said } = sent.response;
    if (statusCode === 200) {
      // An empty message or object: nothing was refused.
      if (!/^(\{\}|\{"partialSuccess":\{\}\}|\n\0)?$/.test(sent.answer.toString('latin1'))) seen.partial++;
      return;
    }
    const isForLater = [429, 502, 503, 504].includes(statusCode);
    if (!isForLater) throw new Error(`answered ${statusCode}: ${sent.answer.toString().slice(0, 500)}`);
    seen.later++;
    await sleep(said['retry-after'] === undefined ? AGAIN_MS : Number(said['retry-after']) * 1000);
  }
}

function quantiles(list) {
  const sorted = Float64Array.from(list).sort();
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
  return { p50: at(0.5), p99: at(0.99), max: sorted.at(-1) };
}

let next = 0;
async function step({ seconds = Infinity, requests: most = Infinity }) {
  const first = next;
  const ahead = gzip ? Math.min(most, Math.ceil(seconds * AHEAD_A_SECOND)) : most;
  const compressed = Array.from({ length: gzip ? ahead : 0 }, (_, i) =>
    gzipSync(requests.body(first + i), { level: 6 }),
  );
  const seen = { later: 0, unanswered: 0, partial: 0 };
  const times = [];
  const cpu = process.cpuUsage();
  const since = performance.now();
  const until = since + seconds * 1000;
  const connection = async () => {
    let body;
    while (performance.now() < until && next < first + ahead) {
      const number = next++;
      body = gzip ? compressed[number - first] : requests.body(number, body);
      const sentAt = performance.now();
      await deliver(body, seen);
      times.push(performance.now() - sentAt);
      if (everyMs > 0) await sleep(everyMs);
    }
  };
  await Promise.all(Array.from({ length: connections }, connection));
  const took = (performance.now() - since) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const counts = { first, next, spans: (next - first) * spans, seconds: took };
  const result = {
    ...counts,
    ...seen,
    latencyMs: quantiles(times),
    generatorCpu: (user + system) / 1e6 / took,
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

createInterface({ input: process.stdin })
  .on('line', (line) => void step(JSON.parse(line)))
  .on('close', () => process.exit());
