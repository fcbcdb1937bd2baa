/**
 * A span for each sampled request, made once it is answered: from its last header to its answer, so that the length of
 * one with status 201 is the time of a durable acknowledgement.
 *
 * A span holds what the log may hold of a request, and of the sender's own words nothing but the trace it belongs to:
 * the two hexadecimal ids of `traceparent` (W3C Trace Context). Not `tracestate`, whose text is free; not the path,
 * unless it is one of ours. And only of a sender who has shown a key: nobody else decides what is sampled.
 */
import type { IncomingMessage } from 'node:http';
import { EVENT_PATHS, type ErrorCode } from '@clinical-events/protocol';
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type Context,
  type Tracer,
} from '@opentelemetry/api';
import { parseTraceParent } from '@opentelemetry/core';
import type { Exchange } from '../ingest/exchange.js';

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

export class RequestSpans {
  #answered: Answered[] = [];

  /** @param onFault a span could not be made. It must not end a collector that takes events. */
  constructor(
    private readonly tracer: Tracer,
    private readonly onFault: () => void,
  ) {}

  /** For {@link Ingest.observer}. Only notes: other answers of the same batch are written first. */
  readonly note = (exchange: Exchange, status: number, code: ErrorCode | undefined): void => {
    if (this.#answered.length === 0) setImmediate(() => this.#make());
    const tookMs = performance.now() - exchange.startedAt;
    this.#answered.push({ exchange, status, code, at: Date.now(), tookMs });
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
function contextOf({ rawHeaders }: IncomingMessage): Context {
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
