/** A keep-alive HTTPS connection of a sender: one request at a time, reopened when it ends. */
import { connect } from 'node:tls';

/** The name in the certificates. The address is loopback. */
export const SERVER_NAME = 'collector.test';
const REOPEN_MS = 100;
const ANSWER_WITHIN_MS = 15_000;

export class Connection {
  /** The request under way, with `sentAt`; otherwise undefined. */
  job;
  /** The fingerprint of the server's certificate. */
  fingerprint;
  /** The start of the collector that it reached: see Senders. */
  life;
  /** Its sender. */
  sender;
  renewWhenFree = false;
  /** How many times it has ended. */
  ended = 0;
  #owner;
  #socket;
  #partial = '';
  #closing = false;

  /**
   * @param owner has `target`, `free(connection)`, `answered(connection, answer)` and `lost(connection)`.
   */
  constructor(owner) {
    this.#owner = owner;
    this.sender = owner.name;
    this.#open();
  }

  send(job, request) {
    this.job = job;
    job.sentAt = performance.now();
    this.#socket.write(request, 'latin1');
  }

  /** Ends a request that has waited too long for its answer. */
  sweep(now) {
    if (this.job !== undefined && now - this.job.sentAt > ANSWER_WITHIN_MS) this.#socket.destroy();
  }

  /** Replaces it by a new connection. Only while nothing is being sent. */
  renew() {
    this.renewWhenFree = false;
    this.#socket.destroy();
  }

  close() {
    this.#closing = true;
    this.#socket.destroy();
  }

  #open() {
    const { port, secureContext } = this.#owner.target;
    const socket = connect({ port, host: '127.0.0.1', servername: SERVER_NAME, secureContext });
    this.#socket = socket;
    this.#partial = '';
    let isOpen = false;
    socket.setNoDelay(true);
    socket.on('secureConnect', () => {
      isOpen = true;
      this.fingerprint = socket.getPeerX509Certificate().fingerprint256;
      this.life = this.#owner.life;
      this.#owner.free(this);
    });
    socket.on('data', (bytes) => this.#read(bytes.latin1Slice()));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.ended++;
      if (isOpen) this.#owner.lost(this);
      this.job = undefined;
      if (!this.#closing) setTimeout(() => this.#closing || this.#open(), REOPEN_MS);
    });
  }

  #read(text) {
    const whole = this.#partial + text;
    const head = whole.indexOf('\r\n\r\n');
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(whole)?.[1]);
    if (head < 0 || whole.length < head + 4 + length) {
      this.#partial = whole;
      return;
    }
    this.#partial = '';
    const status = Number(whole.slice(9, 12));
    const answer = { status, code: 'accepted', retryAfterMs: 0 };
    if (status !== 201) {
      answer.code = /"code":"(\w+)"/.exec(whole)?.[1] ?? String(status);
      answer.retryAfterMs = Number(/\r\nretry-after: (\d+)/i.exec(whole)?.[1] ?? 0) * 1000;
    }
    this.#owner.answered(this, answer);
  }
}
