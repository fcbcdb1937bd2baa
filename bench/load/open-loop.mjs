/**
 * An open-loop generator: events are due at a fixed rate, whether earlier ones were answered or not. A
 * process of its own (lib/open-loop.mjs starts it). `argv[2]` has port, keys and connections; each line of
 * standard input is a step,
 * `{ seconds, rates, patient }`, and is answered by a line with its results.
 *
 * Arrivals are random (Poisson). Each takes a free connection, and its latency counts from the time when it
 * was due. If no connection is free it is `held`: counted, and never sent. `patient` clients respect Retry-
 * After; the others send again immediately.
 */
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

const { port, path, shape, senders } = JSON.parse(process.argv[2]);
const TICK_MS = 1;
/** Time for the last answers after the end of a step. */
const PATIENCE_MS = 3000;

const HEX = Array.from({ length: 0x10000 }, (_, i) => i.toString(16).padStart(4, '0'));
const group = (from, size) => HEX[from + Math.floor(Math.random() * size)];
const any = () => group(0, 0x10000);
function randomId() {
  return `${any()}${any()}-${any()}-${group(0x4000, 0x1000)}-${group(0x8000, 0x4000)}-${any()}${any()}${any()}`;
}

const CLOSING_BRACE = 0x7d;

/** One buffer for all sockets: its contents are read before the next socket uses it. */
const BUFFER = Buffer.allocUnsafe(64 << 10);

function quantiles(list) {
  const sorted = Float64Array.from(list).sort();
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
  return { count: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: sorted.at(-1) };
}

class Sender {
  /** A whole request, but for the id. */
  #request;
  #idAt;
  #free = [];
  #next = Infinity;
  #rate = 0;

  constructor({ key, connections }) {
    const body = `${shape.before}${randomId()}${shape.middle}${'x'.repeat(shape.padding)}${shape.after}`;
    const head =
      `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
      `X-API-Key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n`;
    this.#request = Buffer.from(head + body, 'latin1');
    this.#idAt = head.length + shape.before.length;
    this.begin(0);
    for (let i = 0; i < connections; i++) this.#open();
  }

  begin(rate) {
    this.#rate = rate;
    this.#next = rate > 0 ? performance.now() + this.#gap() : Infinity;
    this.seen = { offered: 0, held: 0, cutOff: 0, withoutRetryAfter: 0, waiting: 0 };
    this.answers = {};
    this.acceptedInSecond = [];
    this.begunAt = performance.now();
    this.late = [];
  }

  result() {
    const answers = Object.fromEntries(
      Object.entries(this.answers).map(([status, times]) => [status, quantiles(times)]),
    );
    const acceptedInSecond = Array.from(this.acceptedInSecond, (count) => count ?? 0);
    return { ...this.seen, answers, acceptedInSecond, lateMs: quantiles(this.late) };
  }

  #gap() {
    return (-Math.log(1 - Math.random()) / this.#rate) * 1000;
  }

  #open() {
    // Each connection has its own request, in which only the id changes: an unfinished write still reads it.
    const request = Buffer.from(this.#request);
    const connection = { socket: undefined, request, since: 0, step: undefined, partial: '' };
    connection.socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: BUFFER,
        callback: (length, buffer) => {
          this.#read(connection, buffer, length);
          return true;
        },
      },
    });
    connection.socket.on('connect', () => this.#free.push(connection));
    connection.socket.on('error', () => undefined);
    connection.socket.on('close', () => {
      const at = this.#free.indexOf(connection);
      if (at >= 0) this.#free.splice(at, 1);
      if (connection.since > 0 && connection.step === this.seen) this.seen.cutOff++;
      if (!ending) setTimeout(() => this.#open(), 10);
    });
  }

  #use(connection) {
    if (!connection.socket.destroyed) this.#free.push(connection);
  }

  /** An answer ends with the closing brace of its body. Nearly all arrive in one piece. */
  #read(connection, buffer, length) {
    const whole = connection.partial + buffer.latin1Slice(0, length);
    if (buffer[length - 1] !== CLOSING_BRACE || !whole.includes('\r\n\r\n')) {
      connection.partial = whole;
      return;
    }
    connection.partial = '';
    const now = performance.now();
    const { since, step } = connection;
    connection.since = 0;
    const status = whole.slice(9, 12);
    const retryAfter = status === '201' ? undefined : /\r\nRetry-After: (\d+)/.exec(whole)?.[1];
    if (patient && retryAfter !== undefined)
      setTimeout(() => this.#use(connection), Number(retryAfter) * 1000);
    else this.#use(connection);
    // Answers to an earlier step are not counted.
    if (step !== this.seen) return;
    this.seen.waiting--;
    (this.answers[status] ??= []).push(now - since);
    if (status === '201') {
      const second = Math.floor((now - this.begunAt) / 1000);
      this.acceptedInSecond[second] = (this.acceptedInSecond[second] ?? 0) + 1;
    } else if (retryAfter === undefined) this.seen.withoutRetryAfter++;
  }

  /** Sends the events that are due. */
  turn(now) {
    while (this.#next <= now) {
      const since = this.#next;
      this.#next += this.#gap();
      this.seen.offered++;
      const connection = this.#free.shift();
      if (connection === undefined) {
        this.seen.held++;
        continue;
      }
      connection.since = since;
      connection.step = this.seen;
      this.seen.waiting++;
      this.late.push(performance.now() - since);
      connection.request.latin1Write(randomId(), this.#idAt);
      connection.socket.write(connection.request);
    }
  }
}

let ending = false;
let patient = true;
const named = Object.entries(senders).map(([name, sender]) => [name, new Sender(sender)]);

function step({ seconds, rates, patient: isPatient = true }) {
  patient = isPatient;
  const cpu = process.cpuUsage();
  for (const [name, sender] of named) sender.begin(rates[name] ?? 0);
  const begun = performance.now();
  const until = begun + seconds * 1000;
  const turn = () => {
    const now = performance.now();
    for (const [, sender] of named) sender.turn(Math.min(now, until));
    const open = named.some(([, sender]) => sender.seen.waiting > 0);
    if (now < until || (open && now < until + PATIENCE_MS)) return setTimeout(turn, TICK_MS);
    const { user, system } = process.cpuUsage(cpu);
    const generatorCpu = (user + system) / 1e6 / ((now - begun) / 1000);
    const of = Object.fromEntries(named.map(([name, sender]) => [name, sender.result()]));
    process.stdout.write(`${JSON.stringify({ seconds, generatorCpu, senders: of })}\n`);
    for (const [, sender] of named) sender.begin(0);
  };
  turn();
}

createInterface({ input: process.stdin })
  .on('line', (line) => step(JSON.parse(line)))
  .on('close', () => {
    ending = true;
    process.exit();
  });
