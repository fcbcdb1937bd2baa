/** The client: one for a process, made once, closed at its end. */
import type { Agent } from 'node:http';
import type { Profile } from '@clinical-events/protocol';
import { Capture } from './capture.js';
import { ContentBucket, type BucketOptions } from './content/content-bucket.js';
import { ContentDirectory } from './content/content-directory.js';
import type { ContentStore } from './content/content-store.js';
import { EventMaker, type EventSource } from './event.js';
import { listening, type Listeners } from './listeners.js';
import { Run, RunHandle, type RunDetails, type RunStart } from './run.js';
import { Sampler } from './sampling/sampler.js';
import type { Sampling } from './sampling/sampling.js';
import type { Backoff } from './sending/backoff.js';
import { checkDestination, endpointFor } from './sending/endpoint-for.js';
import { Sender } from './sending/sender.js';
import { setbackOf, type Setback } from './sending/setback.js';
import { Spool, type Durability, type SpooledEvent, type SpoolState } from './spool/spool.js';

export interface SpoolPlace {
  /** A directory of the application's own; several processes may share it. Not needed with `memory`. */
  readonly directory?: string | undefined;
  /** When an event is captured: `fsync` when not given. */
  readonly durability?: Durability | undefined;
  /** 32 bytes; given, what lies on the disk is sealed by AES-256-GCM. */
  readonly key?: Uint8Array | undefined;
  /** What would take the spool beyond so many bytes is refused; 8 GiB. */
  readonly maxBytes?: number | undefined;
}

export interface ClientOptions<P extends Profile = 'minimum'> extends Listeners {
  /** Where the collector is: http or https. */
  readonly url: string | URL;
  /** A function is asked before every request, so that a key can be exchanged while the application runs. */
  readonly apiKey: string | (() => string);
  /** Where events wait until the collector has them. A text is a directory. */
  readonly spool: string | SpoolPlace;
  /** What events say of where they come from. Host name and process id are filled in. */
  readonly app?: EventSource | undefined;
  /** What is asked of an event before it is captured: the profile of the API key. `minimum` when not given. */
  readonly validate?: P | undefined;
  /** Which runs are captured; all when not given. */
  readonly sampling?: Sampling | undefined;
  /** Where the content is kept that events refer to: a directory, a bucket, or a store of one's own. */
  readonly content?: string | BucketOptions | ContentStore | undefined;
  /** How many events are sent at a time; 128. */
  readonly concurrency?: number | undefined;
  /** For a proxy, or certificates of one's own. */
  readonly agent?: Agent | undefined;
}

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
}

const FLUSH_MS = 30_000;
const CLOSE_MS = 5000;
/** So long `close` waits, beside that, for what was captured before it to be in the spool: for a slow bucket, say. */
const SETTLE_MS = 5000;
/** What sampling left out is told after so long, even when no event comes that could carry it. */
const SUMMARY_MS = 60_000;

export class Client<P extends Profile = 'minimum'> {
  readonly #capture: Capture;
  readonly #opening: Promise<Spool>;
  readonly #summing: NodeJS.Timeout | undefined;
  readonly #settleMs: number;
  #spool: Spool | undefined;
  #sender: Sender | undefined;
  #closing: Promise<{ waiting: number }> | undefined;

