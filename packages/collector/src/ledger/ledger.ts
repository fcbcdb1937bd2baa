/**
 * The group commit: takes all events that wait in the ring, examines them, stores them as one batch and
 * answers them. There is no timer: while a flush runs, the next batch gathers in the ring. A store that
 * accepts several batches at a time gets another one only when many events wait: a database pays more per
 * event in small batches, and one at a time is as fast where the round trip is short. Batches are answered in
 * the order in which they were taken.
 *
 * States. `open`: batches are stored. `refusing`: the last batch was not committed (a full disk, for
 * example), or its commit is in doubt and the store can resolve the doubt. Each batch is still tried; without
 * a batch, the store alone is tried. The first success ends the state. `failed`: the effect of the last batch
 * is unknown; nothing is tried until the process has restarted and read the log.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { SALT_BYTES } from '@clinical-events/protocol';
import { commitmentOf } from '../tree/merkle.js';
import {
  type Candidate,
  CommitUnknown,
  LogChanged,
  NotCommitted,
  type Outcome,
  type StorageReason,
  type Store,
} from '../store/contract/events.js';
import { type Fault, examine, isFault } from './examine.js';
import type { LedgerCounters } from './ledger-counters.js';
import type { Answer, RingReader } from './ring.js';
import { fillSalt } from './salt.js';

export type { StorageReason } from '../store/contract/events.js';

export type LedgerState = 'open' | 'refusing' | 'failed';

export interface LedgerOptions {
  readonly store: Store;
  /** When it closes, durable entries are sequenced and signed if possible (sequencer.ts). */
  readonly sequencer: { close(): Promise<void> };
  readonly ring: RingReader;
  /** One word, shared with the ring's writer and notified at each publication. */
  readonly doorbell: Int32Array;
  readonly maxDepth: number;
  readonly counters: LedgerCounters;
  /** Called at each change of state or reason, with the error that caused it. */
  readonly onState: (state: LedgerState, cause: unknown, reason: StorageReason | undefined) => void;
}

/** The maximum events and bytes of one batch. They bound its memory and the wait of its first event. */
export const MAX_BATCH_EVENTS = 1024;
export const MAX_BATCH_BYTES = 4 << 20;

/** This number of waiting events starts a batch while others are in progress. */
const BESIDE_EVENTS = 256;

/** The time for the last checkpoint of a log that was altered from outside, in milliseconds. */
const SEAL_MS = 2000;
/** Interval between two probes of the store, in milliseconds. */
const LOOK_EVERY_MS = 1000;
/**
 * After this time a refusing store is tried without an event, since none may arrive before it is ready again.
 */
const PROVE_EVERY_MS = 3000;

const OUTCOME_ANSWERS: Record<Outcome, Answer> = {
  accepted: 'accepted',
  // The same answer as for a new event: the sender learns only that it is stored.
  duplicate: 'accepted',
  conflict: 'conflict',
  erased: 'erased',
  unreadable: 'unreadable',
};

/** One of the log's own entries, and the promise of its caller. */
interface WaitingEntry {
  readonly entry: Candidate;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
}

/** The reason why events are refused; undefined when the store works, or when nothing is tried again. */
function reasonFor(cause: unknown): StorageReason | undefined {
  if (cause instanceof NotCommitted) return cause.reason;
  return cause instanceof CommitUnknown ? 'database_unavailable' : undefined;
}

interface Taken {
  readonly fault: Fault | undefined;
  /** The duration of its examination, in milliseconds. */
  readonly examinedMs: number;
}

export class Ledger {
  readonly #options: LedgerOptions;
  readonly #own: WaitingEntry[] = [];
  #state: LedgerState = 'open';
  #reason: StorageReason | undefined;
  #stopping = false;
  /** On the clock of `performance.now`. */
  #lookedAt = performance.now();
  #refusedAt = 0;
  #sequenced: Promise<void> | undefined;
  /** Number of batches in progress, which are answered in order. */
  #underWay = 0;
  #answered: Promise<void> = Promise.resolve();
  #freed: (() => void) | undefined;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  /** Ends `run` once everything that was published before is answered. */
  stop(): void {
    this.#stopping = true;
    this.#ring();
  }

