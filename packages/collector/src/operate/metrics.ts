/** `GET /metrics`: the declared numbers and those of the process, as Prometheus text or OpenMetrics. */
import {
  collectDefaultMetrics,
  type Metric,
  type MetricObjectWithValues,
  type MetricValue,
  type OpenMetricsContentType,
  Registry,
} from 'prom-client';
import { NUMBERS } from './numbers.js';
import type { Facts } from './snapshot.js';

/** Of the process and of the event loop of the thread that asks, by prom-client; plain data. */
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

/** Every metric, and the media type of the text. */
export async function metricsText(
  facts: Facts,
  ofProcess: ProcessMetrics,
  openMetrics: boolean,
): Promise<{ readonly type: string; readonly text: string }> {
  const registry = openMetrics ? openRegistry() : new Registry();
  const declared = NUMBERS.map(({ name, help, type, lines }) => ({ name, help, type, values: lines(facts) }));
  for (const read of [...ofProcess, ...declared]) {
    // All that a registry asks of a metric. For OpenMetrics it changes the name.
    const metric = { ...read, get: () => Promise.resolve({ ...read, name: metric.name }) };
    registry.registerMetric(metric as unknown as Metric);
  }
  return { type: registry.contentType, text: await registry.metrics() };
}

function openRegistry(): Registry<OpenMetricsContentType> {
  const registry = new Registry<OpenMetricsContentType>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  return registry;
}
