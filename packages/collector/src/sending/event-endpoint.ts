/** The five endpoints of a collector, as a sender sees them: one request, one answer. */
import { EVENT_KINDS, EVENT_PATHS, type EventKind } from '@clinical-events/protocol';
import { nameOf, type Answer, Connection } from './connection.js';

export class EventEndpoint {
  readonly #base: URL;
  readonly #key: string | undefined;
  readonly #all = new Set<Connection>();
  readonly #free: Connection[] = [];
  readonly #heads = new Map<string, string>();
  readonly #more: string;
  /** What {@link ask} was answered, by code or status: the collector counts these as refusals. */
  readonly asked = new Map<string, number>();

  /**
   * @param base http or https; the paths of the endpoints are added to its own.
   * @param headers more of them, by name.
   */
  constructor(base: URL, key: string | undefined, headers: Readonly<Record<string, string>> = {}) {
    this.#base = base;
    this.#key = key;
    this.#more = Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
  }

  /**
   * As many connections are open as there are events under way.
   * @throws the system's error when no answer came; whether the event is stored is then not known.
   */
  post(kind: EventKind, body: Uint8Array): Promise<Answer> {
    return this.#request(kind, body, 'application/json');
  }

  /**
   * Asks whether the key may send events of a kind, without sending one: media types are looked at after keys and
   * before bodies, and this one is never taken.
   * @returns the answer to that: 415 when it may.
   */
  async ask(kind: EventKind): Promise<Answer> {
    const answer = await this.#request(kind, Buffer.alloc(0), 'text/plain');
    const name = nameOf(answer);
    this.asked.set(name, (this.asked.get(name) ?? 0) + 1);
    return answer;
  }

  /** @returns the first answer to {@link ask} that is none to a sender who may send that kind. */
  async firstRefusal(): Promise<{ readonly kind: EventKind; readonly answer: Answer } | undefined> {
    for (const kind of EVENT_KINDS) {
      const answer = await this.ask(kind);
      const welcome = answer.status === 415 || answer.status === 429 || answer.status === 503;
      if (!welcome) return { kind, answer };
    }
    return undefined;
  }

  /** What is under way fails. */
  close(): void {
    for (const connection of this.#all) connection.destroy();
  }

  async #request(kind: EventKind, body: Uint8Array, type: string): Promise<Answer> {
    const connection = this.#take();
    try {
      return await connection.send(`${this.#head(kind, type)}${body.length}\r\n\r\n`, body);
    } finally {
      if (connection.usable) this.#free.push(connection);
      else this.#all.delete(connection);
    }
  }

  #take(): Connection {
    for (let free; (free = this.#free.pop()) !== undefined;) {
      if (free.usable) return free;
      this.#all.delete(free);
    }
    const made = new Connection(this.#base);
    this.#all.add(made);
    return made;
  }

  #head(kind: EventKind, type: string): string {
    const name = `${type} ${kind}`;
    let head = this.#heads.get(name);
    if (head === undefined) {
      head =
        `POST ${this.#base.pathname.replace(/\/+$/, '')}${EVENT_PATHS[kind]} HTTP/1.1\r\n` +
        `Host: ${this.#base.host}\r\nContent-Type: ${type}\r\n` +
        (this.#key === undefined ? '' : `X-API-Key: ${this.#key}\r\n`) +
        this.#more +
        'Content-Length: ';
      this.#heads.set(name, head);
    }
    return head;
  }
}
