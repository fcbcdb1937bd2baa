/**
 * One application that sends events: it makes them at a rate of its own, whatever becomes of those before,
 * keeps each until it is told 201, sends it again as often as that takes, and remembers what it was told.
 */
import { Connection } from './connection.mjs';
import { FATE, Fates } from './fates.mjs';
import { JobQueue } from './job-queue.mjs';

/** What is sent on purpose beside good events, and the answer that is right for it. */
export const SORTS = {
  event: 'accepted',
  repeat: 'accepted',
  conflict: 'event_id_conflict',
  faulty: 'validation_failed',
  forbidden: 'permission_denied',
  stranger: 'key_invalid',
};
const AGAIN = new Set([408, 429, 500, 503]);
/** Where an answer does not say when to come again. */
const REST_MS = 250;
const REVOKED_REST_MS = 1000;

export class Sender {
  fates = new Fates();
  revoked = false;
  /** Wall clock, milliseconds: when the newest request was sent that was answered 201. */
  newestAccepted = 0;
  target;
  name;
  #index;
  #key;
  #connections;
  #events;
  #tally;
  #queue = new JobQueue();
  #free = [];
  #next = 0;
  #rate = 0;
  #due = Infinity;

  /** @param tally is told of everything that is sent and answered. */
  constructor({ name, index, key, connections }, { events, target, tally }) {
    this.name = name;
    this.#index = index;
    this.#key = key;
    this.#events = events;
    this.#tally = tally;
    this.target = target;
    this.#connections = Array.from({ length: connections }, () => new Connection(this));
  }

  get life() {
    return this.#tally.life;
  }

  /** Events that wait for their 201. */
  get waiting() {
    return this.#queue.size + this.#connections.filter(({ job }) => job !== undefined).length;
  }

  /** @param rate events a second; Infinity: one as soon as a connection is free. */
  begin(rate) {
    this.#rate = rate;
    this.#due = rate > 0 ? performance.now() + this.#gap() : Infinity;
    this.#pump();
  }

  /** Makes what is due, and sends what it can. */
  turn(now) {
    if (this.revoked || this.#rate === Infinity) return;
    for (; this.#due <= now; this.#due += this.#gap()) this.#queue.push(this.nextJob(this.#due));
    this.#pump();
  }

  sweep(now) {
    for (const connection of this.#connections) connection.sweep(now);
  }

  /** Half of the connections are opened again, each when it is free. */
  renewHalf() {
    for (const connection of this.#connections.slice(this.#connections.length >> 1)) {
      if (connection.job === undefined) connection.renew();
      else connection.renewWhenFree = true;
    }
  }

  close() {
    for (const connection of this.#connections) connection.close();
  }

  nextJob(due) {
    return { number: this.#next++, sort: 'event', due, sentAt: 0 };
  }

  free(connection) {
    if (connection.renewWhenFree) return connection.renew();
    this.#free.push(connection);
    this.#pump();
  }

  lost(connection) {
    const at = this.#free.indexOf(connection);
    if (at >= 0) this.#free.splice(at, 1);
    const { job } = connection;
    if (job === undefined) return;
    this.#tally.unanswered(connection, job);
    this.#note(job, FATE.unanswered);
    this.#queue.unshift(job);
    this.#pump();
  }

  answered(connection, { status, code, retryAfterMs }) {
    const { job } = connection;
    // A connection that was never used is answered 408 before it is closed, which the collector does not
    // count.
    if (job === undefined) return;
    connection.job = undefined;
    const now = performance.now();
    const isExpected = code === SORTS[job.sort];
    this.#tally.answered(connection, job, code, now);
    if (isExpected && status === 201) {
      this.#note(job, FATE.accepted);
      this.newestAccepted = Math.max(this.newestAccepted, performance.timeOrigin + job.sentAt);
      return this.free(connection);
    }
    this.#note(job, FATE.refused);
    if (isExpected) return this.free(connection);
    if (code === 'key_revoked') {
      // Its owner has to give it another key; until then it keeps what it has, and tries now and then.
      this.revoked = true;
      this.#queue.unshift(job);
      return this.#rest(connection, REVOKED_REST_MS);
    }
    if (AGAIN.has(status)) this.#queue.unshift(job);
    else this.#tally.unexpected(job, status, code);
    this.#rest(connection, retryAfterMs || REST_MS);
  }

  /**
   * What its fate says is of the event; a contradiction of it, or nothing that was an event, changes none.
   */
  #note({ sort, number }, fate) {
    if (sort === 'event' || sort === 'repeat') this.fates.note(number, fate);
  }

  #rest(connection, ms) {
    const { ended } = connection;
    setTimeout(() => {
      // One that has ended meanwhile is free once it is open again: two requests would be under way on it at
      // a time.
      if (connection.ended === ended && !this.#free.includes(connection)) this.free(connection);
    }, ms);
  }

  #gap() {
    return (-Math.log(1 - Math.random()) / this.#rate) * 1000;
  }

  #pump() {
    while (this.#free.length > 0) {
      const job =
        this.#queue.shift() ?? (this.#rate === Infinity ? this.nextJob(performance.now()) : undefined);
      if (job === undefined) return;
      const connection = this.#free.pop();
      this.#tally.sent(connection, job);
      connection.send(job, this.#request(job));
    }
  }

  #request({ sort, number }) {
    const events = this.#events;
    const body =
      sort === 'conflict'
        ? events.contradiction(this.#index, number)
        : sort === 'faulty'
          ? events.faulty(this.#index, number)
          : events.body(this.#index, number);
    const key = sort === 'stranger' ? `${this.#key.slice(0, -4)}AAAA` : this.#key;
    return (
      `POST /event/${events.kindOf(number)} HTTP/1.1\r\nHost: collector.test\r\nContent-Type: application/json\r\n` +
      `X-API-Key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    );
  }
}

/**
 * Of the places in a run of five: `outcome`, which its key may send, and `user-feedback`, which it may not.
 */
const [MAY, MAY_NOT] = [3, 4];

/**
 * An application that does everything wrong in turn, over one connection, so that each comes when what it
 * refers to is stored: an event, that event again, another one under its id, one that is none, one of a kind
 * that its key may not send, and one with a key that is none.
 */
export class FaultySender extends Sender {
  #made = 0;

  nextJob(due) {
    const names = Object.keys(SORTS);
    const round = Math.floor(this.#made / names.length);
    const sort = names[this.#made++ % names.length];
    // Two runs a round: the event itself and what is said about it; and what must never be stored.
    const isAboutOne = sort === 'event' || sort === 'repeat' || sort === 'conflict';
    const run = 4 * round + (isAboutOne ? 0 : sort === 'faulty' ? 1 : sort === 'forbidden' ? 2 : 3);
    return { number: run * 5 + (sort === 'forbidden' ? MAY_NOT : MAY), sort, due, sentAt: 0 };
  }
}
