/** `GET /metrics`: the declared numbers and the process metrics, as Prometheus text or OpenMetrics. */
import { type Metric, type OpenMetricsContentType, Registry } from 'prom-client';
import { NUMBERS } from './numbers.js';
import type { ProcessMetrics } from './process-metrics.js';
import type { Facts } from './snapshot.js';

/** Every metric, and the media type of the text. */
export async function metricsText(
  facts: Facts,
  ofProcess: ProcessMetrics,
  openMetrics: boolean,
): Promise<{ readonly type: string; readonly text: string }> {
  const registry = openMetrics ? openRegistry() : new Registry();
  const declared = NUMBERS.map(({ name, help, type, lines }) => ({ name, help, type, values: lines(facts) }));
  for (const read of [...ofProcess, ...declared]) {
    // The part of a metric that a registry needs. OpenMetrics changes the name.
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
