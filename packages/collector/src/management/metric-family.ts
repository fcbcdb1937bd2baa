/**
 * A metric whose numbers are counted elsewhere and read when somebody asks, in the form that prom-client's registry
 * takes: its own classes count in themselves, and its histogram cannot be set from outside.
 */
import type { Metric, MetricType, Registry } from 'prom-client';

export type Labels = Readonly<Record<string, string>>;

interface Value {
  readonly value: number;
  readonly labels: Labels;
  /** The name on the line, when it is not that of the family. */
  readonly metricName?: string;
}

export interface Family<Reading> {
  readonly name: string;
  readonly help: string;
  readonly type: `${MetricType}`;
  readonly values: (reading: Reading) => Value[];
}

type Single = number | boolean | undefined;

/** One number without labels, or none while it is not known. */
export function gauge<Reading>(
  name: string,
  help: string,
  value: (reading: Reading) => Single,
): Family<Reading> {
  return { name, help, type: 'gauge', values: (reading) => single(value(reading)) };
}

/** @param name ends in `_total`. */
export function counter<Reading>(
  name: string,
  help: string,
  value: (reading: Reading) => Single,
): Family<Reading> {
  return { name, help, type: 'counter', values: (reading) => single(value(reading)) };
}

/** A line for each set of labels; what is undefined is left out. */
export function labelled<Reading>(
  type: 'gauge' | 'counter',
  name: string,
  help: string,
  lines: (reading: Reading) => (readonly [Labels, Single])[],
): Family<Reading> {
  return {
    name,
    help,
    type,
    values: (reading) =>
      lines(reading).flatMap(([labels, value]) => (value === undefined ? [] : single(value, labels))),
  };
}

/** Counts in a row of buckets as they are kept: one a bucket, not summed up. */
export interface Buckets {
  readonly counts: ArrayLike<number>;
  readonly sum: number;
}

/**
 * @param bounds of the buckets that are counted.
 * @param shown those of them that become buckets of the metric.
 * @param scale what a bound and the sum are divided by to come to the unit in the name.
 */
export function histogram<Reading>(
  name: string,
  help: string,
  { bounds, shown, scale }: { bounds: readonly number[]; shown: readonly number[]; scale: number },
  buckets: (reading: Reading) => Buckets,
): Family<Reading> {
  return {
    name,
    help,
    type: 'histogram',
    values(reading) {
      const { counts, sum } = buckets(reading);
      const values: Value[] = [];
      let total = 0;
      for (let i = 0; i < counts.length; i++) {
        total += counts[i] ?? 0;
        const bound = bounds[i];
        if (bound === undefined || !shown.includes(bound)) continue;
        values.push({ metricName: `${name}_bucket`, labels: { le: String(bound / scale) }, value: total });
      }
      values.push({ metricName: `${name}_bucket`, labels: { le: '+Inf' }, value: total });
      values.push({ metricName: `${name}_sum`, labels: {}, value: sum / scale });
      values.push({ metricName: `${name}_count`, labels: {}, value: total });
      return values;
    },
  };
}

function single(value: Single, labels: Labels = {}): Value[] {
  return value === undefined ? [] : [{ labels, value: Number(value) }];
}

/** Enters a family into a registry. `reading` is called once for it at each scrape. */
export function register<Reading>(registry: Registry, family: Family<Reading>, reading: () => Reading): void {
  const { name, help, type, values } = family;
  // All that the registry asks of a metric.
  const metric = {
    name,
    get: () => Promise.resolve({ name, help, type, values: values(reading()), aggregator: 'sum' }),
  };
  registry.registerMetric(metric as unknown as Metric);
}
