/**
 * Clients that hold the collector's memory, a third of each sort: one writes the headers of a request at a
 * byte a second, one its body, and one writes requests and never reads an answer. After a disconnection each
 * reconnects a second later.
 */
import { connect } from 'node:net';
import { KIND, newEvent } from './event.mjs';

const SORTS = ['slow headers', 'slow body', 'never reads'];
/** Turns in a second. Each socket writes in one of them. */
const TURNS = 10;
const REQUESTS_A_SECOND = 2;

export class SlowSockets {
  counts = { opened: 0, cutOff: 0, requestsUnread: 0 };
  #sockets = new Set();
  #timer;
  #turn = 0;
  #options;

  constructor({ port, key, count }) {
    this.#options = { port, key };
    for (let i = 0; i < count; i++) this.#open(SORTS[i % SORTS.length], i % TURNS);
    this.#timer = setInterval(() => this.#write(), 1000 / TURNS);
  }

  close() {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const { socket } of this.#sockets) socket.destroy();
  }

  #open(sort, turn) {
    const socket = connect(this.#options.port, '127.0.0.1').setNoDelay();
    const client = { socket, sort, turn, request: this.#request(), written: 0 };
    this.#sockets.add(client);
    this.counts.opened++;
    if (sort === 'never reads') socket.pause();
    else socket.resume();
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#sockets.delete(client);
      if (this.#timer === undefined) return;
      this.counts.cutOff++;
      setTimeout(() => {
        if (this.#timer !== undefined) this.#open(sort, turn);
      }, 1000);
    });
  }

  #request() {
    const body = newEvent();
    const head =
      `POST /event/${KIND} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n` +
      `X-API-Key: ${this.#options.key}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
    return { head, body };
  }

  #write() {
    this.#turn = (this.#turn + 1) % TURNS;
    for (const client of this.#sockets) if (client.turn === this.#turn) this.#writeTo(client);
  }

  #writeTo(client) {
    const { socket, sort, request } = client;
    if (!socket.writable || socket.connecting) return;
    if (sort === 'never reads') {
      for (let i = 0; i < REQUESTS_A_SECOND && !socket.writableNeedDrain; i++) {
        const { head, body } = this.#request();
        socket.write(head + body);
        this.counts.requestsUnread++;
      }
      return;
    }
    if (sort === 'slow body' && client.written === 0) socket.write(request.head);
    const bytes = sort === 'slow body' ? request.body : request.head + request.body;
    socket.write(bytes.charAt(client.written++ % bytes.length));
  }
}
