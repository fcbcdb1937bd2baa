/**
 * The path from a call to the spool: sampling decides, the event is encoded, its content is stored, and it is
 * appended. Only the encoding happens during the call, so later changes to the caller's objects do not change
 * the event.
 */
import type { EventKind, ModelInstance } from '@clinical-events/protocol';
import { type ContentStore, contentUri, copyOf, sha256Of } from './content/content-store.js';
import { ClientClosed, ContentNotStored, type EventDetails, EventInvalid, type EventMaker } from './event.js';
import type { RefusedCapture } from './listeners.js';
import type { JudgedEvent, NotCaptured, SampledRun, Sampler } from './sampling.js';
import type { UnspooledEvent } from './spool/crash-flush.js';
import { type Spool, SpoolFull, SpoolUnwritable } from './spool/spool.js';

type Payload = Readonly<Record<string, unknown>>;

export interface NewEvent {
  readonly kind: EventKind;
  readonly eventId: string;
  readonly runId: string | undefined;
  readonly model: ModelInstance;
  readonly sampled: SampledRun | undefined;
  readonly details: EventDetails;
  /** Text or bytes that the event refers to, stored before the event is captured. */
  readonly content: unknown;
  /** The error if the caller's arguments are invalid. */
  readonly fault: EventInvalid | undefined;
  /** The payload, with the URI of the content if there is one. */
  readonly payload: (contentUri: string | undefined) => Payload;
}

export interface CaptureParts {
  readonly maker: EventMaker;
  readonly sampler: Sampler | undefined;
  readonly store: ContentStore | undefined;
  /** Rejects if the spool cannot be used. */
  readonly spool: Promise<Spool>;
  /**
   * Writes events synchronously at the end of the process.
   * @returns the number of events kept, from the first.
   */
  readonly writeAtEnd: (events: readonly UnspooledEvent[]) => {
    readonly kept: number;
    readonly error: unknown;
  };
  readonly onRefused: (refused: RefusedCapture) => void;
  readonly onTrouble: (what: string, error: unknown) => void;
  readonly debug?:
    | {
        captured(
          event: { readonly kind: EventKind; readonly eventId: string },
          outcome: Promise<Outcome>,
        ): void;
      }
    | undefined;
}

type Watched = Pick<NewEvent, 'kind' | 'eventId'>;

const HELD: Promise<Outcome> = Promise.resolve('held');
const LEFT_OUT: Promise<Outcome> = Promise.resolve('left out');
const DURABLE: Promise<Outcome> = Promise.resolve('durable');

export class Capture {
  readonly maker: EventMaker;
  readonly sampler: Sampler | undefined;
  /** Events that were not captured. */
  refused = 0;
  readonly #parts: CaptureParts;
  #spool: Spool | undefined;
  #closed = false;
  readonly #pending = new Set<Promise<unknown>>();
  readonly #queue = new PendingQueue();
  /** For each event that waits for its content or for the spool: a function that refuses it. */
  readonly #waiting = new Set<() => void>();
  #ended = false;
  /** Events written together share one outcome. For each, only kind and id are kept, for `onRefused`. */
  #together: { readonly outcome: Promise<Outcome>; readonly events: Watched[] } | undefined;

