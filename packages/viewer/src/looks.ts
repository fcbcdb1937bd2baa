/** Records looks in the access log, through the socket that the collector or mirror offers. */
import net from 'node:net';
import { createInterface } from 'node:readline';
import { processUser } from '@clinical-events/collector/commands/actor';
import { type SocketAddress, socketAddress } from '@clinical-events/collector/commands/access-socket';
import { systemCode } from '@clinical-events/collector/system-code';
import { BEGAN, type Look, LookRefused, type Looks } from './contract.js';

/** How long an answer may take, in milliseconds; a disk may be stuck. */
const ANSWER_MS = 10_000;
/** How long answers may take when the viewer stops, in milliseconds. */
const END_MS = 2000;
/** Maximum number of requests without an answer. */
const MOST_WAITING = 1000;

interface Answer {
  readonly kept?: unknown;
  readonly reading?: unknown;
  readonly refused?: unknown;
}

interface Waiting {
  readonly take: (answer: Answer) => void;
  readonly fail: (error: LookRefused) => void;
}

/**
 * Opens nothing yet: it connects at the first look, and again after the collector was restarted.
 * @param viewerId the id by which reports of followed erasures name this viewer.
 * @param answerMs how long an answer may take.
 */
export function openLooks({
  dataDir,
  viewerId,
  answerMs = ANSWER_MS,
}: {
  readonly dataDir: string;
  readonly viewerId: string;
  readonly answerMs?: number;
}): Looks {
  return new SocketLooks(dataDir, viewerId, answerMs);
}

class SocketLooks implements Looks {
  /** Looked up once: a directory service may be asked for the name. */
  readonly #user = processUser();
  #connection: Connection | undefined;
  #isClosed = false;

  constructor(
    private readonly dataDir: string,
    private readonly viewerId: string,
    private readonly answerMs: number,
  ) {}

  async begin({ acting: { person, role, reason }, what, filter }: Look) {
    const isBreakGlass = role === 'break-glass';
    const { kind, name } = person;
    return this.#begin({
      ...{ command: `viewer ${what}`, actor: { kind, name, role }, filter },
      ...(reason !== undefined && { reason }),
      ...(isBreakGlass && { break_glass: true }),
    });
  }

  async followed(action: string): Promise<void> {
    const { uid, user } = this.#user;
    const end = await this.#begin({
      ...{ command: 'viewer', actor: { kind: 'os', name: user ?? String(uid) } },
      filter: { viewer: this.viewerId, ...(action !== BEGAN && { erased: action }) },
    });
    await end({ events: 0, complete: true });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#connection?.end();
  }

  async #begin(request: object): ReturnType<Looks['begin']> {
    const connection = this.#connect();
    const { reading } = await connection.ask({ state: 'begun', ...request, ...this.#user });
    if (typeof reading !== 'string') throw new LookRefused('the collector does not name the recorded look');
    return async ({ events, complete }) => {
      // Without an end, the log says that any number of events may have been read.
      await connection.ask({ state: 'ended', reading, events, complete }).catch(() => undefined);
    };
  }

  #connect(): Connection {
    if (this.#isClosed) throw new LookRefused('the viewer is stopping');
    if (this.#connection?.isOpen !== true) this.#connection = new Connection(this.dataDir, this.answerMs);
    return this.#connection;
  }
}

/** A connection to the socket. Requests are sent immediately, and answered in order. */
class Connection {
  isOpen = true;
  readonly #socket: net.Socket;
  readonly #address: SocketAddress;
  readonly #closed: Promise<void>;
  #waiting: Waiting[] = [];
  #away = 'the collector does not offer its access log now';

  /** @throws LookRefused if the data directory cannot be opened. */
  constructor(
    dataDir: string,
    private readonly answerMs: number,
  ) {
    try {
      this.#address = socketAddress(dataDir);
    } catch (error) {
      throw new LookRefused('the data directory cannot be opened', { cause: error });
    }
    this.#socket = net.connect(this.#address.address);
    this.#socket.on('error', (error) => {
      if (['ENOENT', 'ECONNREFUSED'].includes(systemCode(error) ?? ''))
        this.#away = `no collector runs on ${dataDir}`;
      this.#socket.destroy();
    });
    createInterface({ input: this.#socket })
      .on('line', (line) => this.#take(line))
      // It repeats the errors of the socket.
      .on('error', () => undefined);
    this.#closed = new Promise((resolve) =>
      this.#socket.once('close', () => {
        this.#end();
        resolve();
      }),
    );
  }

  /** @throws LookRefused */
  ask(request: object): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (!this.isOpen || this.#waiting.length >= MOST_WAITING) {
        reject(this.isOpen ? late() : new LookRefused(this.#away));
        return;
      }
      let isLate = false;
      const timer = setTimeout(() => {
        isLate = true;
        reject(late());
      }, this.answerMs);
      this.#waiting.push({
        take: (answer) => {
          clearTimeout(timer);
          if (isLate) {
            this.#endLate(answer);
            return;
          }
          if (answer.kept === true) {
            resolve(answer);
            return;
          }
          const reason = typeof answer.refused === 'string' ? `: ${answer.refused}` : '';
          reject(new LookRefused(`the collector does not record this look${reason}`));
        },
        fail(error) {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.#socket.write(`${JSON.stringify(request)}\n`);
    });
  }

  /** A look that was recorded too late has shown nothing. */
  #endLate({ kept, reading }: Answer): void {
    if (kept !== true || typeof reading !== 'string') return;
    this.ask({ state: 'ended', reading, events: 0, complete: false }).catch(() => undefined);
  }

  /** Waits for the answers to all requests. */
  async end(): Promise<void> {
    const timer = setTimeout(() => this.#socket.destroy(), END_MS);
    // The collector closes its end once it has answered all requests.
    this.#socket.end();
    await this.#closed;
    clearTimeout(timer);
  }

  #take(line: string): void {
    let answer: Answer | null;
    try {
      answer = JSON.parse(line) as Answer | null;
    } catch {
      answer = null;
    }
    this.#waiting.shift()?.take(answer ?? {});
  }

  #end(): void {
    this.isOpen = false;
    this.#address.release();
    for (const { fail } of this.#waiting.splice(0)) fail(new LookRefused(this.#away));
  }
}

function late(): LookRefused {
  return new LookRefused('the collector has not recorded this look in time');
}
