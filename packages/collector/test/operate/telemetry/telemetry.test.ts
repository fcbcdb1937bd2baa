import { describe, expect, test } from 'vitest';
import { managementPort, Scrape } from '../managed.js';
import { post } from '../../running/load.js';
import { eventText, exportingCollectors } from './exporting-collector.js';
import { oneReceiver } from './otlp-receiver.js';

const receiver = oneReceiver();
const collector = exportingCollectors();

describe('[R-846] metrics', () => {
  test('are the figures of /metrics, under the same names', async () => {
    const { collector: one, key } = await collector({
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${receiver.url}/v1/metrics`,
      OTEL_METRIC_EXPORT_INTERVAL: '100',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20abc,x-tenant=one',
      OTEL_EXPORTER_OTLP_METRICS_HEADERS: 'x-tenant=two',
      OTEL_SERVICE_NAME: 'ward-collector',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.name=overruled',
    });
    for (let i = 0; i < 30; i++) expect((await post(one.port, key, eventText())).status).toBe(201);
    expect((await post(one.port, key, '{}')).status).toBe(400);
    const accepted = { kind: 'outcome', code: 'accepted', status: '201' };
    await expect
      .poll(
        () =>
          receiver.point('collector_requests_total', { kind: 'outcome', code: 'validation_failed' })
            ?.asDouble,
      )
      .toBe(1);
    const scrape = await Scrape.of(managementPort(one));
    expect(receiver.point('collector_requests_total', accepted)?.asDouble).toBe(30);
    expect(receiver.point('collector_ledger_events')?.asDouble).toBe(30);
    expect(receiver.point('collector_events_total', { outcome: 'accepted' })?.asDouble).toBe(30);
    const acks = receiver.point('collector_ack_duration_seconds');
    const shown = scrape.family('collector_ack_duration_seconds').metrics[0];
    expect(acks?.count).toBe('30');
    expect(acks?.sum).toBeCloseTo(Number(shown?.sum), 9);
    // Prometheus sums its buckets up.
    let upTo = 0;
    const summed = (acks?.bucketCounts ?? []).map((count, i) => [
      String(acks?.explicitBounds?.[i] ?? '+Inf'),
      String((upTo += Number(count))),
    ]);
    expect(Object.fromEntries(summed)).toEqual(shown?.buckets);
    const shownFamilies = scrape.families.filter(({ metrics }) => metrics.length > 0).map(({ name }) => name);
    // Some are known a moment after the start only, and go out with the next export.
    await expect
      .poll(() => {
        const names = new Set(receiver.metrics.map(({ name }) => name));
        // A collection of garbage may have come in between.
        return shownFamilies.filter((name) => !names.has(name) && name !== 'nodejs_gc_duration_seconds');
      })
      .toEqual([]);
    const requests = receiver.metrics.find(({ name }) => name === 'collector_requests_total');
    expect(requests?.sum).toMatchObject({
      isMonotonic: true,
      aggregationTemporality: 'AGGREGATION_TEMPORALITY_CUMULATIVE',
    });
    expect(receiver.exports[0]?.headers).toMatchObject({
      authorization: 'Basic abc',
      'x-tenant': 'two',
      'content-encoding': 'gzip',
      'content-type': 'application/x-protobuf',
    });
    expect(receiver.resources[0]).toMatchObject({
      'service.name': 'ward-collector',
      'deployment.environment.name': 'test',
      'service.version': expect.stringMatching(/^\d+\.\d+\.\d+/) as string,
    });
    expect(
      Object.keys(receiver.resources[0] ?? {}).filter((name) => /^(process|host|os)\./.test(name)),
    ).toEqual([]);
    expect(receiver.spans).toEqual([]);
  });

  test('go out once more at the stop, also where there is no management listener', async () => {
    const { collector: one, key } = await collector(
      { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_TRACES_EXPORTER: 'none' },
      ['--management', 'off'],
    );
    for (let i = 0; i < 7; i++) await post(one.port, key, eventText());
    expect(await one.stop()).toBe(0);
    expect(receiver.exports).toHaveLength(1);
    expect(receiver.point('collector_ledger_events')?.asDouble).toBe(7);
    expect(receiver.point('collector_disk_size_bytes')?.asDouble).toBeGreaterThan(0);
  });
});