  constructor(parts: CaptureParts) {
    this.#parts = parts;
    this.maker = parts.maker;
    this.sampler = parts.sampler;
    parts.spool.then(
      (spool) => (this.#spool = spool),
      () => undefined,
    );
  }

  capture(event: NewEvent): Captured {
    const outcome = this.#decide(event);
    this.#watch(event, outcome);
    return new Captured(event.eventId, outcome);
  }

  /** Captures an event with the counts of sampling, if there are any. */
  summarise(): void {
    const { sampler, maker } = this;
    if (!sampler?.omissions.some) return;
    const eventId = maker.newId();
    const artifact = {
      artifact_type: 'other',
      artifact_uri: `urn:uuid:${eventId}`,
      description: 'Number of runs and events that sampling omitted: see system_metadata of this event.',
    };
    const event = { kind: 'internal-artifact' as const, eventId };
    const notCaptured = sampler.omissions.take();
    const summary = { ...event, runId: undefined, payload: { artifact }, details: {} };
    const outcome = this.#withCounts(notCaptured, () => {
      const body = maker.finish({ ...summary, marks: { not_captured: notCaptured } });
      return this.#append(event.kind, body, undefined);
    });
    this.#watch(event, outcome);
  }

  /** Refuses later events. */
  close(): void {
    this.#closed = true;
  }

  /** On return all captured events are in the spool or refused. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  /** Captured events that are not in the spool. */
  get queue(): Pick<PendingQueue, 'waiting' | 'bytes' | 'oldest'> {
    return this.#queue;
  }

  /**
   * Refuses events that wait for their content or for the spool. On return all events are in the spool or
   * refused.
   */
  async giveUp(): Promise<void> {
    for (const refuse of this.#waiting) refuse();
    await this.settled();
  }

  /**
   * At the end of the process: writes these and later events synchronously, and reports how many are lost.
   */
  end(): void {
    this.#ended = true;
    this.#writeQueue();
    this.sampler?.end();
    this.summarise();
  }

  #decide(event: NewEvent): Promise<Outcome> {
    try {
      if (event.fault) throw event.fault;
      if (this.#closed) throw new ClientClosed('the client is closed');
      return this.#decided(event);
    } catch (error) {
      const refusal = error as Error;
      return Promise.reject(refusal);
    }
  }

  #decided(event: NewEvent): Promise<Outcome> {
    const { kind, eventId, runId, model, sampled, details } = event;
    const content = contentOf(event);
    const payload = payloadOf(event, content && contentUri(content.sha256));
    const judged = { kind, eventId, runId: runId ?? eventId, model, payload } as JudgedEvent;
    const { decision, marks: sampling } = this.sampler?.judge(sampled, judged) ?? { decision: 'captured' };
    const finish = (more: Payload) =>
      this.maker.finish({
        ...{ kind, eventId, runId, payload, details },
        marks: { ...(sampling && { sampling }), ...more },
      });
    if (decision === 'captured') {
      const { omissions } = this.sampler ?? {};
      if (!omissions?.some) return this.#append(kind, finish({}), content);
      const notCaptured = omissions.take();
      return this.#withCounts(notCaptured, () =>
        this.#append(kind, finish({ not_captured: notCaptured }), content),
      );
    }
    // Omitted events are validated too, so that errors of the application are found early.
    const body = finish({});
    if (decision === 'held' && sampled) {
      const bytes = body.length + (content?.bytes.length ?? 0);
      const release = () => {
        this.#watch({ kind, eventId }, this.#append(kind, body, content));
      };
      this.sampler?.hold(sampled, judged, bytes, release);
      return HELD;
    }
    this.sampler?.leaveOut(judged);
    return LEFT_OUT;
  }

  /** Returns the counts to the sampler if the event that carries them is not captured. */
  async #withCounts(counts: NotCaptured, act: () => Promise<Outcome>): Promise<Outcome> {
    try {
      return await act();
    } catch (error) {
      this.sampler?.omissions.putBack(counts);
      throw error;
    }
  }

  #append(kind: EventKind, body: Uint8Array, content: Content | undefined): Promise<Outcome> {
    if (this.#ended) return this.#appendAtEnd(kind, body, content);
    // The common case creates no promise per event.
    if (this.#spool && !content) return this.#spool.append(kind, body);
    return this.#appendLater(kind, body, content);
  }

  async #appendLater(kind: EventKind, body: Uint8Array, content: Content | undefined): Promise<Outcome> {
    const waiting = this.#queue.add(kind, body, content);
    let appended: Promise<Outcome>;
    try {
      if (content) await this.#store(content);
      const spool = this.#spool ?? (await this.#opened());
      // Not awaited: the spool limits the events that wait for the disk.
      appended = spool.append(kind, body);
    } finally {
      this.#queue.remove(waiting);
    }
    return appended;
  }

  async #store({ bytes, sha256 }: Content): Promise<void> {
    const { store } = this.#parts;
    if (!store) throw new ContentNotStored('the client has no store for content');
    try {
      await this.#unlessGivenUp(store.put(bytes, sha256), new Error('the client was closed'));
    } catch (cause) {
      throw new ContentNotStored('the content of the event could not be stored', { cause });
    }
  }

  #opened(): Promise<Spool> {
    const late = new SpoolUnwritable('the client was closed before the spool could be opened');
    return this.#unlessGivenUp(this.#parts.spool, late);
  }

  async #unlessGivenUp<T>(done: Promise<T>, error: Error): Promise<T> {
    let refuse: () => void = () => undefined;
    const givenUp = new Promise<never>((_, reject) => {
      refuse = () => reject(error);
    });
    this.#waiting.add(refuse);
    try {
      return await Promise.race([done, givenUp]);
    } finally {
      this.#waiting.delete(refuse);
    }
  }

  #appendAtEnd(kind: EventKind, body: Uint8Array, content: Content | undefined): Promise<Outcome> {
    this.#queue.add(kind, body, content);
    return this.#writeQueue() ? DURABLE : Promise.reject(new SpoolUnwritable('the process is ending'));
  }

  /** @returns whether all events are kept. */
  #writeQueue(): boolean {
    const events = this.#queue.takeAll();
    if (events.length === 0) return true;
    let error: unknown;
    const stored = events.filter(({ content }) => {
      try {
        if (content) this.#storeNow(content);
        return true;
      } catch (reason) {
        error ??= reason;
        return false;
      }
    });
    const written = stored.length > 0 ? this.#parts.writeAtEnd(stored) : { kept: 0, error: undefined };
    const lost = events.length - written.kept;
    if (lost === 0) return true;
    this.refused += lost;
    const what = `${lost} captured events were lost at the end of the process`;
    this.#parts.onTrouble(what, written.error ?? error);
    return false;
  }

  /** @throws the error of the store, or ContentNotStored if it has no synchronous method. */
  #storeNow({ bytes, sha256 }: Content): void {
    const { store } = this.#parts;
    if (!store?.putNow) throw new ContentNotStored('this store cannot be used at the end of the process');
    store.putNow(bytes, sha256);
  }

  #watch({ kind, eventId }: Watched, outcome: Promise<Outcome>): void {
    this.#parts.debug?.captured({ kind, eventId }, outcome);
    if (outcome === this.#together?.outcome) {
      this.#together.events.push({ kind, eventId });
      return;
    }
    const watched = { outcome, events: [{ kind, eventId }] };
    const settled = () => {
      this.#pending.delete(outcome);
      if (this.#together === watched) this.#together = undefined;
    };
    this.#together = watched;
    this.#pending.add(outcome);
    outcome.then(settled, (error: unknown) => {
      settled();
      for (const refused of watched.events) {
        this.refused++;
        this.#parts.onRefused({ ...refused, error });
      }
    });
  }
}

