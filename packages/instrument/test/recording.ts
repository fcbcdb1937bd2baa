/** A client whose events a test can read, and servers that answer like providers of models. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient, type Client } from '@clinical-events/client';
import { expect, onTestFinished } from 'vitest';
import { fakeCollector } from '../../client/test/running/fake-collector.js';

type Event = Readonly<Record<string, unknown>> & {
  readonly kind: string;
  readonly event_id: string;
  readonly run_id: string;
  readonly parent_event_id?: string;
  readonly timestamp: string;
  readonly system_metadata: {
    readonly latency_ms?: number;
    readonly instrumentation?: Readonly<Record<string, unknown>>;
  };
  readonly artifact?: Readonly<Record<string, unknown>>;
  readonly output?: Readonly<Record<string, unknown>>;
};

export interface Recording {
  readonly log: Client;
  /** Content that was stored by itself, in that order. */
  readonly contents: string[];
  /** The events of the collector, in the order of their capture. */
  readonly events: () => Promise<Event[]>;
}

export async function recording(): Promise<Recording> {
  const collector = await fakeCollector();
  const contents: string[] = [];
  const content = {
    put: (bytes: Uint8Array) => {
      contents.push(Buffer.from(bytes).toString());
      return Promise.resolve();
    },
  };
  const refusals: unknown[] = [];
  const log = createClient({
    ...{ url: collector.url, apiKey: 'key', spool: { durability: 'memory' }, content },
    onRefused: (refused) => refusals.push(refused),
  });
  onTestFinished(async () => {
    await log.close({ timeoutMs: 0 });
  });
  const events = async () => {
    expect(await log.flush()).toEqual({ waiting: 0 });
    expect(refusals).toEqual([]);
    return collector.accepted
      .map(({ path, event }) => ({ kind: path.replace('/event/', ''), ...event }) as unknown as Event)
      .sort((a, b) => (a.event_id < b.event_id ? -1 : 1));
  };
  return { log, contents, events };
}

/** Words of patients, which are in events only by a choice of the application. */
export const SECRET = 'Mrs Example has a rash';

export interface ModelServer {
  readonly url: string;
  /** The received bodies, parsed. */
  readonly requests: unknown[];
}

export async function modelServer(
  answer: (response: http.ServerResponse, request: number, path: string) => void | Promise<void>,
): Promise<ModelServer> {
  const requests: unknown[] = [];
  const server = http.createServer((request, response) => {
    const pieces: Buffer[] = [];
    response.on('error', () => undefined);
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString();
      const number = requests.push(text === '' ? undefined : JSON.parse(text));
      Promise.resolve(answer(response, number, request.url ?? '')).catch(() => response.destroy());
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

/** Every event names its instrumentation. */
export function expectMadeBy(by: string, events: readonly Event[]): void {
  expect(events.map(({ system_metadata }) => system_metadata.instrumentation?.['by'])).toEqual(
    events.map(() => by),
  );
}

export function json(response: http.ServerResponse, body: object, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'req_1' });
  response.end(JSON.stringify(body));
}

export function startStream(response: http.ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'x-request-id': 'req_1' });
}

/** Server-sent events, each in a separate packet; a type is the name of the event. */
export async function stream(
  response: http.ServerResponse,
  events: readonly (object | string)[],
): Promise<void> {
  for (const event of events) {
    const name = typeof event === 'object' && 'type' in event ? `event: ${String(event.type)}\n` : '';
    response.write(`${name}data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`);
    await pause(1);
  }
}

export async function streamed(
  response: http.ServerResponse,
  events: readonly (object | string)[],
): Promise<void> {
  startStream(response);
  await stream(response, events);
  response.end();
}

/** Waits until a socket is closed. */
export async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    await pause(5);
  }
}
