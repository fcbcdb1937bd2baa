/** A connection to a collector with all kinds of faults: an HTTP server that forwards requests, or fails. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

const FAULTS = [
  'close before',
  'reset after',
  'overloaded',
  'rate limited',
  'slow',
  'silent after',
  'garbage',
  'redirect',
  'key revoked',
  'portal',
] as const;
type Fault = (typeof FAULTS)[number];

export interface FaultyRoad {
  readonly url: string;
  /** The share of requests with a fault, from 0 to 1. */
  share: number;
  /** How often each fault happened. */
  readonly faults: Map<Fault, number>;
}

export async function faultyRoad(to: string): Promise<FaultyRoad> {
  const road = { url: '', share: 0.3, faults: new Map<Fault, number>() };
  const agent = new http.Agent({ keepAlive: true });
  const server = http.createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('error', () => undefined);
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const fault =
        Math.random() < road.share ? FAULTS[Math.floor(Math.random() * FAULTS.length)] : undefined;
      if (fault) road.faults.set(fault, (road.faults.get(fault) ?? 0) + 1);
      const pass = (then: (status: number, headers: http.IncomingHttpHeaders, body: Buffer) => void) => {
        const { method, headers, url = '' } = request;
        const onward = http.request(new URL(url, to), { method, headers, agent } as http.RequestOptions);
        onward.on('error', () => response.destroy());
        onward.on('response', (answer) => {
          const answered: Buffer[] = [];
          answer.on('error', () => response.destroy());
          answer.on('data', (piece: Buffer) => answered.push(piece));
          answer.on('end', () => then(answer.statusCode ?? 0, answer.headers, Buffer.concat(answered)));
        });
        onward.end(Buffer.concat(pieces));
      };
      const passOn = () => pass((status, headers, body) => response.writeHead(status, headers).end(body));
      switch (fault) {
        case undefined:
          return passOn();
        case 'close before':
          return response.destroy();
        case 'reset after':
          return pass(() => response.socket?.resetAndDestroy());
        case 'silent after':
          return pass(() => undefined);
        case 'overloaded':
          return response.writeHead(503).end('{"message":"m","code":"overloaded"}');
        case 'rate limited':
          return response.writeHead(429, { 'Retry-After': '0' }).end('<html>');
        case 'slow':
          return setTimeout(passOn, Math.random() * 300);
        case 'garbage':
          return response.socket?.end('\0\r\n\r\nHTTP/9.9 201 ?\r\n');
        case 'redirect':
          return response.writeHead(307, { Location: 'http://127.0.0.1:9/' }).end();
        case 'key revoked':
          return response.writeHead(401).end('{"message":"m","code":"key_revoked"}');
        case 'portal':
          return response.writeHead(200).end('<html>Please log in</html>');
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    agent.destroy();
    server.closeAllConnections();
    server.close();
  });
  road.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return road;
}
