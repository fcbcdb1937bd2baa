/**
 * One connection to a collector, straight on a socket: `node:http` takes three times the processor time of this
 * (docs/internals/adr/0015-client-sending.md). Never two requests at a time: of an answer that came unasked, from a
 * proxy that has lost count, nothing would tell which event it belongs to.
 */
import net from 'node:net';
import tls from 'node:tls';
import { readAnswer, type Answer } from './answer.js';

/** An answer that takes longer is given up. */
const PATIENCE_MS = 30_000;
const READ_BYTES = 64 << 10;
/** A request up to this size is put together and written at once, which costs less than two pieces. */
const SMALL_BYTES = 16 << 10;
const NOTHING = Buffer.alloc(0);

/** One for all connections: what has come is taken before the next one reads. */
let readBuffer: Buffer | undefined;

type Waiting = Pick<PromiseWithResolvers<Answer>, 'resolve' | 'reject'>;

export class Connection {
  readonly #socket: net.Socket;
  /** What has come of an answer that is not whole. */
  #partial: Buffer = NOTHING;
  #waiting: Waiting | undefined;
  #usable = true;

  /** @param base http or https. */
  constructor(base: URL) {
    this.#socket = dial(base, (bytes) => this.#take(bytes));
    this.#socket.setTimeout(PATIENCE_MS, () => {
      this.#socket.destroy(new Error(`no answer within ${PATIENCE_MS / 1000} s`));
    });
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('end', () => this.#closed());
    this.#socket.on('close', () => this.#closed());
  }

  /** Whether another request may go on it. */
  get usable(): boolean {
    return this.#usable && this.#waiting === undefined;
  }

  /**
   * Only on one that is usable.
   * @throws the system's error when no answer came; whether the event is stored is then not known.
   */
  send(head: string, body: Uint8Array): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.#waiting = { resolve, reject };
    if (head.length + body.length <= SMALL_BYTES) {
      const request = Buffer.allocUnsafe(head.length + body.length);
      request.write(head, 'latin1');
      request.set(body, head.length);
      this.#socket.write(request);
      return promise;
    }
    this.#socket.cork();
    this.#socket.write(head, 'latin1');
    this.#socket.write(body);
    this.#socket.uncork();
    return promise;
  }

  destroy(): void {
    this.#fail(new Error('the connection was given up'));
  }

  #take(bytes: Buffer): void {
    if (this.#waiting === undefined) return this.destroy();
    const all = this.#partial.length === 0 ? bytes : Buffer.concat([this.#partial, bytes]);
    this.#read(all, false);
  }

  #read(all: Buffer, ended: boolean): void {
    try {
      const read = readAnswer(all, ended);
      if (read === undefined) {
        this.#partial = Buffer.from(all);
        return;
      }
      // Anyone who says it has stored what it has not got yet is no collector.
      if (read.answer.status === 201 && this.#socket.writableLength > 0) {
        throw new Error('201 came before the whole event was sent');
      }
      const waiting = this.#waiting;
      this.#waiting = undefined;
      this.#partial = NOTHING;
      if (!read.keepsOpen || this.#socket.writableLength > 0) this.destroy();
      waiting?.resolve(read.answer);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** By the other side, or by what lies between. */
  #closed(): void {
    if (this.#waiting !== undefined && this.#partial.length > 0) this.#read(this.#partial, true);
    this.#fail(new Error('the connection was closed without an answer'));
  }

  #fail(error: unknown): void {
    this.#usable = false;
    this.#socket.destroy();
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }
}

function dial(base: URL, onData: (bytes: Buffer) => void): net.Socket {
  const buffer = (readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES));
  // An IPv6 address stands in brackets in a URL, and without them here.
  const host = base.hostname.replace(/^\[|\]$/g, '');
  const onread = {
    buffer,
    callback: (length: number) => {
      onData(buffer.subarray(0, length));
      return true;
    },
  };
  const options = { host, noDelay: true, onread };
  if (base.protocol === 'http:') return net.connect({ ...options, port: Number(base.port || 80) });
  const servername = net.isIP(host) === 0 ? { servername: host } : {};
  return tls.connect({
    ...{ ...options, ...servername, port: Number(base.port || 443), ALPNProtocols: ['http/1.1'] },
  });
}
