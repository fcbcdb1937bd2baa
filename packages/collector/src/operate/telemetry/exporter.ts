/**
 * Sends telemetry as OTLP over HTTP, in protobuf.
 *
 * OpenTelemetry's own exporters try again and keep the process alive for it, up to their time-out and with no way to
 * end them. A stop must not wait for a monitoring system, so here a batch is sent once, and everything can be broken
 * off. A batch that is lost is a few spans among samples, or figures that the next ones repeat.
 *
 * A hole: a name that the resolver hangs on occupies a thread of Node's pool until the resolver gives up.
 */
import http from 'node:http';
import https from 'node:https';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type Attributes, type HrTime, ValueType } from '@opentelemetry/api';
import { type ExportResult, ExportResultCode, millisToHrTime } from '@opentelemetry/core';
import type { ISerializer } from '@opentelemetry/otlp-transformer';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
} from '@opentelemetry/sdk-metrics';
import type { Log } from '../../ingest/refusal-log.js';
import type { Figure } from '../metrics.js';
import type { Target } from './target.js';

/* Says in the log that telemetry does not get through, at most once a minute, and that it does again. */

const EVERY_MS = 60_000;

export class Trouble {
  #toldAt = -Infinity;
  /** Since the last line. */
  #failures = 0;
  /** The last line said that it fails. */
  #counted = false;

  /** @param signal which telemetry this is about. */
  constructor(
    private readonly signal: string,
    private readonly log: Log,
  ) {}

  /**
   * @param reason in our own words or a code: never what a server has answered, which may repeat what it was sent.
   * @param nowMs a monotonic clock.
   */
  failed(reason: string, nowMs: number): void {
    this.#failures++;
    if (nowMs - this.#toldAt < EVERY_MS) return;
    this.log.warn(
      { signal: this.signal, reason, failures: this.#failures },
      'OpenTelemetry export fails; what was to be exported is dropped',
    );
    this.#toldAt = nowMs;
    this.#failures = 0;
    this.#counted = true;
  }

  worked(): void {
    if (!this.#counted) return;
    this.#counted = false;
    this.log.info({ signal: this.signal }, 'OpenTelemetry export works again');
  }
}

/*
 * The figures of `GET /metrics` in the form of OpenTelemetry: the same names, so that the same rules and dashboards do,
 * and the same numbers. All are cumulative; what a figure has counted since the start is told at each export.
 */

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

/**
 * Prometheus has a line for each bound with all that is below it; OpenTelemetry has one point with a count a bucket.
 */
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

/** What an answer to an export may say: how much of it was not taken. */
interface Answer {
  readonly partialSuccess?: {
    readonly rejectedSpans?: number;
    readonly rejectedDataPoints?: number;
  };
}

/** What is read of an answer. One of OTLP is some ten bytes. */
const ANSWER_BYTES = 64 << 10;
const compressed = promisify(gzip);

export class OtlpExporter<Items> {
  readonly #serializer: ISerializer<Items, Answer>;
  readonly #trouble: Trouble;
  readonly #target: Target;
  readonly #ended = new AbortController();
  readonly #underWay = new Set<Promise<void>>();

  constructor(target: Target, serializer: ISerializer<Items, Answer>, trouble: Trouble) {
    this.#target = target;
    this.#serializer = serializer;
    this.#trouble = trouble;
  }

  export(items: Items, done: (result: ExportResult) => void): void {
    const sending: Promise<void> = this.#send(items)
      .then(
        () => {
          this.#trouble.worked();
          done({ code: ExportResultCode.SUCCESS });
        },
        (error: unknown) => {
          this.#trouble.failed(this.#reasonOf(error), performance.now());
          done({ code: ExportResultCode.FAILED });
        },
      )
      .finally(() => this.#underWay.delete(sending));
    this.#underWay.add(sending);
  }

  /** On return nothing is under way. */
  async forceFlush(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  shutdown(): Promise<void> {
    return this.forceFlush();
  }

  /** Breaks off what is under way; nothing is left that would keep the process alive. */
  end(): void {
    this.#ended.abort();
    this.#target.agent.destroy();
  }

  async #send(items: Items): Promise<void> {
    const { agent, headers, timeoutMs, zipped } = this.#target;
    const plain = this.#serializer.serializeRequest(items);
    if (plain === undefined) throw new ExportFailure('nothing came of the serialization');
    const body = zipped ? await compressed(plain) : plain;
    const response = await this.#post(body, {
      method: 'POST',
      agent,
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#ended.signal]),
      headers: {
        ...headers,
        'Content-Type': 'application/x-protobuf',
        ...(zipped && { 'Content-Encoding': 'gzip' }),
        'Content-Length': body.length,
      },
    });
    const answer: Buffer[] = [];
    let length = 0;
    for await (const piece of response as AsyncIterable<Buffer>) {
      length += piece.length;
      // Leaving the loop destroys the response, and with it the connection.
      if (length > ANSWER_BYTES) throw new ExportFailure('the answer is too long');
      answer.push(piece);
    }
    const { statusCode = 0 } = response;
    if (statusCode < 200 || statusCode > 299) throw new ExportFailure(`HTTP ${statusCode}`);
    const rejected = this.#rejected(Buffer.concat(answer));
    if (rejected > 0) throw new ExportFailure(`${rejected} of a batch were rejected`);
  }

  #post(body: Uint8Array, options: http.RequestOptions): Promise<http.IncomingMessage> {
    const { url } = this.#target;
    const { request } = url.protocol === 'https:' ? https : http;
    return new Promise((resolve, reject) => {
      request(url, options).on('response', resolve).on('error', reject).end(body);
    });
  }

  /** @returns how many spans or figures were not taken; 0 when the answer is none of OTLP, which some servers give. */
  #rejected(answer: Buffer): number {
    try {
      const { partialSuccess } = this.#serializer.deserializeResponse(answer);
      return partialSuccess?.rejectedSpans ?? partialSuccess?.rejectedDataPoints ?? 0;
    } catch {
      return 0;
    }
  }

  #reasonOf(error: unknown): string {
    if (error instanceof ExportFailure) return error.message;
    if (this.#ended.signal.aborted) return 'the collector stops';
    const { name, code } = error as { name?: unknown; code?: unknown };
    // Of the signal's own kind, or of the connection that was broken off by it.
    if (name === 'TimeoutError' || code === 'ABORT_ERR') {
      return `no answer within ${this.#target.timeoutMs} ms`;
    }
    return typeof code === 'string' && /^[A-Z][A-Z0-9_]+$/.test(code) ? code : 'it could not be sent';
  }
}

class ExportFailure extends Error {}