  /** @internal See `createClient`. */
  constructor(options: ClientOptions<P>, pace: SendingPace = {}) {
    checkChoices(options);
    const { url, apiKey, agent, concurrency, sampling } = options;
    const listeners = listening(options);
    const { onTrouble, onRefused, onQuarantine } = listeners;
    const place = typeof options.spool === 'string' ? { directory: options.spool } : options.spool;
    const maker = new EventMaker(options.app ?? {}, options.validate ?? 'minimum');
    const sampler = sampling && new Sampler(sampling, { onTrouble });
    const store = contentStore(options.content);
    const { patienceMs, backoff, slowMs, settleMs = SETTLE_MS } = pace;
    this.#settleMs = settleMs;
    this.#opening = openSpool(place, onTrouble);
    this.#capture = new Capture({ maker, sampler, store, spool: this.#opening, onRefused });
    this.#opening.then(
      (spool) => {
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
          ...{ spool, endpoint, concurrency, onSetback, onTrouble, backoff, slowMs },
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
   * refused: also for content that could not be stored within five seconds more. Does not reject.
   * @returns how many events still wait.
   */
  close({ timeoutMs = CLOSE_MS }: { readonly timeoutMs?: number } = {}): Promise<{ waiting: number }> {
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  get state(): ClientState {
    const { refused } = this.#capture;
    return { ...(this.#spool?.state ?? { waiting: 0, waitingBytes: 0, quarantined: 0 }), refused };
  }

  async #close(timeoutMs: number): Promise<{ waiting: number }> {
    clearInterval(this.#summing);
    this.#capture.close();
    this.#capture.sampler?.end();
    this.#capture.summarise();
    await this.#drain(timeoutMs);
    await this.#opening.catch(() => undefined);
    await within(this.#settleMs, this.#capture.settled());
    await this.#capture.giveUp();
    await this.#sender?.stop();
    await this.#spool?.flush();
    const waiting = this.#spool?.state.waiting ?? 0;
    await this.#spool?.close();
    return { waiting };
  }

  async #drain(timeoutMs: number): Promise<{ waiting: number }> {
    const timeout = new AbortController();
    await within(timeoutMs, this.#delivered(timeout.signal));
    timeout.abort();
    return { waiting: this.#spool?.state.waiting ?? 0 };
  }

  /** Resolves once nothing waits any more, or with the signal. */
  async #delivered(signal: AbortSignal): Promise<void> {
    await this.#opening.catch(() => undefined);
    await this.#capture.settled();
    await this.#sender?.idle(signal);
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
 * What a deployment sets and somebody can mend (address, key, directory, bucket) does not throw: it is told, and events
 * wait, or are refused where they have no place to wait.
 * @throws RangeError for a concurrency, durability, profile or sampling that does not exist. No other call throws.
 */
export function createClient<P extends Profile = 'minimum'>(options: ClientOptions<P>): Client<P> {
  return new Client(options);
}

/** Resolves with the promise, or after so long. */
async function within(milliseconds: number, done: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  // A timer that keeps the process alive: whoever waits here is not to see it end.
  const passed = new Promise<void>((resolve) => (timer = setTimeout(resolve, milliseconds)));
  await Promise.race([done, passed]);
  clearTimeout(timer);
}

/** Those of the code, which are wrong at the first start or never. @throws RangeError */
function checkChoices({ concurrency = 1, validate = 'minimum', spool }: ClientOptions<Profile>): void {
  const durability = (typeof spool === 'object' && spool.durability) || 'fsync';
  if (!(Number.isInteger(concurrency) && concurrency >= 1)) {
    throw new RangeError('concurrency is a whole number from 1 on');
  }
  if (!['minimum', 'full'].includes(validate)) throw new RangeError('validate is minimum or full');
  // A slip must not weaken what is promised of an event.
  if (!['fsync', 'os', 'memory'].includes(durability)) {
    throw new RangeError('durability is fsync, os or memory');
  }
}

async function openSpool(
  { directory, durability = 'fsync', key, maxBytes }: SpoolPlace,
  onTrouble: (what: string, error: unknown) => void,
): Promise<Spool> {
  return Spool.open({
    ...{ directory, durability, onTrouble },
    ...(key && { key }),
    ...(maxBytes !== undefined && { maxBytes }),
  });
}

function contentStore(content: ClientOptions['content']): ContentStore | undefined {
  if (content === undefined) return undefined;
  if (typeof content === 'string') return new ContentDirectory(content);
  return 'bucket' in content ? new ContentBucket(content) : content;
}

/** Undefined for what another writer has left in the directory and is no event. */
function eventIdIn(body: SpooledEvent['body']): string | undefined {
  try {
    const event = JSON.parse(Buffer.from(body).toString()) as { readonly event_id: string };
    return event.event_id;
  } catch {
    return undefined;
  }
}
