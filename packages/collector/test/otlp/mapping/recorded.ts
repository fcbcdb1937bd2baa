/** Recorded requests of test/vectors/otlp, decoded. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { DecodedLog, DecodedSpan, Encoding } from '../../../src/otlp/decoded.js';
import { decodeLogs, decodeSpans } from '../../../src/otlp/decoding/decode.js';

const DIRECTORY = path.resolve('test/vectors/otlp');

export interface Recorded {
  readonly spans: readonly DecodedSpan[];
  readonly logs: readonly DecodedLog[];
}

interface Body {
  readonly signal: string;
  readonly encoding: Encoding;
  readonly body: Buffer;
}

export const recordings = readdirSync(DIRECTORY).filter((name) => /^\d/.test(name));

export function receivedOf(recording: string): unknown {
  return JSON.parse(readFileSync(path.join(DIRECTORY, recording, 'received.json'), 'utf8'));
}

/** Every span and log record, once for each time it was sent. */
export function recorded(recording: string): Recorded {
  const bodies = readdirSync(path.join(DIRECTORY, recording)).flatMap((name): Body[] => {
    const [, signal, form] = /^(request|logs)[^.]*\.(json|pb\.base64)$/.exec(name) ?? [];
    if (signal === undefined) return [];
    const text = readFileSync(path.join(DIRECTORY, recording, name), 'utf8');
    const encoding = form === 'json' ? 'json' : 'protobuf';
    return [{ signal, encoding, body: Buffer.from(text, form === 'json' ? 'utf8' : 'base64') }];
  });
  const of = (wanted: string) => bodies.filter(({ signal }) => signal === wanted);
  return {
    spans: of('request').flatMap(({ body, encoding }) => decodeSpans(body, encoding)),
    logs: of('logs').flatMap(({ body, encoding }) => decodeLogs(body, encoding)),
  };
}

export const everything: Recorded = {
  spans: recordings.flatMap((name) => recorded(name).spans),
  logs: recordings.flatMap((name) => recorded(name).logs),
};