/** @throws EventInvalid in place of an error of the caller's objects, which may contain values. */
function payloadOf(event: NewEvent, uri: string | undefined): Payload {
  try {
    return event.payload(uri);
  } catch {
    throw new EventInvalid('not_json', 'the payload of the event cannot be read');
  }
}

/** @throws ContentNotStored if the content is neither a string nor a Uint8Array. */
function contentOf({ content }: NewEvent): Content | undefined {
  if (content === undefined) return undefined;
  const bytes = copyOf(content);
  if (!bytes) throw new ContentNotStored('content must be a string or a Uint8Array, such as a Buffer');
  return { bytes, sha256: sha256Of(bytes) };
}

/**
 * Outcome of a capture. `durable`: the event is in the spool, as durable as the mode says. `held`: its run
 * was not sampled, and the event waits in memory in case the run proves risky. `left out`: sampling omitted
 * the event.
 */
export type Outcome = 'durable' | 'held' | 'left out';

/**
 * A capture in progress. It can be awaited. If it is not, a refusal is not an unhandled rejection;
 * `onRefused` is called in either case.
 */
export class Captured implements PromiseLike<Outcome> {
  /** Available immediately, and never reused. */
  readonly eventId: string;
  readonly #outcome: Promise<Outcome>;

  /** @param outcome shared by events; its rejection is handled elsewhere. */
  constructor(eventId: string, outcome: Promise<Outcome>) {
    this.eventId = eventId;
    this.#outcome = outcome;
  }

  /**
   * Resolves once the event is durable, or sampling has decided. Rejects with EventInvalid, ContentNotStored,
   * ClientClosed, SpoolFull or SpoolUnwritable if the event is not captured. If SpoolUnwritable has
   * `uncertain` set, the event may have been captured.
   */
  then<Done = Outcome, Failed = never>(
    onDone?: ((outcome: Outcome) => Done | PromiseLike<Done>) | null,
    onFailed?: ((error: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Done | Failed> {
    return this.#outcome.then(onDone, onFailed);
  }

  /** Like `Promise.prototype.catch`. */
  catch<Failed = never>(
    onFailed?: ((error: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Outcome | Failed> {
    return this.#outcome.catch(onFailed);
  }

  /** Like `Promise.prototype.finally`: the caller must handle a rejection of the returned promise. */
  finally(onSettled?: (() => void) | null): Promise<Outcome> {
    return this.#outcome.finally(onSettled);
  }
}

/** Limit of events and content. A single larger event is accepted. */
const MOST_BYTES = 32 << 20;

export interface Content {
  readonly bytes: Uint8Array;
  readonly sha256: string;
}

interface PendingEvent {
  readonly kind: EventKind;
  readonly body: Uint8Array;
  readonly content: Content | undefined;
  /** Unix time in milliseconds. */
  readonly capturedAt: number;
}

/** Events that wait for their content or for the spool to open. Bounded, in case the store hangs. */
export class PendingQueue {
  bytes = 0;
  /** Oldest first. */
  readonly #events = new Set<PendingEvent>();

  get waiting(): number {
    return this.#events.size;
  }

  /** Time of capture of the oldest waiting event. */
  get oldest(): number | undefined {
    const [first] = this.#events;
    return first?.capturedAt;
  }

  /** @throws SpoolFull */
  add(kind: EventKind, body: Uint8Array, content: Content | undefined): PendingEvent {
    const event = { kind, body, content, capturedAt: Date.now() };
    const size = sizeOf(event);
    if (this.bytes > 0 && this.bytes + size > MOST_BYTES) {
      throw new SpoolFull(`more than ${MOST_BYTES} bytes wait for content to be stored or the spool to open`);
    }
    this.bytes += size;
    this.#events.add(event);
    return event;
  }

  remove(event: PendingEvent): void {
    if (this.#events.delete(event)) this.bytes -= sizeOf(event);
  }

  /** Removes and returns all events, oldest first. */
  takeAll(): PendingEvent[] {
    const events = [...this.#events];
    this.#events.clear();
    this.bytes = 0;
    return events;
  }
}

function sizeOf({ body, content }: PendingEvent): number {
  return body.length + (content?.bytes.length ?? 0);
}
