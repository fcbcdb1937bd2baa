/** Metrics of the process and of the main thread's event loop, by prom-client. */
import { collectDefaultMetrics, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client';

/** Plain data. */
export type ProcessMetrics = readonly MetricObjectWithValues<MetricValue<string>>[];

/** Gauges of prom-client that are named like counters. They are sums of the gauges without the suffix. */
const MISNAMED = ['resources', 'handles', 'requests'].map((what) => `nodejs_active_${what}_total`);

/** Starts counting on this thread. @returns the function that reads the metrics. */
export function watchProcess(): () => Promise<ProcessMetrics> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  return () => registry.getMetricsAsJSON();
}
