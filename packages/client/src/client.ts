/** The client: one for a process, made once, closed at its end. */
import { clearInterval, clearTimeout, setInterval, setTimeout } from 'node:timers';
import type { EventKind, Profile } from '@clinical-events/protocol';
import { Capture, type Outcome } from './capture.js';
import { EventMaker } from './event.js';
import { unknownName } from './hostile-values.js';
import { listening, withReason } from './listeners.js';
import { checkChoices, type ClientOptions, contentStore, destinationOf, spoolOptions } from './options.js';
import { Run, type RunDetails, RunHandle, type RunStart } from './run.js';
import { Sampler } from './sampling.js';
import { checkDestination, endpointFor } from './sending/endpoint-for.js';
import { CannotSend } from './sending/endpoint.js';
import { type Backoff, Sender, type Trace } from './sending/sender.js';
import { type Setback, setbackOf, wordsOf } from './sending/setback.js';
import { Spool, type SpooledEvent, type SpoolState } from './spool/spool.js';

/** What tests have to hurry. */
export interface SendingPace {
  readonly backoff?: Backoff | undefined;
  readonly slowMs?: number | undefined;
  readonly patienceMs?: number | undefined;
  readonly settleMs?: number | undefined;
}

export interface ClientState extends SpoolState {
  /** Events that were not captured since the client was made. */
  readonly refused: number;
  /** Events that were deleted here since then because the collector has erased them. */
  readonly erased: number;
}

const NOTHING: SpoolState = { waiting: 0, waitingBytes: 0, quarantined: 0, cut: 0, watched: 0 };
const FLUSH_MS = 30_000;
const CLOSE_MS = 5000;
/**
 * So long `close` waits, beside that, for what was captured before it to be in the spool: for a slow bucket, say; and
 * then so long for the spool to be closed.
 */
const SETTLE_MS = 5000;
/** What sampling left out is told after so long, even when no event comes that could carry it. */
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
    const { agent, concurrency, sampling } = options;
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
    this.#opening = Spool.open(place);
    this.#capture = new Capture({
      ...{ maker, sampler, store, spool: this.#opening, onRefused, onTrouble, debug },
      writeAtEnd: (events) => Spool.crashFlush(place, events),
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
          // No one waits for it any more: it has taken too long.
          spool.close().catch((error: unknown) => onTrouble('the spool could not be closed', error));
          return;
        }
        this.#spool = spool;
        const endpoint = endpointFor({ url, apiKey, agent, patienceMs });
        const onSetback = ({ what, error }: Setback) => onTrouble(what, error);
        try {
          checkDestination({ url, apiKey });
        } catch (error) {
          // At the start already, and not only when the first event cannot be sent.
          onSetback(setbackOf(error));
        }
        this.#sender = new Sender({
          ...{ spool, endpoint, concurrency, onSetback, onTrouble, backoff, slowMs, trace: debug },
          onQuarantine: ({ kind, body }, refusal) =>
            onQuarantine({ kind, eventId: eventIdIn(body), refusal }),
        });
      },
      (error: unknown) => onTrouble('the spool cannot be used; nothing is captured', error),
    );
    if (sampler) this.#summing = setInterval(() => this.#summarise(sampler), SUMMARY_MS).unref();
  }

  /**
   * Resolves once the spool is open. Nothing has to wait for it: what is captured before waits in memory. Rejects with
   * the error of the spool when it cannot be used, and then every event is refused.
   */
  async ready(): Promise<void> {
    await this.#opening;
  }

  /** A model is called. */
  startRun(start: RunStart<P>, details: RunDetails = {}): Run<P> {
    return new Run<P>(this.#capture, start, details);
  }

  /** A run that was started elsewhere or long ago, by its id. */
  run(runId: string): RunHandle<P> {
    return new RunHandle<P>(this.#capture, runId);
  }

  /** Waits until the collector has everything, or so many milliseconds. @returns how many events still wait. */
  flush(timeoutMs = FLUSH_MS): Promise<{ waiting: number }> {
    return this.#closing ?? this.#drain(timeoutMs);
  }

  /**
   * Refuses what comes from now on, and gives the collector so many milliseconds to take what waits. What still waits
   * then stays in the spool, for the next client on the directory. What was captured before is in the spool then, or was
   * refused: also for content that could not be stored, or a spool that could not be opened, within five seconds more.
   * It does not wait for what waiting does not fix, such as a wrong key; nor longer than five seconds beside that for a
   * disk that does not answer. Does not reject.
   * @returns how many events still wait.
   */
  close(options: { readonly timeoutMs?: number } = {}): Promise<{ waiting: number }> {
    // In spite of its type: no call throws.
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

  /** Resolves once all that was captured is in the spool or refused. */
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

  /** Resolves once nothing waits any more, or with the signal; when closing, also when nothing can be sent. */
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
 * A client that captures events into a spool and sends them from there. Close it before the process ends; when that
 * does not happen, what is in a spool on the disk is sent by the next client on the same directory.
 *
 * What a deployment sets and someone can fix (address, key, directory, bucket) does not throw: it is told, and events
 * wait, or are refused where they have no place to wait.
 * @throws RangeError for what stands in the code and is none: options, spool, content, concurrency, durability, profile
 * or sampling. No other call throws.
 */
export function createClient<P extends Profile = 'minimum'>(options: ClientOptions<P>): Client<P> {
  return new Client(options);
}

/** Resolves with the promise, or after so long. What is no time is none, and a timer knows no longer one than this. */
async function within(milliseconds: number, done: Promise<unknown>): Promise<void> {
  const longest = typeof milliseconds === 'number' ? Math.min(2 ** 31 - 1, Math.max(0, milliseconds)) : 0;
  let timer: NodeJS.Timeout | undefined;
  // A timer that keeps the process alive: anyone who waits here is not to see it end.
  const passed = new Promise<void>((resolve) => (timer = setTimeout(resolve, longest || 0)));
  await Promise.race([done, passed]);
  clearTimeout(timer);
}

/* What `debug` prints: a line for each event that is captured, sent or answered, without contents. */

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

/** Undefined for what another writer has left in the directory and is no event. */
function eventIdIn(body: SpooledEvent['body']): string | undefined {
  try {
    const { event_id: id } = JSON.parse(Buffer.from(body).toString()) as { readonly event_id?: unknown };
    return typeof id === 'string' && UUID.test(id) ? id : undefined;
  } catch {
    return undefined;
  }
}

/** By the console, which survives a standard error that no one reads. */
function print(line: string): void {
  console.error(`clinical-events: ${line}`);
}

/* Clients that are open when the process ends. One listener for all: Node warns of more than ten. */

const open = new Set<() => void>();

/** @param act called at the end of the process, however it ends in code; nothing can be awaited then. */
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
      // It tells by itself what it can tell. The others have their turn, and the exit code stays what it is.
    }
  }
}
