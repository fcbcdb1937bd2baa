/** The client: one for a process, created at its start and closed at its end. */
import { clearInterval, clearTimeout, setInterval, setTimeout } from 'node:timers';
import type { EventKind, Profile } from '@clinical-events/protocol';
import { Capture, type Outcome } from './capture.js';
import { EventMaker } from './event.js';
import { unknownName } from './hostile-values.js';
import { listening, withReason } from './listeners.js';
import { checkChoices, type ClientOptions, contentStore, destinationOf, spoolOptions } from './options.js';
import { Run, type RunDetails, RunHandle, type RunStart } from './run.js';
import { Sampler } from './sampling.js';
import { CannotSend } from './sending/dial.js';
import { Endpoint } from './sending/endpoint.js';
import { type Backoff, Sender, type Trace } from './sending/sender.js';
import { type Setback, setbackOf, wordsOf } from './sending/setback.js';
import { crashFlush } from './spool/crash-flush.js';
import { openSpool } from './spool/disk-spool.js';
import type { Spool, SpooledEvent, SpoolState } from './spool/spool.js';

/** Shorter times for tests. */
export interface SendingPace {
  readonly backoff?: Backoff | undefined;
  readonly slowMs?: number | undefined;
  readonly patienceMs?: number | undefined;
  readonly settleMs?: number | undefined;
}

export interface ClientState extends SpoolState {
  /** Events that were not captured since the client was created. */
  readonly refused: number;
  /** Events deleted since the client was created because the collector has erased them. */
  readonly erased: number;
}

const NOTHING: SpoolState = { waiting: 0, waitingBytes: 0, quarantined: 0, cut: 0, watched: 0 };
const FLUSH_MS = 30_000;
const CLOSE_MS = 5000;
/**
 * Additional time that `close` waits for captured events to reach the spool, and again for the spool to
 * close.
 */
const SETTLE_MS = 5000;
/** Interval after which the counts of sampling are sent in a separate event. */
const SUMMARY_MS = 60_000;

export class Client<P extends Profile = 'minimum'> {
  readonly #capture: Capture;
  readonly #opening: Promise<Spool>;
  readonly #summing: NodeJS.Timeout | undefined;
  readonly #settleMs: number;
  readonly #onTrouble: (what: string, error: unknown) => void;
  readonly #lastGasp: () => void;
  #gaveUpOpening = false;
  #spool: Spool | undefined;
  #sender: Sender | undefined;
  #closing: Promise<{ waiting: number }> | undefined;

