/**
 * Sends telemetry as OTLP over HTTP, in protobuf.
 *
 * OpenTelemetry's own exporters try again and keep the process alive for it, up to their time-out and with no way to end
 * them. A stop must not wait for a monitoring system, so here a batch is sent once, and everything can be broken off. A
 * batch that is lost is a few spans among samples, or figures that the next ones repeat.
 *
 * A hole: a name that the resolver hangs on occupies a thread of Node's pool until the resolver gives up.
 */
import http from 'node:http';
import https from 'node:https';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { ExportResultCode, type ExportResult } from '@opentelemetry/core';
import type { ISerializer } from '@opentelemetry/otlp-transformer';
import type { Target } from './target.js';
import type { Trouble } from './trouble.js';

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
