/** Requests of OTLP as a sender makes them. */
import { randomBytes } from 'node:crypto';
import http from 'node:http';

export interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes: Readonly<Record<string, string | number>>;
}

/** A call of a model with a question and an answer: an inference-start and a human-output. */
export function modelSpan(more: Readonly<Record<string, string | number>> = {}): SentSpan {
  return {
    traceId: randomBytes(16).toString('hex'),
    spanId: randomBytes(8).toString('hex'),
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'gpt-4o',
      'gen_ai.input.messages': JSON.stringify([
        { role: 'user', parts: [{ type: 'text', content: 'Is 5.6 mmol/L normal?' }] },
      ]),
      'gen_ai.output.messages': JSON.stringify([
        {
          role: 'assistant',
          parts: [{ type: 'text', content: 'It is above the range.' }],
          finish_reason: 'stop',
        },
      ]),
      'gen_ai.response.finish_reasons': 'stop',
      ...more,
    },
  };
}

/** OTLP/JSON. */
export function tracesOf(spans: readonly SentSpan[]): string {
  const made = spans.map(({ traceId, spanId, attributes }) => ({
    ...{ traceId, spanId, name: 'chat gpt-4o', kind: 3 },
    ...{ startTimeUnixNano: '1795753121694000000', endTimeUnixNano: '1795753122694000000' },
    attributes: Object.entries(attributes).map(([key, value]) => ({
      key,
      value: typeof value === 'string' ? { stringValue: value } : { intValue: String(value) },
    })),
  }));
  return JSON.stringify({
    resourceSpans: [{ resource: {}, scopeSpans: [{ scope: { name: 'test' }, spans: made }] }],
  });
}

export interface OtlpAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly bytes: Buffer;
  /** The body, which is JSON. */
  readonly json: {
    readonly partialSuccess?: { readonly rejectedSpans?: string; readonly errorMessage?: string };
    readonly code?: number;
    readonly message?: string;
  };
}

/** Sends a body to a port for OTLP. */
export function sendOtlp(
  port: number,
  key: string,
  body: string | Buffer,
  {
    path = '/v1/traces',
    headers = {},
    agent,
  }: { path?: string; headers?: Readonly<Record<string, string>>; agent?: http.Agent } = {},
): Promise<OtlpAnswer> {
  return new Promise((resolve, reject) => {
    const all = { 'x-api-key': key, 'content-type': 'application/json', ...headers };
    const request = http.request(
      { host: '127.0.0.1', port, path, method: 'POST', headers: all, agent },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const bytes = Buffer.concat(chunks);
          const isJson = response.headers['content-type'] === 'application/json';
          const json = isJson ? (JSON.parse(bytes.toString()) as OtlpAnswer['json']) : {};
          resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes, json });
        });
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

/** The port for OTLP of a collector that listens. */
export function otlpPortOf({ output }: { readonly output: { readonly stderr: string } }): number {
  const port = /otlpPort\W+(\d+)/.exec(output.stderr)?.[1];
  if (port === undefined) throw new Error('the collector takes no OTLP');
  return Number(port);
}
