/** A server that answers as a test requires. By default it accepts every event, as a collector does. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

interface FakeEvent {
  readonly path: string;
  readonly apiKey: string | undefined;
  readonly text: string;
  readonly event: {
    readonly event_id: string;
    readonly run_id?: string;
    readonly parent_event_id?: string;
    readonly timestamp: string;
    readonly system_metadata: Readonly<Record<string, unknown>>;
    readonly [name: string]: unknown;
  };
}

export interface FakeCollector {
  readonly url: string;
  /** Those answered with 201, in that order. */
  readonly accepted: FakeEvent[];
  /** When each request came, by performance.now(). */
  readonly requests: number[];
  /** @returns true when it has answered. */
  behave: (event: FakeEvent, response: http.ServerResponse, request: number) => boolean | Promise<boolean>;
  /** Closes idle connections. */
  readonly closeIdle: () => void;
}

export async function fakeCollector(behave: FakeCollector['behave'] = () => false): Promise<FakeCollector> {
  const closeIdle = () => server.closeIdleConnections();
  const fake = { url: '', accepted: [], requests: [], behave, closeIdle } as FakeCollector & { url: string };
  const server = http.createServer((request, response) => {
    const number = fake.requests.push(performance.now());
    const pieces: Buffer[] = [];
    request.on('error', () => undefined);
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString();
      const event = {
        ...{ path: request.url ?? '', text },
        apiKey: request.headers['x-api-key'] as string | undefined,
        event: JSON.parse(text) as FakeEvent['event'],
      };
      Promise.resolve(fake.behave(event, response, number))
        .then((answered) => {
          if (!answered) accept(fake, event, response);
        })
        .catch((error: unknown) => response.destroy(error as Error));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  fake.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return fake;
}

function accept(fake: FakeCollector, event: FakeEvent, response: http.ServerResponse): void {
  fake.accepted.push(event);
  answer(response, 201, { status: 'accepted' });
}

export function answer(
  response: http.ServerResponse,
  status: number,
  body: object | string = '',
  headers: http.OutgoingHttpHeaders = {},
): true {
  response.writeHead(status, headers);
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
  return true;
}
