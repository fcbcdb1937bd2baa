/**
 * Where telemetry is sent and how, by the variables of the "OpenTelemetry Protocol Exporter" specification. One for a
 * signal goes before the one for all, but for headers, which are put together.
 */
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { parseKeyPairsIntoRecord } from '@opentelemetry/core';
import type { Variables } from './settings.js';

export type Signal = 'traces' | 'metrics';

export interface Target {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly zipped: boolean;
  readonly agent: http.Agent;
}

const DEFAULT_ENDPOINT = 'http://localhost:4318';
const DEFAULT_TIMEOUT_MS = 10_000;
/** The longest that a timer takes. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * @param variables their endpoints are http or https URLs (settings.ts).
 * @param warn is told what was not understood, without its value.
 */
export function targetOf(signal: Signal, variables: Variables, warn: (warning: string) => void): Target {
  const names = (option: string) => [
    `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_${option}`,
    `OTEL_EXPORTER_OTLP_${option}`,
  ];
  const read = <T>(
    option: string,
    otherwise: T,
    parse: (text: string) => T | undefined,
    fault: string,
  ): T => {
    const name = names(option).find((candidate) => variables[candidate] !== undefined);
    if (name === undefined) return otherwise;
    const value = parse(variables[name]?.trim() ?? '');
    if (value === undefined) warn(`${name} ${fault}`);
    return value ?? otherwise;
  };
  const file = (option: string) =>
    read<Buffer | undefined>(option, undefined, contentOf, 'names a file that cannot be read');
  const [own = '', common = ''] = names('ENDPOINT');
  const url = new URL(variables[own] ?? variables[common] ?? DEFAULT_ENDPOINT);
  // One for a signal is taken as it is; to one for all the signal's path is appended.
  if (variables[own] === undefined) url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/${signal}`;
  const [ownHeaders = '', commonHeaders = ''] = names('HEADERS');
  return {
    url,
    headers: {
      ...parseKeyPairsIntoRecord(variables[commonHeaders]),
      ...parseKeyPairsIntoRecord(variables[ownHeaders]),
    },
    timeoutMs: read('TIMEOUT', DEFAULT_TIMEOUT_MS, milliseconds, 'is no whole number of milliseconds'),
    zipped: read('COMPRESSION', false, compression, 'is neither gzip nor none'),
    agent:
      url.protocol === 'https:'
        ? new https.Agent({
            keepAlive: true,
            ca: file('CERTIFICATE'),
            cert: file('CLIENT_CERTIFICATE'),
            key: file('CLIENT_KEY'),
          })
        : new http.Agent({ keepAlive: true }),
  };
}

function contentOf(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

function milliseconds(text: string): number | undefined {
  const number = Number(text);
  return Number.isInteger(number) && number > 0 && number <= LONGEST_TIMEOUT_MS ? number : undefined;
}

function compression(text: string): boolean | undefined {
  return text === 'gzip' ? true : text === 'none' ? false : undefined;
}
