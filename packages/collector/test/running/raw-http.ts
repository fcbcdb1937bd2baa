/** HTTP/1.1 written byte by byte, for requests and answers that client libraries do not support. */
import net from 'node:net';

/** To end a test that hangs, not to judge the speed of a machine. */
const PATIENCE_MS = 1_200_000;

export interface RawAnswer {
  readonly status: number;
  /** In the order and the spelling of the wire. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  /** Every byte of it, read as latin1. */
  readonly raw: string;
  header(name: string): string | undefined;
  /** The body as an Error body; missing members are undefined. */
  error(): { message?: string; code?: string; details?: Record<string, unknown> };
}

/** Why a connection is over: the collector ended it, reset it, or (`open`) did neither in time. */
export type Ending = 'end' | 'reset' | 'open';

function parseAnswer(head: string, body: Buffer): RawAnswer {
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
  });
  const text = body.toString();
  return {
    status: Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1] ?? NaN),
    headers,
    body: text,
    raw: `${head}\r\n\r\n${body.toString('latin1')}`,
    header: (name) => headers.find(([known]) => known.toLowerCase() === name.toLowerCase())?.[1],
    error: () => JSON.parse(text) as { message?: string; code?: string; details?: Record<string, unknown> },
  };
}

export class RawConnection {
  readonly socket: net.Socket;
  #received = Buffer.alloc(0);
  #ending: Ending | undefined;
  #changed = Promise.withResolvers<undefined>();

  private constructor(socket: net.Socket) {
    this.socket = socket;
    const change = () => {
      this.#changed.resolve(undefined);
      this.#changed = Promise.withResolvers();
    };
    const over = (ending: Ending) => {
      this.#ending ??= ending;
      change();
    };
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      change();
    });
    socket.on('end', () => over('end'));
    socket.on('error', () => over('reset'));
    socket.on('close', () => over('end'));
  }

  /** @param localAddress where it comes from: all of 127.0.0.0/8 are addresses of this host. */
  static async open(port: number, localAddress = '127.0.0.1'): Promise<RawConnection> {
    const socket = net.connect({ port, host: '127.0.0.1', localAddress, allowHalfOpen: true });
    const connection = new RawConnection(socket);
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return connection;
  }

  write(bytes: string | Uint8Array): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  /** The bytes that `answer` has not consumed, read as latin1. */
  get rest(): string {
    return this.#received.toString('latin1');
  }

  /**
   * Takes the next answer.
   * @param options.head the request was HEAD, so the answer has no body, whatever its headers say.
   * @returns undefined when the connection ended without a whole one.
   * @throws when neither comes in time.
   */
  async answer({ head = false, patienceMs = PATIENCE_MS } = {}): Promise<RawAnswer | undefined> {
    for (const deadline = performance.now() + patienceMs; ;) {
      const taken = this.#take(head);
      if (taken !== undefined) return taken;
      if (this.#ending !== undefined) return undefined;
      if (!(await this.#change(deadline))) throw new Error(`no answer within ${patienceMs} ms`);
    }
  }

  /** All answers up to the end of the connection. */
  async answers(): Promise<RawAnswer[]> {
    const all: RawAnswer[] = [];
    for (let next = await this.answer(); next !== undefined; next = await this.answer()) all.push(next);
    return all;
  }

  /** How the connection ends; `open` when it has not after `patienceMs`. */
  async ending(patienceMs = PATIENCE_MS): Promise<Ending> {
    const deadline = performance.now() + patienceMs;
    while (this.#ending === undefined) if (!(await this.#change(deadline))) return 'open';
    return this.#ending;
  }

  close(): void {
    this.socket.destroy();
  }

  /** Ends with a reset instead of an orderly close. */
  reset(): void {
    this.socket.resetAndDestroy();
  }

  #take(head: boolean): RawAnswer | undefined {
    const end = this.#received.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    const text = this.#received.toString('latin1', 0, end);
    const status = Number(text.slice(9, 12));
    // No body of the collector begins like this; it is the next answer, after one to HEAD.
    const next = this.#received.toString('latin1', end + 4, end + 13) === 'HTTP/1.1 ';
    const length =
      head || next || status < 200 ? 0 : Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
    const whole = end + 4 + length;
    if (this.#received.length < whole) return undefined;
    const answer = parseAnswer(text, this.#received.subarray(end + 4, whole));
    this.#received = this.#received.subarray(whole);
    return answer;
  }

  async #change(deadline: number): Promise<boolean> {
    const left = deadline - performance.now();
    if (left <= 0) return false;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, left)));
    await Promise.race([this.#changed.promise, late]);
    clearTimeout(timer);
    return performance.now() < deadline;
  }
}

export interface RequestParts {
  readonly method?: string;
  readonly target?: string;
  readonly version?: string;
  readonly key?: string | undefined;
  /** Added to the usual ones, or instead of one of the same name; undefined takes one away, a list repeats it. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined;
  readonly body?: string | Uint8Array;
}

/** The bytes of a request that is valid unless the parts say otherwise. */
export function requestBytes(parts: RequestParts): Buffer {
  const {
    method = 'POST',
    target = '/event/outcome',
    version = 'HTTP/1.1',
    key,
    headers = {},
    body = '',
  } = parts;
  const content = typeof body === 'string' ? Buffer.from(body) : Buffer.from(body);
  const all: Record<string, string | readonly string[] | undefined> = {
    Host: 'collector.test',
    'X-API-Key': key,
    'Content-Type': 'application/json',
    'Content-Length': headers['Transfer-Encoding'] === undefined ? String(content.length) : undefined,
    ...headers,
  };
  let text = `${method} ${target} ${version}\r\n`;
  for (const [name, value] of Object.entries(all)) {
    for (const one of typeof value === 'string' ? [value] : (value ?? [])) text += `${name}: ${one}\r\n`;
  }
  return Buffer.concat([Buffer.from(`${text}\r\n`, 'latin1'), content]);
}

/** A body in the chunked coding, cut into pieces of this size. */
export function chunked(
  body: string | Uint8Array,
  size = 1 << 16,
  { extension = '', trailers = '' } = {},
): Buffer {
  const content = Buffer.from(body as Uint8Array);
  const pieces: Buffer[] = [];
  for (let at = 0; at < content.length; at += size) {
    const piece = content.subarray(at, at + size);
    pieces.push(
      Buffer.from(`${piece.length.toString(16)}${extension}\r\n`, 'latin1'),
      piece,
      Buffer.from('\r\n'),
    );
  }
  return Buffer.concat([...pieces, Buffer.from(`0\r\n${trailers}\r\n`, 'latin1')]);
}

/** Sends bytes on a connection of their own and returns the first answer, 100 Continue apart. */
export async function sendBytes(
  port: number,
  bytes: string | Uint8Array,
  { head = false } = {},
): Promise<RawAnswer> {
  const connection = await RawConnection.open(port);
  try {
    connection.write(bytes);
    let answer = await connection.answer({ head });
    if (answer?.status === 100) answer = await connection.answer({ head });
    if (answer === undefined) throw new Error('the connection ended without an answer');
    return answer;
  } finally {
    connection.close();
  }
}

/** Sends one request on a connection of its own. */
export function send(port: number, parts: RequestParts): Promise<RawAnswer> {
  return sendBytes(port, requestBytes(parts), { head: parts.method === 'HEAD' });
}
