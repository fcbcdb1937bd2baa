/** Opens connections to the collector: plain or TLS, directly or through a proxy. */
import net from 'node:net';
import tls from 'node:tls';
import { readAnswerHead } from './answer.js';

export interface Route {
  /** Validated when it is used, because a deployment sets it. */
  readonly url: unknown;
  /** Passed to `tls.createSecureContext`: authorities in place of the system's, and a client certificate. */
  readonly tls?: Pick<tls.SecureContextOptions, 'ca' | 'cert' | 'key' | 'passphrase'> | undefined;
  /** An HTTP proxy that tunnels by CONNECT, such as `http://user:password@proxy.example.org:3128`. */
  readonly proxy?: string | URL | undefined;
}

/**
 * Requests cannot be sent: key, address, certificate or proxy is missing or invalid. The message repeats none
 * of them.
 */
export class CannotSend extends Error {
  override name = 'CannotSend';
}

/** Callbacks of one connection. */
interface Line {
  /** Called for each socket that carries the connection: the proxy's, then TLS over it. */
  use(socket: net.Socket): void;
  /** Called once, when requests can be written. */
  ready(): void;
  /** The bytes are valid during the call only. */
  data(bytes: Buffer): void;
}

export type Dial = (line: Line) => void;

const READ_BYTES = 64 << 10;
/** One buffer for all connections of the process: received bytes are consumed before the next read. */
let readBuffer: Buffer | undefined;

/** @throws CannotSend */
export function dialTo(route: Route): { readonly dial: Dial; readonly url: URL } {
  const url = collectorUrl(route.url);
  const secure = url.protocol === 'https:' ? securing(url, route.tls) : undefined;
  const target = { host: hostOf(url), port: Number(url.port || (secure ? 443 : 80)) };
  if (route.proxy !== undefined) {
    return { url, dial: tunnel(proxyUrl(route.proxy), target, secure) };
  }
  return {
    url,
    dial: (line) => {
      const options = socketOptions(line);
      const socket = secure
        ? secure({ port: target.port, ...options })
        : net.connect({ ...target, ...options });
      line.use(socket);
      socket.once(secure ? 'secureConnect' : 'connect', () => line.ready());
    },
  };
}

/** A dead peer is noticed, and small requests are not delayed. */
const KEPT = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 1000 };

function socketOptions(line: Line) {
  readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES);
  const buffer = readBuffer;
  return {
    ...KEPT,
    onread: {
      buffer,
      callback: (bytes: number) => {
        line.data(buffer.subarray(0, bytes));
        return true;
      },
    },
  };
}

/** @returns a function that opens TLS connections, which share one context and resume the last session. */
function securing(url: URL, given: Route['tls']): (transport: tls.ConnectionOptions) => tls.TLSSocket {
  let secureContext: tls.SecureContext;
  try {
    secureContext = tls.createSecureContext(given);
  } catch (cause) {
    throw new CannotSend('the certificates in the option tls cannot be used', { cause });
  }
  let session: Buffer | undefined;
  const host = hostOf(url);
  return (transport) => {
    const socket = tls.connect({
      ...{ ...transport, host, secureContext, ALPNProtocols: ['http/1.1'] },
      ...(session && { session }),
      ...(net.isIP(host) === 0 && { servername: host }),
    });
    return socket.on('session', (next: Buffer) => (session = next));
  };
}

/** A tunnel by CONNECT (RFC 9110 section 9.3.6). */
function tunnel(
  proxy: URL,
  target: { readonly host: string; readonly port: number },
  secure: ((transport: tls.ConnectionOptions) => tls.TLSSocket) | undefined,
): Dial {
  const authority = `${target.host.includes(':') ? `[${target.host}]` : target.host}:${target.port}`;
  const user = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  const login = user === ':' ? '' : `Proxy-Authorization: Basic ${Buffer.from(user).toString('base64')}\r\n`;
  return (line) => {
    const socket = net.connect({
      ...{ ...KEPT, host: hostOf(proxy), port: Number(proxy.port || 80) },
    });
    line.use(socket);
    socket.once('connect', () =>
      socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${login}\r\n`),
    );
    let head = '';
    const takeHead = (bytes: Buffer) => {
      head += bytes.toString('latin1');
      const refused = refusalIn(head);
      if (refused === 'incomplete') return;
      if (refused) return void socket.destroy(refused);
      socket.off('data', takeHead);
      if (!secure) {
        socket.on('data', (more: Buffer) => line.data(more));
        line.ready();
        return;
      }
      const secured = secure({ socket });
      line.use(secured);
      secured.on('data', (more: Buffer) => line.data(more));
      secured.once('secureConnect', () => line.ready());
    };
    socket.on('data', takeHead);
  };
}

const LONGEST_HEAD = 16 << 10;

/** Why the proxy did not open the tunnel; undefined if it did. */
function refusalIn(answer: string): Error | 'incomplete' | undefined {
  const end = answer.indexOf('\r\n\r\n');
  if (end < 0 && answer.length < LONGEST_HEAD) return 'incomplete';
  if (end < 0) return new Error("the head of the proxy's answer is too long");
  try {
    const { status } = readAnswerHead(answer.slice(0, end));
    if (status < 200 || status > 299) return new Error(`the proxy answered ${status}`);
  } catch (error) {
    return error as Error;
  }
  return end + 4 < answer.length ? new Error('the proxy sent data without a request') : undefined;
}

/** An IPv6 address is in brackets in a URL, and without them in the options of a socket. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

/** @throws CannotSend */
function collectorUrl(given: unknown): URL {
  const text = typeof given === 'string' || given instanceof URL ? String(given) : '';
  if (text === '') throw new CannotSend('there is no address of a collector (url or COLLECTOR_URL)');
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new CannotSend('the URL of a collector must begin with http:// or https://');
  }
  if (url.username || url.password || url.search || url.hash) {
    throw new CannotSend('the URL of a collector must consist of an origin and a path');
  }
  return url;
}

/** @throws CannotSend */
function proxyUrl(given: string | URL): URL {
  const url = URL.canParse(String(given)) ? new URL(given) : undefined;
  if (url?.protocol !== 'http:') throw new CannotSend('the URL of a proxy must begin with http://');
  return url;
}
