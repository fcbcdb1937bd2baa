/**
 * The figures of `GET /metrics` in the form of OpenTelemetry: the same names, so that the same rules and dashboards do,
 * and the same numbers. All are cumulative; what a figure has counted since the start is told at each export.
 */
import { ValueType, type Attributes, type HrTime } from '@opentelemetry/api';
import { millisToHrTime } from '@opentelemetry/core';
import {
  AggregationTemporality,
  DataPointType,
  type DataPoint,
  type Histogram,
  type MetricData,
} from '@opentelemetry/sdk-metrics';
import type { Figure } from '../management/metrics.js';

interface Times {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

type Value = Figure['values'][number];

/**
 * @param startedAt when the counters began, in milliseconds since 1970 UTC.
 * @param now when the figures were read.
 */
export function metricDataOf(figures: readonly Figure[], startedAt: number, now: number): MetricData[] {
  const times = { startTime: millisToHrTime(startedAt), endTime: millisToHrTime(now) };
  return figures.map((figure) => metricOf(figure, times)).filter(({ dataPoints }) => dataPoints.length > 0);
}

function metricOf({ name, help, type, values }: Figure, times: Times): MetricData {
  const common = {
    // The unit is in the name already; told twice, a receiver that makes Prometheus names would append it again.
    descriptor: { name, description: help, unit: '', valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  if (type === 'histogram') {
    return {
      ...common,
      dataPointType: DataPointType.HISTOGRAM,
      dataPoints: histogramsOf(name, values, times),
    };
  }
  const dataPoints = values
    .filter(({ value }) => Number.isFinite(value))
    .map(({ labels, value }) => ({ ...times, attributes: { ...labels }, value }));
  return type === 'counter'
    ? { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...common, dataPointType: DataPointType.GAUGE, dataPoints };
}

/** Prometheus has a line for each bound with all that is below it; OpenTelemetry has one point with a count a bucket. */
function histogramsOf(name: string, values: readonly Value[], times: Times): DataPoint<Histogram>[] {
  const points = new Map<string, { attributes: Attributes; lines: Value[] }>();
  for (const value of values) {
    const attributes: Record<string, string> = { ...value.labels };
    delete attributes['le'];
    const id = JSON.stringify(attributes);
    const point = points.get(id) ?? { attributes, lines: [] };
    points.set(id, point);
    point.lines.push(value);
  }
  return [...points.values()].map(({ attributes, lines }) => {
    const numberOf = (ending: string) =>
      lines.find(({ metricName }) => metricName === `${name}_${ending}`)?.value ?? 0;
    const count = numberOf('count');
    const buckets = lines
      .filter(({ labels }) => labels['le'] !== undefined && labels['le'] !== '+Inf')
      .map(({ labels, value }) => ({ bound: Number(labels['le']), upTo: value }))
      .sort((a, b) => a.bound - b.bound);
    const upTo = [...buckets.map((bucket) => bucket.upTo), count];
    return {
      ...times,
      attributes,
      value: {
        buckets: {
          boundaries: buckets.map(({ bound }) => bound),
          counts: upTo.map((sum, i) => sum - (upTo[i - 1] ?? 0)),
        },
        sum: numberOf('sum'),
        count,
      },
    };
  });
}
