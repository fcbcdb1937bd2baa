import http from 'node:http';
import { describe, expect, test } from 'vitest';
import { Load, post } from '../../running/load.js';
import { send } from '../../running/raw-http.js';
import { eventText, exportingCollectors } from './exporting-collector.js';
import { oneReceiver, plain } from './otlp-receiver.js';

const receiver = oneReceiver();
const collector = exportingCollectors();

const ALL = { OTEL_TRACES_SAMPLER: 'parentbased_always_on' };
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

/** Posts an outcome with headers of the sender's own. */
function postWith(port: number, key: string, headers: http.OutgoingHttpHeaders, body = eventText()) {
  return new Promise<number>((resolve, reject) => {
    http
      .request({
        ...{ port, host: '127.0.0.1', method: 'POST', path: '/event/outcome', agent: false },
        headers: { 'Content-Type': 'application/json', 'X-API-Key': key, ...headers },
      })
      .on('error', reject)
      .on('response', (response) => resolve(response.resume().statusCode ?? 0))
      .end(body);
  });
}

const spansBy = (status: number) =>
  receiver.spans.filter(({ attributes }) => plain(attributes)['http.response.status_code'] === status);

describe('[R-846] traces', () => {
  test('hold a server span for each sampled request: kind, status, code, and the time to the answer', async () => {
    const { collector: one, key } = await collector({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...ALL });
    const before = Date.now();
    for (let i = 0; i < 20; i++) expect((await post(one.port, key, eventText())).status).toBe(201);
    expect((await post(one.port, key, '{}', { kind: 'human-output' })).status).toBe(400);
    expect((await post(one.port, 'nonsense', '{}')).status).toBe(401);
    expect((await send(one.port, { target: '/nothing-of-ours', key })).status).toBe(404);
    expect(await one.stop()).toBe(0);
    const after = Date.now();
    expect(receiver.spans).toHaveLength(23);
    const accepted = spansBy(201);
    expect(accepted).toHaveLength(20);
    for (const span of accepted) {
      expect(span).toMatchObject({ name: 'POST /event/outcome', kind: 'SPAN_KIND_SERVER' });
      expect(span.parentSpanId).toBeUndefined();
      expect(plain(span.attributes)).toEqual({
        'http.request.method': 'POST',
        'http.request.body.size': eventText().length,
        'http.response.status_code': 201,
        'http.route': '/event/outcome',
        'url.path': '/event/outcome',
        'url.scheme': 'http',
        'collector.organisation': 'default',
      });
      const [began, ended] = [Number(span.startTimeUnixNano) / 1e6, Number(span.endTimeUnixNano) / 1e6];
      expect(ended - began).toBeGreaterThan(0);
      expect(began).toBeGreaterThan(before - 5);
      expect(ended).toBeLessThan(after + 5);
    }
    expect(new Set(accepted.map(({ traceId }) => traceId)).size).toBe(20);
    const [faulty, stranger, nowhere] = [400, 401, 404].map((status) => spansBy(status)[0]);
    expect(faulty?.name).toBe('POST /event/human-output');
    expect(plain(faulty?.attributes)['error.type']).toBe('validation_failed');
    expect(plain(stranger?.attributes)['collector.organisation']).toBeUndefined();
    // A path that is not ours may hold anything.
    expect(nowhere?.name).toBe('POST');
    expect(JSON.stringify(nowhere)).not.toContain('nothing-of-ours');
    expect(receiver.spans.map(({ status }) => status?.code ?? 'STATUS_CODE_UNSET')).not.toContain(
      'STATUS_CODE_ERROR',
    );
  });

  test('belong to the trace of the sender, who decides whether they are made', async () => {
    const { collector: one, key } = await collector({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/of-traces/v1/traces`,
      OTEL_TRACES_SAMPLER: 'parentbased_always_off',
    });
    const from = (traceparent: string | string[], who = key) => postWith(one.port, who, { traceparent });
    expect(await from(`00-${TRACE}-${PARENT}-01`)).toBe(201);
    expect(await from(`00-${TRACE}-${PARENT}-00`)).toBe(201);
    expect(await postWith(one.port, key, {})).toBe(201);
    for (const none of [
      `00-${'0'.repeat(32)}-${PARENT}-01`,
      `ff-${TRACE}-${PARENT}-01`,
      `00-${TRACE}-${PARENT}-01-more`,
      'anything',
    ]) {
      expect(await from(none)).toBe(201);
    }
    expect(await from([`00-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01`])).toBe(201);
    // Who has no key decides nothing.
    expect(await from(`00-${TRACE}-${PARENT}-01`, 'nonsense')).toBe(401);
    await one.stop();
    expect(receiver.exports.map(({ path }) => path)).toEqual(['/of-traces/v1/traces']);
    expect(receiver.spans).toHaveLength(1);
    expect(receiver.spans[0]).toMatchObject({ traceId: TRACE, parentSpanId: PARENT });
  });

  test('are few unless a sampler is named', async () => {
    const { collector: one, key } = await collector({
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    });
    const load = new Load(key, { connections: 16 });
    await load.run(one.port, () => load.acknowledged.size >= 2000);
    await one.stop();
    const rate = receiver.spans.length / load.acknowledged.size;
    // One in a hundred: of 2,000, fewer than 1 or more than 60 come once in many millions of runs.
    expect(rate).toBeGreaterThan(0);
    expect(rate).toBeLessThan(0.03);
  });
});
