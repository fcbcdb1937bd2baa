/**
 * Traces and metrics of the collector itself, exported to where the standard variables of OpenTelemetry say.
 *
 * Loaded only when they are wanted. Nothing here is waited for by a request, and a stop waits {@link FLUSH_MS} for it at
 * most. What cannot be sent is dropped: spans wait in a queue of 2,048, metrics not at all.
 */
import { randomUUID } from 'node:crypto';
import { EVENT_PATHS, type ErrorCode } from '@clinical-events/protocol';
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { parseTraceParent } from '@opentelemetry/core';
import { ProtobufMetricsSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import {
  type Resource,
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Ingest } from '../../ingest/ingest.js';
import type { Log } from '../../ingest/refusal-log.js';
import type { Exchange, Request } from '../../ingest/request.js';
import { Metrics } from '../metrics.js';
import { type CollectorStatus, Watch } from '../status.js';
import { OtlpExporter, Trouble, metricDataOf } from './exporter.js';
import type { Sampling, TelemetrySettings, Variables } from './settings.js';
import { type Signal, type Target, targetOf } from './target.js';

/*
 * A span for each sampled request, made once it is answered: from its last header to its answer, so that the length of
 * one with status 201 is the time of a durable acknowledgement.
 *
 * A span holds what the log may hold of a request, and of the sender's own words nothing but the trace it belongs to:
 * the two hexadecimal ids of `traceparent` (W3C Trace Context). Not `tracestate`, whose text is free; not the path,
 * unless it is one of ours. And only of a sender who has shown a key: no one else decides what is sampled.
 */

interface Answered {
  readonly exchange: Exchange;
  readonly status: number;
  readonly code: ErrorCode | undefined;
  /** Milliseconds since 1970 UTC. */
  readonly at: number;
  readonly tookMs: number;
}

/** Those that the semantic conventions know; any other is told as `_OTHER`. */
const METHODS = ['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE'];

class RequestSpans {
  #answered: Answered[] = [];

  /** @param onFault a span could not be made. It must not end a collector that takes events. */
  constructor(
    private readonly tracer: Tracer,
    private readonly onFault: () => void,
  ) {}

  /** For {@link Ingest.observer}. Only notes: other answers of the same batch are written first. */
  readonly note: NonNullable<Ingest['observer']> = (exchange, status, fault) => {
    if (this.#answered.length === 0) setImmediate(() => this.#make());
    const tookMs = performance.now() - exchange.startedAt;
    this.#answered.push({ exchange, status, code: fault?.code, at: Date.now(), tookMs });
  };

  #make(): void {
    const answered = this.#answered;
    this.#answered = [];
    for (const one of answered) {
      try {
        this.#span(one);
      } catch {
        this.onFault();
      }
    }
  }

  #span({ exchange, status, code, at, tookMs }: Answered): void {
    const { request, kind, principal } = exchange;
    const method = METHODS.includes(request.method ?? '') ? (request.method ?? '') : '_OTHER';
    const route = kind === undefined ? undefined : EVENT_PATHS[kind];
    const verb = method === '_OTHER' ? 'HTTP' : method;
    const span = this.tracer.startSpan(
      route === undefined ? verb : `${verb} ${route}`,
      { kind: SpanKind.SERVER, startTime: at - tookMs },
      principal === undefined ? ROOT_CONTEXT : contextOf(request),
    );
    if (!span.isRecording()) return;
    const attributes: Attributes = {
      'http.request.method': method,
      'http.request.body.size': exchange.bodyBytes,
      'http.response.status_code': status,
      'url.scheme': 'encrypted' in request.socket ? 'https' : 'http',
    };
    if (route !== undefined) {
      attributes['http.route'] = route;
      attributes['url.path'] = route;
    }
    if (code !== undefined) attributes['error.type'] = code;
    if (principal !== undefined) attributes['collector.organisation'] = principal.organisation;
    span.setAttributes(attributes);
    // What a client has done wrong is no error of a server (semantic conventions, HTTP spans, status).
    if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(at);
  }
}

/** The sender's span as the parent, if it sent one that can be read. */
function contextOf({ rawHeaders }: Request): Context {
  let sent: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.length !== 11 || name.toLowerCase() !== 'traceparent') continue;
    // Two are none (W3C Trace Context section 3.2.1).
    if (sent !== undefined) return ROOT_CONTEXT;
    sent = rawHeaders[i + 1];
  }
  const parent = sent === undefined ? null : parseTraceParent(sent);
  if (parent === null) return ROOT_CONTEXT;
  const { traceId, spanId, traceFlags } = parent;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    // The others are not ours to pass on.
    traceFlags: traceFlags & TraceFlags.SAMPLED,
    isRemote: true,
  });
}

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

/** Of the collector, or of one thread of it, which has no metrics of its own: then there is no status. */
export class Telemetry {
  /** To be told of each answer; undefined when no traces are wanted. */
  readonly observer: Ingest['observer'];
  readonly #pipelines: Pipeline[] = [];

  constructor(
    { traces, metrics }: TelemetrySettings,
    variables: Variables,
    version: string,
    collectorStatus: CollectorStatus | undefined,
    log: Log,
  ) {
    const target = (signal: Signal) => {
      const found = targetOf(signal, variables, (warning) => log.warn({ signal }, warning));
      // Without what a URL can hold of secrets.
      log.info({ signal, to: found.url.origin + found.url.pathname }, 'OpenTelemetry export begins');
      return found;
    };
    const resource = resourceOf(version);
    if (traces) {
      const tracing = openTracing(traces, target('traces'), resource, version, log);
      this.observer = tracing.observer;
      this.#pipelines.push(tracing);
    }
    if (metrics && collectorStatus)
      this.#pipelines.push(meter(metrics.intervalMs, target('metrics'), resource, collectorStatus, log));
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

function openTracing(
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

function meter(
  intervalMs: number,
  target: Target,
  resource: Resource,
  collectorStatus: CollectorStatus,
  log: Log,
): Pipeline {
  const trouble = new Trouble('metrics', log);
  const exporter = new OtlpExporter(target, ProtobufMetricsSerializer, trouble);
  const watch = new Watch(collectorStatus);
  const figures = new Metrics(collectorStatus, watch);
  const scope = { name: SCOPE, version: collectorStatus.version };
  const collect = async () => {
    try {
      const metrics = metricDataOf(await figures.figures(), collectorStatus.startedAt, Date.now());
      return { resourceMetrics: { resource, scopeMetrics: [{ scope, metrics }] }, errors: [] };
    } catch (error) {
      // Anyone who asked would keep it to himself.
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
