/**
 * An application that sends events. It makes them at a fixed rate, keeps each until it is answered 201,
 * repeats it as often as necessary, and records every answer.
 */
import { Connection } from './connection.mjs';
import { FATE, Fates } from './fates.mjs';
import { JobQueue } from './job-queue.mjs';

/** Deliberately wrong requests and their correct answers. */
export const SORTS = {
  event: 'accepted',
  repeat: 'accepted',
  conflict: 'event_id_conflict',
  faulty: 'validation_failed',
  forbidden: 'permission_denied',
  stranger: 'key_invalid',
};
const AGAIN = new Set([408, 429, 500, 503]);
/** Delay of a retry if the answer has no Retry-After. */
const REST_MS = 250;
const REVOKED_REST_MS = 1000;

export class Sender {
  fates = new Fates();
  revoked = false;
  /** Time of the newest request that was answered 201, by the wall clock in milliseconds. */
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

  /** @param tally counts everything that is sent and answered. */
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

  /** Events without a 201 so far. */
  get waiting() {
    return this.#queue.size + this.#connections.filter(({ job }) => job !== undefined).length;
  }

  /** @param rate events a second; Infinity: one as soon as a connection is free. */
  begin(rate) {
    this.#rate = rate;
    this.#due = rate > 0 ? performance.now() + this.#gap() : Infinity;
    this.#pump();
  }

  /** Makes the events that are due and sends on free connections. */
  turn(now) {
    if (this.revoked || this.#rate === Infinity) return;
    for (; this.#due <= now; this.#due += this.#gap()) this.#queue.push(this.nextJob(this.#due));
    this.#pump();
  }

  sweep(now) {
    for (const connection of this.#connections) connection.sweep(now);
  }

  /** Reopens half of the connections, each when it is free. */
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
    // Before it closes an unused connection, the collector sends a 408, which it does not count.
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
      // It needs another key from its owner; until then it keeps its events and tries sometimes.
      this.revoked = true;
      this.#queue.unshift(job);
      return this.#rest(connection, REVOKED_REST_MS);
    }
    if (AGAIN.has(status)) this.#queue.unshift(job);
    else this.#tally.unexpected(job, status, code);
    this.#rest(connection, retryAfterMs || REST_MS);
  }

  /**
   * Records the outcome of an event. A contradiction of an event, or an invalid event, changes no outcome.
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
 * Positions in a run of five events: `outcome`, which its key may send, and `user-feedback`, which it may
 * not.
 */
const [MAY, MAY_NOT] = [3, 4];

/**
 * An application that does everything wrong in turn, over one connection, so that the order is fixed: an
 * event, its repeat, another event with its id, an invalid event, a kind that its key may not send, and a
 * wrong key.
 */
export class FaultySender extends Sender {
  #made = 0;

  nextJob(due) {
    const names = Object.keys(SORTS);
    const round = Math.floor(this.#made / names.length);
    const sort = names[this.#made++ % names.length];
    // Two runs in each round: one for the event and its repeats, one for what must not be stored.
    const isAboutOne = sort === 'event' || sort === 'repeat' || sort === 'conflict';
    const run = 4 * round + (isAboutOne ? 0 : sort === 'faulty' ? 1 : sort === 'forbidden' ? 2 : 3);
    return { number: run * 5 + (sort === 'forbidden' ? MAY_NOT : MAY), sort, due, sentAt: 0 };
  }
}
