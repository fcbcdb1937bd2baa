/** Metrics of the process and of the event loop of the main thread, by prom-client: they are read where they are measured. */
import { collectDefaultMetrics, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client';

/** Plain data. */
export type ProcessMetrics = readonly MetricObjectWithValues<MetricValue<string>>[];

/** Gauges of prom-client with the ending of a counter: sums of those of the same name without it. */
const MISNAMED = ['resources', 'handles', 'requests'].map((what) => `nodejs_active_${what}_total`);

/** @returns what reads them. They are counted on this thread from now on. */
export function watchProcess(): () => Promise<ProcessMetrics> {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  return () => registry.getMetricsAsJSON();
}