  /** @internal See `createClient`. */
  constructor(options: ClientOptions<P>, pace: SendingPace = {}) {
    checkChoices(options);
    const { url, apiKey } = destinationOf(options);
    const { tls, proxy, concurrency, sampling } = options;
    const debug = options.debug === true ? debugging() : undefined;
    const spoolAt = spoolOptions(options.spool);
    const { onTrouble, onRefused, onQuarantine, ending } = listening(
      options,
      spoolAt.durability === 'memory' ? undefined : spoolAt.directory,
    );
    const place = { ...spoolAt, onTrouble };
    const maker = new EventMaker(options.app ?? {}, options.validate ?? 'minimum', options.maxEventBytes);
    const sampler = sampling === undefined ? undefined : new Sampler(sampling, { onTrouble });
    const store = contentStore(options.content);
    const { patienceMs, backoff, slowMs, settleMs = SETTLE_MS } = pace;
    this.#settleMs = settleMs;
    this.#onTrouble = onTrouble;
    this.#opening = openSpool(place);
    this.#capture = new Capture({
      ...{ maker, sampler, store, spool: this.#opening, onRefused, onTrouble, debug },
      writeAtEnd: (events) => crashFlush(place, events),
    });
    this.#lastGasp = () => {
      ending();
      this.#capture.end();
      const { waiting = 0 } = this.#spool?.state ?? {};
      if (place.durability !== 'memory' || waiting === 0) return;
      onTrouble(`${waiting} events are lost: the spool was in memory only`, undefined);
    };
    atExit(this.#lastGasp);
    this.#opening.then(
      (spool) => {
        if (this.#gaveUpOpening) {
          // `close` has already returned.
          spool.close().catch((error: unknown) => onTrouble('the spool could not be closed', error));
          return;
        }
        this.#spool = spool;
        const endpoint = new Endpoint({ url, apiKey, tls, proxy, patienceMs });
        const onSetback = ({ what, error }: Setback) => onTrouble(what, error);
        try {
          endpoint.check();
        } catch (error) {
          // Report at the start, before the first event.
          onSetback(setbackOf(error));
        }
        this.#sender = new Sender({
          ...{ spool, endpoint, concurrency, onSetback, onTrouble, backoff, slowMs, trace: debug },
          onQuarantine: ({ kind, body }, refusal) =>
            onQuarantine({ kind, eventId: eventIdIn(body), refusal }),
        });
      },
      (error: unknown) => onTrouble('the spool cannot be used; no events are captured', error),
    );
    if (sampler) this.#summing = setInterval(() => this.#summarise(sampler), SUMMARY_MS).unref();
  }

  /**
   * Resolves once the spool is open. Optional: events captured earlier wait in memory. Rejects if the spool
   * cannot be used; then every event is refused.
   */
  async ready(): Promise<void> {
    await this.#opening;
  }

  /** Begins a run: a model is called. */
  startRun(start: RunStart<P>, details: RunDetails = {}): Run<P> {
    return new Run<P>(this.#capture, start, details);
  }

  /** A run that began elsewhere or earlier, by its id. */
  run(runId: string): RunHandle<P> {
    return new RunHandle<P>(this.#capture, runId);
  }

  /**
   * Waits until the collector has stored all events, or for the timeout.
   * @returns the number of waiting events.
   */
  flush(timeoutMs = FLUSH_MS): Promise<{ waiting: number }> {
    return this.#closing ?? this.#drain(timeoutMs);
  }

  /**
   * Refuses later events, and sends waiting events until the timeout; the rest stays in the spool for the
   * next client on the directory. Stops earlier if a problem such as a wrong key prevents sending. Waits five
   * more seconds for content and a spool that is opening, and five for a disk that hangs. On return every
   * captured event is in the spool or refused. Does not reject.
   * @returns the number of waiting events.
   */
  close(options: { readonly timeoutMs?: number } = {}): Promise<{ waiting: number }> {
    // Null violates the type, but no call may throw.
    const given = (options as typeof options | null) ?? {};
    const slip = unknownName('the options of close', given, ['timeoutMs']);
    if (slip !== undefined) this.#onTrouble(slip, undefined);
    const { timeoutMs = CLOSE_MS } = given;
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  get state(): ClientState {
    const { refused, queue } = this.#capture;
    const { waiting, waitingBytes, oldest, ...others }: SpoolState = this.#spool?.state ?? NOTHING;
    const first = queue.oldest === undefined ? undefined : new Date(queue.oldest).toISOString();
    const [earliest] = [oldest, first].filter((at) => at !== undefined).sort();
    return {
      ...{ ...others, waiting: waiting + queue.waiting, waitingBytes: waitingBytes + queue.bytes, refused },
      erased: this.#sender?.erased ?? 0,
      ...(earliest !== undefined && { oldest: earliest }),
    };
  }

  async #close(timeoutMs: number): Promise<{ waiting: number }> {
    clearInterval(this.#summing);
    this.#capture.close();
    this.#capture.sampler?.end();
    this.#capture.summarise();
    await this.#drain(timeoutMs, true);
    await within(this.#settleMs, this.#allSettled());
    this.#gaveUpOpening = this.#spool === undefined;
    await this.#capture.giveUp();
    await within(this.#settleMs, this.#closeSpool());
    const { waiting } = this.state;
    notAtExit(this.#lastGasp);
    return { waiting };
  }

  /** Resolves once every captured event is in the spool or refused. */
  async #allSettled(): Promise<void> {
    await this.#opening.catch(() => undefined);
    await this.#capture.settled();
  }

  async #closeSpool(): Promise<void> {
    await this.#sender?.stop();
    await this.#spool?.close();
  }

  async #drain(timeoutMs: number, closing = false): Promise<{ waiting: number }> {
    const timeout = new AbortController();
    await within(timeoutMs, this.#delivered(timeout.signal, closing));
    timeout.abort();
    return { waiting: this.state.waiting };
  }

  /** Resolves once no event waits or the signal is aborted; when closing, also if nothing can be sent. */
  async #delivered(signal: AbortSignal, closing: boolean): Promise<void> {
    await this.#allSettled();
    await this.#sender?.idle(signal, closing);
    await this.#spool?.flush();
  }

  #summarise(sampler: Sampler): void {
    sampler.expire();
    if (Date.now() - sampler.omissions.since.getTime() >= SUMMARY_MS) this.#capture.summarise();
  }
}

/**
 * Creates a client that captures events in a spool and sends them. Close it before the process ends;
 * otherwise the next client on the same directory sends the rest.
 *
 * Errors of the deployment (address, key, directory, bucket) do not throw: they are reported, and events
 * wait, or are refused if the spool cannot be used.
 * @throws RangeError for errors in code: an unknown or invalid option. No other call throws.
 */
export function createClient<P extends Profile = 'minimum'>(options: ClientOptions<P>): Client<P> {
  return new Client(options);
}

/** Resolves with the promise, or after this time. Invalid times count as 0. */
async function within(milliseconds: number, done: Promise<unknown>): Promise<void> {
  const longest = typeof milliseconds === 'number' ? Math.min(2 ** 31 - 1, Math.max(0, milliseconds)) : 0;
  let timer: NodeJS.Timeout | undefined;
  // The timer keeps the process alive for the caller.
  const passed = new Promise<void>((resolve) => (timer = setTimeout(resolve, longest || 0)));
  await Promise.race([done, passed]);
  clearTimeout(timer);
}

/* `debug`: one line for each event that is captured, sent or answered, without contents. */

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface Debug extends Trace {
  captured(event: { readonly kind: EventKind; readonly eventId: string }, outcome: Promise<Outcome>): void;
}

function debugging(): Debug {
  return {
    captured({ kind, eventId }, outcome) {
      outcome.then(
        (became) => print(`captured ${kind} ${eventId}: ${became}`),
        (error: unknown) => print(withReason(`refused ${kind} ${eventId}`, error)),
      );
    },
    sent: (event) => print(`sending ${named(event)}`),
    answered: (event, answer) => {
      const { requestId } = answer;
      const request = requestId === undefined ? '' : `, request ${requestId}`;
      print(`answered ${named(event)}: ${wordsOf(answer)}${request}`);
    },
    failed: (event, error) =>
      print(
        withReason(`${error instanceof CannotSend ? 'not sent' : 'no answer to'} ${named(event)}`, error),
      ),
  };
}

function named({ kind, body }: SpooledEvent): string {
  return `${kind} ${eventIdIn(body) ?? 'without an id'}`;
}

/** Undefined if the body, which another writer may have left in the directory, is not an event. */
function eventIdIn(body: SpooledEvent['body']): string | undefined {
  try {
    const { event_id: id } = JSON.parse(Buffer.from(body).toString()) as { readonly event_id?: unknown };
    return typeof id === 'string' && UUID.test(id) ? id : undefined;
  } catch {
    return undefined;
  }
}

/** The console ignores a closed standard error. */
function print(line: string): void {
  console.error(`clinical-events: ${line}`);
}

/* Open clients at the end of the process. They share one listener, because Node warns of more than ten. */

const open = new Set<() => void>();

/** @param act called synchronously when the process exits. */
function atExit(act: () => void): void {
  if (open.size === 0) process.on('exit', actAll);
  open.add(act);
}

function notAtExit(act: () => void): void {
  open.delete(act);
  if (open.size === 0) process.off('exit', actAll);
}

function actAll(): void {
  for (const act of open) {
    try {
      act();
    } catch {
      // The other clients must still run, and the exit code must not change.
    }
  }
}
