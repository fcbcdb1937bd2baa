/**
 * Traces and metrics of the collector itself, exported to where the standard variables of OpenTelemetry say.
 *
 * Loaded only when they are wanted. Nothing here is waited for by a request, and a stop waits {@link FLUSH_MS} for it at
 * most. What cannot be sent is dropped: spans wait in a queue of 2,048, metrics not at all.
 */
import { randomUUID } from 'node:crypto';
import { ProtobufMetricsSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import {
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
  defaultResource,
  type Resource,
} from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
} from '@opentelemetry/sdk-trace';
import type { Ingest } from '../ingest/ingest.js';
import type { Log } from '../ingest/refusal-log.js';
import { Metrics } from '../management/metrics.js';
import type { Vitals } from '../management/vitals.js';
import { Watch } from '../management/watch.js';
import { metricDataOf } from './metric-data.js';
import { OtlpExporter } from './otlp-exporter.js';
import { RequestSpans } from './request-spans.js';
import type { Sampling, TelemetrySettings, Variables } from './settings.js';
import { targetOf, type Signal, type Target } from './target.js';
import { Trouble } from './trouble.js';

/** For what is still to be sent when the collector stops, in milliseconds. */
const FLUSH_MS = 2000;
const METRICS_TIMEOUT_MS = 30_000;
const SCOPE = 'collector';

interface Pipeline {
  /** Sends what is still to be sent. */
  flush(): Promise<void>;
  /** Breaks off what is under way. */
  end(): void;
}

export class Telemetry {
  /** To be told of each answer; undefined when no traces are wanted. */
  readonly observer: Ingest['observer'];
  readonly #pipelines: Pipeline[] = [];

  constructor({ traces, metrics }: TelemetrySettings, variables: Variables, vitals: Vitals, log: Log) {
    const target = (signal: Signal) => {
      const found = targetOf(signal, variables, (warning) => log.warn({ signal }, warning));
      // Without what a URL can hold of secrets.
      log.info({ signal, to: found.url.origin + found.url.pathname }, 'OpenTelemetry export begins');
      return found;
    };
    const resource = resourceOf(vitals.version);
    if (traces) {
      const tracing = trace(traces, target('traces'), resource, vitals.version, log);
      this.observer = tracing.observer;
      this.#pipelines.push(tracing);
    }
    if (metrics) this.#pipelines.push(meter(metrics.intervalMs, target('metrics'), resource, vitals, log));
  }

  /** On return nothing is sent any more, and what could be sent in time was. */
  async close(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    const timer = setTimeout(resolve, FLUSH_MS, undefined);
    await Promise.race([Promise.allSettled(this.#pipelines.map((pipeline) => pipeline.flush())), late]);
    clearTimeout(timer);
    for (const pipeline of this.#pipelines) pipeline.end();
  }
}

function trace(
  sampling: Sampling,
  target: Target,
  resource: Resource,
  version: string,
  log: Log,
): Pipeline & { readonly observer: Ingest['observer'] } {
  const trouble = new Trouble('traces', log);
  const exporter = new OtlpExporter(target, ProtobufTraceSerializer, trouble);
  const provider = new TracerProvider({
    resource,
    sampler: samplerOf(sampling),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  return {
    observer: new RequestSpans(provider.getTracer(SCOPE, version), () =>
      trouble.failed('a span could not be made', performance.now()),
    ).note,
    flush: () => provider.shutdown(),
    end: () => exporter.end(),
  };
}

function meter(intervalMs: number, target: Target, resource: Resource, vitals: Vitals, log: Log): Pipeline {
  const trouble = new Trouble('metrics', log);
  const exporter = new OtlpExporter(target, ProtobufMetricsSerializer, trouble);
  const watch = new Watch(vitals);
  const figures = new Metrics(vitals, watch);
  const scope = { name: SCOPE, version: vitals.version };
  const collect = async () => {
    try {
      const metrics = metricDataOf(await figures.figures(), vitals.startedAt, Date.now());
      return { resourceMetrics: { resource, scopeMetrics: [{ scope, metrics }] }, errors: [] };
    } catch (error) {
      // Whoever asked would keep it to himself.
      trouble.failed('the figures could not be read', performance.now());
      throw error;
    }
  };
  const provider = new MeterProvider({
    resource,
    readers: [
      new PeriodicExportingMetricReader({
        exporter,
        exportIntervalMillis: intervalMs,
        exportTimeoutMillis: Math.min(intervalMs, METRICS_TIMEOUT_MS),
        metricProducers: [{ collect }],
      }),
    ],
  });
  watch.start();
  return {
    flush: () => provider.shutdown(),
    end() {
      watch.stop();
      exporter.end();
    },
  };
}

/**
 * What the operator says of this service, over what it says of itself. Not the detectors of the process and the host:
 * they tell the command line, with its paths, and names of users.
 */
function resourceOf(version: string): Resource {
  return defaultResource()
    .merge(
      resourceFromAttributes({
        'service.name': 'clinical-events-collector',
        'service.version': version,
        'service.instance.id': randomUUID(),
      }),
    )
    .merge(detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] }));
}

function samplerOf({ sampler, ratio }: Sampling): Sampler {
  const root = sampler.endsWith('always_on')
    ? new AlwaysOnSampler()
    : sampler.endsWith('always_off')
      ? new AlwaysOffSampler()
      : new TraceIdRatioBasedSampler(ratio);
  return sampler.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}
