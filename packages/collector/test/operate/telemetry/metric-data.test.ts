import { DataPointType } from '@opentelemetry/sdk-metrics';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Figure } from '../../../src/operate/metrics.js';
import { metricDataOf } from '../../../src/operate/telemetry/exporter.js';

const rows = fc.uniqueArray(
  fc.record({ kind: fc.string(), counts: fc.array(fc.nat(1000), { minLength: 4, maxLength: 4 }) }),
  { selector: ({ kind }) => kind, maxLength: 5 },
);

test('[R-846] what was counted in a bucket is found in it again, whatever the labels are', () => {
  fc.assert(
    fc.property(rows, (sent) => {
      const name = 'time_seconds';
      const values = sent.flatMap(({ kind, counts }) => {
        let upTo = 0;
        const lines = counts.map((count, i) => ({
          metricName: `${name}_bucket`,
          labels: { le: ['0.5', '1', '10', '+Inf'][i] ?? '', kind },
          value: (upTo += count),
        }));
        return [
          ...lines,
          { metricName: `${name}_sum`, labels: { kind }, value: upTo / 3 },
          { metricName: `${name}_count`, labels: { kind }, value: upTo },
        ];
      });
      const [metric] = metricDataOf([{ name, help: 'help', type: 'histogram', values }], 1000, 2000);
      expect(metric === undefined).toBe(sent.length === 0);
      const points = (metric?.dataPoints ?? []).map(({ attributes, value }) => ({ attributes, value }));
      expect(points).toEqual(
        sent.map(({ kind, counts }) => {
          const count = counts.reduce((a, b) => a + b, 0);
          const buckets = { boundaries: [0.5, 1, 10], counts };
          return { attributes: { kind }, value: { buckets, sum: count / 3, count } };
        }),
      );
    }),
  );
});

test('[R-846] what is not known is left out, and only counters are sums', () => {
  const figure = (type: Figure['type'], ...numbers: number[]): Figure => ({
    ...{ name: type, help: 'help', type },
    values: numbers.map((value, i) => ({ value, labels: { i: String(i) } })),
  });
  const read = metricDataOf(
    [figure('gauge', NaN), figure('gauge', 1, Infinity), figure('counter', 5)],
    1000,
    2500,
  );
  expect(read.map(({ dataPointType }) => dataPointType)).toEqual([DataPointType.GAUGE, DataPointType.SUM]);
  expect(read.map(({ dataPoints }) => dataPoints)).toEqual([
    [{ startTime: [1, 0], endTime: [2, 500_000_000], attributes: { i: '0' }, value: 1 }],
    [{ startTime: [1, 0], endTime: [2, 500_000_000], attributes: { i: '0' }, value: 5 }],
  ]);
});
