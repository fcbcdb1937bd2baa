/** The management listener of a running collector, as its clients see it. */
import http from 'node:http';
import parse, { type ParsedFamily } from 'parse-prometheus-text-format';
import { expect } from 'vitest';
import type { Running } from '../running/collector-process.js';

export interface Got {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

export interface GetOptions {
  readonly method?: string;
  readonly headers?: http.OutgoingHttpHeaders;
  readonly agent?: http.Agent;
  readonly body?: string;
  readonly host?: string;
}

/** The port named in the log. */
export function managementPort({ output }: Pick<Running, 'output'>): number {
  const found = /"port":(\d+),"token":\w+,"msg":"management listening"/.exec(output.stderr)?.[1];
  if (found === undefined) throw new Error(`no management listener in the log: ${output.stderr}`);
  return Number(found);
}

export function get(
  port: number,
  path: string,
  { method = 'GET', headers = {}, agent, body, host = '127.0.0.1' }: GetOptions = {},
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const request = http.request({ port, host, method, path, headers, agent: agent ?? false });
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      );
    });
    request.end(body);
  });
}

export async function getJson(port: number, path: string): Promise<Record<string, unknown>> {
  const { status, body } = await get(port, path);
  expect(status, body).toBe(200);
  return JSON.parse(body) as Record<string, unknown>;
}

/** The result of a scrape, read by a parser that is not ours. */
export class Scrape {
  constructor(readonly families: readonly ParsedFamily[]) {}

  static async of(port: number, headers: http.OutgoingHttpHeaders = {}): Promise<Scrape> {
    const { status, body } = await get(port, '/metrics', { headers });
    expect(status).toBe(200);
    return new Scrape(parse(body));
  }

  family(name: string): ParsedFamily {
    const family = this.families.find((candidate) => candidate.name === name);
    if (family === undefined) throw new Error(`there is no metric ${name}`);
    return family;
  }

  /** The one value with these labels; undefined without one. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    const line = this.family(name).metrics.find((candidate) =>
      Object.entries(labels).every(([label, value]) => candidate.labels?.[label] === value),
    );
    return line?.value === undefined ? undefined : Number(line.value);
  }
}
