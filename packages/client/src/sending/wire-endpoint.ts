/**
 * Requests on connections of our own, straight on sockets: what `node:http` does for each request costs more than
 * everything else that the client does for it (docs/internals/adr/0015-client-sending.md).
 */
import net from 'node:net';
import tls from 'node:tls';
import { EVENT_PATHS, type EventKind } from '@clinical-events/protocol';
import { Connection, type ConnectionOwner, type Dial, type Request } from './connection.js';
import {
  keyOf,
  PATIENCE_MS,
  Sweeper,
  type Endpoint,
  type EndpointOptions,
  type Requester,
} from './endpoint.js';

const READ_BYTES = 64 << 10;
/** One that has been idle for so long is closed: before many servers close theirs, after 5 s. */
const IDLE_MS = 4000;

export class WireEndpoint implements Endpoint, ConnectionOwner {
  readonly #options: EndpointOptions;
  readonly #dial: Dial;
  readonly #patienceMs: number;
  readonly #all = new Set<Connection>();
  /** The one that was used last is used first, so that those that are not needed become old. */
  readonly #free: Connection[] = [];
  readonly #sweeper: Sweeper;
  readonly #heads = new Map<EventKind, string>();
  #headsFor = '';

  constructor(options: EndpointOptions) {
    const { url, patienceMs = PATIENCE_MS } = options;
    this.#options = options;
    this.#patienceMs = patienceMs;
    this.#dial = url.protocol === 'https:' ? tlsDial(url) : plainDial(url);
    this.#sweeper = new Sweeper(patienceMs, () => this.#sweep());
  }

  post(kind: EventKind, body: Uint8Array, requester: Requester): void {
    try {
      this.#send({ head: this.#head(kind, body.length), body, requester }, this.#free.pop());
    } catch (error) {
      setImmediate(() => requester.failed(error));
    }
  }

  close(): void {
    this.#sweeper.stop();
    for (const connection of this.#all) connection.end(new Error('the client is closing'));
  }

  free(connection: Connection): void {
    this.#free.push(connection);
  }

  gone(connection: Connection): void {
    this.#all.delete(connection);
    const place = this.#free.indexOf(connection);
    if (place >= 0) this.#free.splice(place, 1);
  }

  /** Once more at once, on a new connection: the other idle ones may be closed too. */
  stale(request: Request): void {
    try {
      this.#send(request, undefined);
    } catch (error) {
      request.requester.failed(error);
    }
  }

  #send(request: Request, free: Connection | undefined): void {
    let connection = free;
    if (!connection) {
      connection = new Connection(this.#dial, this);
      this.#all.add(connection);
      this.#sweeper.start();
    }
    connection.send(request);
  }

  #head(kind: EventKind, length: number): string {
    const key = keyOf(this.#options);
    if (key !== this.#headsFor) this.#heads.clear();
    this.#headsFor = key;
    let head = this.#heads.get(kind);
    if (head === undefined) {
      const { url } = this.#options;
      head =
        `POST ${url.pathname.replace(/\/+$/, '')}${EVENT_PATHS[kind]} HTTP/1.1\r\nHost: ${url.host}\r\n` +
        `Content-Type: application/json\r\nX-API-Key: ${key}\r\nContent-Length: `;
      this.#heads.set(kind, head);
    }
    return `${head}${length}\r\n\r\n`;
  }

  #sweep(): boolean {
    const now = performance.now();
    for (const connection of this.#all) {
      const { idle } = connection;
      if (now - connection.since < (idle ? IDLE_MS : this.#patienceMs)) continue;
      connection.end(new Error(idle ? 'idle' : `no answer within ${this.#patienceMs / 1000} s`));
    }
    return this.#all.size > 0;
  }
}

/** One buffer for all connections of the process: what has come is taken before the next is read. */
let readBuffer: Buffer | undefined;

function connectOptions(url: URL, onData: (bytes: Buffer) => void) {
  readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES);
  const buffer = readBuffer;
  return {
    // An IPv6 address stands in brackets in a URL, and without them here.
    host: url.hostname.replace(/^\[|\]$/g, ''),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 1000,
    onread: {
      buffer,
      callback: (bytes: number) => {
        onData(buffer.subarray(0, bytes));
        return true;
      },
    },
  };
}

function plainDial(url: URL): Dial {
  return (onData) => net.connect({ ...connectOptions(url, onData), port: Number(url.port || 80) });
}

function tlsDial(url: URL): Dial {
  let session: Buffer | undefined;
  let secureContext: tls.SecureContext | undefined;
  return (onData) => {
    // One for all: to make it reads all certificates.
    secureContext ??= tls.createSecureContext();
    const options = connectOptions(url, onData);
    const socket = tls.connect({
      ...options,
      ...{ port: Number(url.port || 443), secureContext, ALPNProtocols: ['http/1.1'] },
      ...(session && { session }),
      ...(net.isIP(options.host) === 0 && { servername: options.host }),
    });
    socket.on('session', (given: Buffer) => (session = given));
    return socket;
  };
}