  /**
   * Stores one of the log's own entries in a separate batch; its outcome does not affect event batches. On
   * return the entry is durable. Rejects with the error of the store; after `stop` it may never settle.
   */
  append(entry: Candidate): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#own.push({ entry, resolve, reject });
      this.#ring();
    });
  }

  #ring(): void {
    Atomics.add(this.#options.doorbell, 0, 1);
    Atomics.notify(this.#options.doorbell, 0);
  }

  /** Call before `run`. On return the state tells whether the payload keys can be written. */
  async proveKeys(): Promise<void> {
    try {
      await this.#options.store.proveKeys();
    } catch (error) {
      if (!(error instanceof NotCommitted)) throw error;
      this.#refuse(error);
    }
  }

  /** Serves the ring until `stop`. Resolves with the store closed; no event's content makes it reject. */
  async run(): Promise<void> {
    const { doorbell, store, sequencer } = this.#options;
    for (;;) {
      const rung = Atomics.load(doorbell, 0);
      const stored = await this.#storeOwn();
      const busy = await this.#commitOnce();
      await this.#lookAtStore(performance.now());
      if (busy || stored) {
        // Gives this thread's other work its turn: timers, messages, the file pool.
        await new Promise(setImmediate);
        continue;
      }
      if (this.#stopping) break;
      const wait = Atomics.waitAsync(doorbell, 0, rung, LOOK_EVERY_MS);
      if (wait.async) await wait.value;
    }
    await this.#answered;
    await (this.#sequenced ??= sequencer.close());
    await store.close();
  }

  /** @returns false when no entry waited. */
  async #storeOwn(): Promise<boolean> {
    const waiting = this.#own.shift();
    if (waiting === undefined) return false;
    const { entry, resolve, reject } = waiting;
    try {
      if (this.#state === 'failed') throw new CommitUnknown('the ledger has failed');
      const outcomes = await this.#options.store.append([entry]);
      if (outcomes[0] !== 'accepted')
        throw new Error(`an entry of the log's own was ${outcomes[0] ?? 'lost'}`);
      resolve();
    } catch (error) {
      // A full disk is not reported here: the next event meets it too, and reports it.
      if (error instanceof CommitUnknown && !this.#options.store.outlivesDoubt) this.#fail(error);
      reject(error);
    }
    return true;
  }

  /** @returns false when no events waited, or too few while other batches are in progress. */
  async #commitOnce(): Promise<boolean> {
    if (this.#underWay > 0 && !this.#stopping && !this.#isMuchWaiting()) return false;
    const taken: Taken[] = [];
    const candidates: Candidate[] = [];
    this.#gather(taken, candidates);
    if (taken.length === 0) return false;
    this.#options.counters.taken(taken.length, taken.length - candidates.length);
    const { concurrency } = this.#options.store;
    const before = this.#answered;
    this.#underWay++;
    this.#answered = this.#store(candidates).then(async (answers) => {
      await before;
      this.#underWay--;
      this.#answer(taken, candidates, answers);
      this.#freed?.();
      if (concurrency > 1) this.#ring();
    });
    if (this.#underWay < concurrency) return true;
    await new Promise<void>((resolve) => (this.#freed = resolve));
    this.#freed = undefined;
    return true;
  }

  #isMuchWaiting(): boolean {
    return this.#options.ring.waiting >= BESIDE_EVENTS;
  }

  #answer(taken: readonly Taken[], candidates: readonly Candidate[], answers: readonly Answer[]): void {
    const { ring } = this.#options;
    let next = 0;
    for (const { fault, examinedMs } of taken) {
      if (fault) ring.answer('fault', fault, examinedMs);
      else {
        const tookMs = examinedMs + (candidates[next]?.comparedMs ?? 0);
        ring.answer(answers[next++] ?? 'unknown', undefined, tookMs);
      }
    }
    ring.send();
  }

  /** Takes up to one batch from the ring; events that pass their examination become candidates. */
  #gather(taken: Taken[], candidates: Candidate[]): void {
    const { ring } = this.#options;
    let bytes = 0;
    while (taken.length < MAX_BATCH_EVENTS && bytes < MAX_BATCH_BYTES) {
      const queued = ring.take();
      if (queued === undefined) break;
      const { kind, profile, door, organisation, keyId, receivedAt, salted } = queued;
      const body = salted.subarray(SALT_BYTES);
      bytes += body.length;
      const began = performance.now();
      const examined = examine(body, kind, profile, this.#options.maxDepth);
      const fault = isFault(examined) ? examined : undefined;
      taken.push({ fault, examinedMs: performance.now() - began });
      if (isFault(examined)) continue;
      const { eventId, runId, parentId } = examined;
      fillSalt(salted);
      const commitment = commitmentOf(salted);
      candidates.push({
        kind,
        profile,
        door,
        organisation,
        keyId,
        receivedAt,
        eventId,
        runId,
        parentId,
        salted,
        commitment,
      });
    }
  }

  /** Always gives one answer per candidate. */
  async #store(candidates: readonly Candidate[]): Promise<readonly Answer[]> {
    if (candidates.length === 0) return [];
    const { store, counters } = this.#options;
    if (this.#state === 'failed') {
      counters.failed('unknown', candidates.length);
      return candidates.map(() => 'unknown');
    }
    try {
      const appended = store.append(candidates);
      const outcomes = appended instanceof Promise ? await appended : appended;
      counters.decided(outcomes);
      // A batch of repeats writes nothing, so it does not prove that the disk works.
      if (outcomes.includes('accepted')) this.#enter('open', undefined);
      return outcomes.map((outcome) => OUTCOME_ANSWERS[outcome]);
    } catch (error) {
      if (error instanceof NotCommitted) {
        this.#refuse(error);
        counters.failed('notCommitted', candidates.length);
        return candidates.map(() => 'notCommitted');
      }
      // A CommitUnknown, or a defect here: no answer may state that an event is stored or not stored.
      if (error instanceof CommitUnknown && store.outlivesDoubt) this.#refuse(error);
      else this.#fail(error);
      counters.failed('unknown', candidates.length);
      return candidates.map(() => 'unknown');
    }
  }

  /** @param now the monotonic clock, milliseconds. */
  async #lookAtStore(now: number): Promise<void> {
    if (this.#state === 'failed' || now - this.#lookedAt < LOOK_EVERY_MS) return;
    this.#lookedAt = now;
    const { store } = this.#options;
    try {
      store.look();
      if (this.#state === 'open' || now - this.#refusedAt < PROVE_EVERY_MS) return;
      await store.prove();
      this.#enter('open', undefined);
    } catch (error) {
      if (error instanceof NotCommitted || (error instanceof CommitUnknown && store.outlivesDoubt)) {
        this.#refuse(error);
      } else this.#fail(error);
    }
  }

  #refuse(cause: NotCommitted | CommitUnknown): void {
    this.#refusedAt = performance.now();
    this.#enter('refusing', cause);
  }

  #fail(error: unknown): void {
    if (error instanceof LogChanged) {
      this.#seal(error);
      return;
    }
    const isKnown = error instanceof CommitUnknown;
    const cause = isKnown ? error : new CommitUnknown('the store failed', { cause: error });
    this.#enter('failed', cause);
  }

  /**
   * Signs the acknowledged entries that can still be read, so that no later start takes a shorter log for the
   * whole one, and then reports.
   */
  #seal(cause: LogChanged): void {
    this.#state = 'failed';
    this.#sequenced ??= this.#options.sequencer.close();
    const tell = () => this.#options.onState('failed', cause, undefined);
    Promise.race([this.#sequenced, sleep(SEAL_MS)]).then(tell, tell);
  }

  #enter(state: LedgerState, cause: unknown): void {
    const reason = state === 'refusing' ? reasonFor(cause) : undefined;
    if (state === this.#state && reason === this.#reason) return;
    this.#state = state;
    this.#reason = reason;
    this.#options.onState(state, cause, reason);
  }
}
