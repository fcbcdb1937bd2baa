/**
 * From a call to the spool: sampling decides, the bytes are made, what the event refers to is stored, and the event is
 * appended. All of it that costs time happens after the call has returned, but for making the bytes: from then on
 * nothing that the caller does to its objects changes the event.
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
  /** What the event refers to, a text or bytes: stored before the event is captured. */
  readonly content: unknown;
  /** Why the event is refused, when what its caller has said could not even be read. */
  readonly fault: EventInvalid | undefined;
  /** The payload, with the URI of the content in its place when there is one. */
  readonly payload: (contentUri: string | undefined) => Payload;
}

export interface CaptureParts {
  readonly maker: EventMaker;
  readonly sampler: Sampler | undefined;
  readonly store: ContentStore | undefined;
  /** Rejects when there will be none. */
  readonly spool: Promise<Spool>;
  /** Writes what the spool has not got, at the end of the process. @returns how many, from the first, are kept. */
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
  /** Of each event that waits for its content or for the spool: what gives it up. */
  readonly #waiting = new Set<() => void>();
  #ended = false;
  /** Events that are written together have one outcome: what is remembered of each is what would be told of it. */
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

  /** Tells what was left out in an event of its own, if there is anything to tell. */
  summarise(): void {
    const { sampler, maker } = this;
    if (!sampler?.omissions.some) return;
    const eventId = maker.newId();
    const artifact = {
      artifact_type: 'other',
      artifact_uri: `urn:uuid:${eventId}`,
      description: 'How many runs and events sampling has left out: see system_metadata of this event.',
    };
    const event = { kind: 'internal-artifact' as const, eventId };
    const notCaptured = sampler.omissions.take();
    const summary = { ...event, runId: undefined, payload: { artifact }, details: {} };
    const told = this.#withCounts(notCaptured, () => {
      const body = maker.finish({ ...summary, marks: { not_captured: notCaptured } });
      return this.#append(event.kind, body, undefined);
    });
    this.#watch(event, told);
  }

  /** Refuses what comes from now on. */
  close(): void {
    this.#closed = true;
  }

  /** On return everything that was captured before is in the spool or refused. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#pending);
  }

  /** What is captured and not in the spool yet. */
  get queue(): Pick<PendingQueue, 'waiting' | 'bytes' | 'oldest'> {
    return this.#queue;
  }

  /** Refuses what still waits for its content or for the spool. On return everything that was captured is in the spool or refused. */
  async giveUp(): Promise<void> {
    for (const refuse of this.#waiting) refuse();
    await this.settled();
  }

  /**
   * At the end of the process, when nothing can be awaited any more: writes all that the spool has not got, and tells
   * how many events could not be kept. So it goes with each that comes later.
   */
  end(): void {
    this.#ended = true;
    this.#writeQueue();
    this.sampler?.end();
    this.summarise();
  }

  /** All of it that makes the event runs within the caller's call. */
  #decide(event: NewEvent): Promise<Outcome> {
    try {
      if (event.fault) throw event.fault;
      if (this.#closed) throw new ClientClosed('the client is closed and captures nothing more');
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
    const { fate, marks: sampling } = this.sampler?.judge(sampled, judged) ?? { fate: 'captured' };
    const finish = (more: Payload) =>
      this.maker.finish({
        ...{ kind, eventId, runId, payload, details },
        marks: { ...(sampling && { sampling }), ...more },
      });
    if (fate === 'captured') {
      const { omissions } = this.sampler ?? {};
      if (!omissions?.some) return this.#append(kind, finish({}), content);
      const notCaptured = omissions.take();
      return this.#withCounts(notCaptured, () =>
        this.#append(kind, finish({ not_captured: notCaptured }), content),
      );
    }
    // What is left out is checked like the rest: a fault of the host's should not wait for its turn to be found.
    const body = finish({});
    if (fate === 'held' && sampled) {
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

  /** The counts that an event carries have not been told when the event is not captured. */
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
    // Nothing of its own for each event where there is nothing to wait for but the disk.
    if (this.#spool && !content) return this.#spool.append(kind, body);
    return this.#appendLater(kind, body, content);
  }

  async #appendLater(kind: EventKind, body: Uint8Array, content: Content | undefined): Promise<Outcome> {
    const waiting = this.#queue.add(kind, body, content);
    let appended: Promise<Outcome>;
    try {
      if (content) await this.#store(content);
      const spool = this.#spool ?? (await this.#opened());
      // Without waiting for it: what waits for the disk is the spool's from here on.
      appended = spool.append(kind, body);
    } finally {
      this.#queue.remove(waiting);
    }
    return appended;
  }

  async #store({ bytes, sha256 }: Content): Promise<void> {
    const { store } = this.#parts;
    if (!store) throw new ContentNotStored('the client was made without a place for content');
    try {
      await this.#unlessGivenUp(store.put(bytes, sha256), new Error('the client was closed before it was'));
    } catch (cause) {
      throw new ContentNotStored('the content that the event refers to could not be stored', { cause });
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

  /** @returns whether all of it is kept. */
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
    const what = `${lost} captured events could not be kept at the end of the process`;
    this.#parts.onTrouble(what, written.error ?? error);
    return false;
  }

  /** @throws the error of the store; an error when it is one that has to be waited for, such as a bucket. */
  #storeNow({ bytes, sha256 }: Content): void {
    const { store } = this.#parts;
    if (!store?.putNow) throw new ContentNotStored('their content could not be stored before it');
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

/** @throws EventInvalid in place of what the caller's objects may throw, which may name values. */
function payloadOf(event: NewEvent, uri: string | undefined): Payload {
  try {
    return event.payload(uri);
  } catch {
    throw new EventInvalid('not_json', 'the payload of the event cannot be read');
  }
}

/** @throws ContentNotStored for what is no content, without a word of it. */
function contentOf({ content }: NewEvent): Content | undefined {
  if (content === undefined) return undefined;
  const bytes = copyOf(content);
  if (!bytes) throw new ContentNotStored('content is a text or a Uint8Array, such as a Buffer');
  return { bytes, sha256: sha256Of(bytes) };
}

/**
 * What became of an event. `durable`: it is in the spool, as durable as the spool is. `held`: sampling did not choose
 * its run, and it waits in memory in case the run turns out to be risky. `left out`: sampling left it out.
 */
export type Outcome = 'durable' | 'held' | 'left out';

/**
 * An event on its way into the spool. May be awaited, and need not be: what no one awaits never ends the host
 * application as an unhandled rejection, and a refusal is told to `onRefused` in either case.
 */
export class Captured implements PromiseLike<Outcome> {
  /** Known at once; never used again, whatever becomes of the event. */
  readonly eventId: string;
  readonly #outcome: Promise<Outcome>;

  /** @param outcome whose rejection someone else takes notice of too; events may share one. */
  constructor(eventId: string, outcome: Promise<Outcome>) {
    this.eventId = eventId;
    this.#outcome = outcome;
  }

  /**
   * Resolves once the event is durable or sampling has decided about it.
   * Rejects with EventInvalid, ContentNotStored, ClientClosed, SpoolFull or SpoolUnwritable; then it is not captured,
   * unless the `uncertain` of SpoolUnwritable says that it may be.
   */
  then<Done = Outcome, Failed = never>(
    onDone?: ((outcome: Outcome) => Done | PromiseLike<Done>) | null,
    onFailed?: ((error: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Done | Failed> {
    return this.#outcome.then(onDone, onFailed);
  }

  /** As of a Promise. */
  catch<Failed = never>(
    onFailed?: ((error: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Outcome | Failed> {
    return this.#outcome.catch(onFailed);
  }

  /** As of a Promise: what it returns is a promise of its own, whose rejection is the caller's to handle. */
  finally(onSettled?: (() => void) | null): Promise<Outcome> {
    return this.#outcome.finally(onSettled);
  }
}

/*
 * What is captured and not in the spool yet: it waits for its content to be stored, or for the spool to be opened.
 * Bounded, as what waits for the disk is: a place that does not answer must not take the memory of the application.
 */

/** Of events and their content. More is refused, unless there is nothing else. */
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

export class PendingQueue {
  bytes = 0;
  /** Oldest first. */
  readonly #events = new Set<PendingEvent>();

  get waiting(): number {
    return this.#events.size;
  }

  /** When the first of those that wait was captured. */
  get oldest(): number | undefined {
    const [first] = this.#events;
    return first?.capturedAt;
  }

  /** @throws SpoolFull */
  add(kind: EventKind, body: Uint8Array, content: Content | undefined): PendingEvent {
    const event = { kind, body, content, capturedAt: Date.now() };
    const size = sizeOf(event);
    if (this.bytes > 0 && this.bytes + size > MOST_BYTES) {
      throw new SpoolFull(
        `${MOST_BYTES} bytes wait for their content to be stored, or for the spool to open`,
      );
    }
    this.bytes += size;
    this.#events.add(event);
    return event;
  }

  remove(event: PendingEvent): void {
    if (this.#events.delete(event)) this.bytes -= sizeOf(event);
  }

  /** Oldest first; nothing waits then. */
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
