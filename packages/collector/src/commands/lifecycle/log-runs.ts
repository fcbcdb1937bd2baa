/**
 * Runs as the log has them, for whatever may destroy or hold events: found and collected by passes over all of it, on as many
 * threads as there are cores, beside a running collector. A start may come after its events, so one pass finds and another
 * collects.
 */
import os from 'node:os';
import { Worker } from 'node:worker_threads';
import type { EventLog } from '../../store/contract/events.js';
import { openStore } from '../../store/open-to-read.js';
import { isNoId } from '../../store/text.js';
import { type RunSummary, summaryOf } from '../../catalogue/run-summary.js';
import { assembleRun } from '../../records/assemble.js';
import { eventBatchesOf, windowsOf } from '../../records/record-windows.js';
import { ScanningReader } from '../../records/run-event.js';
import { revived } from '../records/record-threads.js';
import { ProgressBar } from '../terminal.js';
import { Links } from './links.js';
import {
  type Answer,
  type ByOrganisation,
  type Collected,
  type Extent,
  type Found,
  type Id,
  type Job,
  type LogEvent,
  pass,
  put,
  type Range,
  type Sought,
  type StartFacts,
  textOf,
} from './log-stretch.js';

/** A thread takes a quarter of a second to start, in which another passes so many events. */
const LEAST_OF_A_THREAD = 16_384;
const MOST_THREADS = 4;

/** Names a record: a run by its id, or events without a run by the id of the event that they hang on. */
export interface RecordKey {
  readonly organisation: string;
  readonly id: Id;
  readonly isRun: boolean;
}

/** The records of runs that were found. */
export function keysIn(runs: Selected['runs']): RecordKey[] {
  return [...runs].flatMap(([organisation, ids]) => Array.from(ids.keys(), (id) => ({ organisation, id, isRun: true })));
}

/** A record with its events. */
export class LogRun implements RecordKey {
  readonly events: LogEvent[] = [];
  readonly starts: StartFacts[] = [];
  /** Records that one of its starts is nested in. */
  readonly parents = new Set<LogRun>();

  constructor(
    readonly organisation: string,
    readonly id: Id,
    readonly isRun: boolean,
  ) {}

  get recordId(): string {
    return textOf(this.id);
  }

  /** It, and all that it is nested in. */
  get chain(): readonly LogRun[] {
    const chain = new Set<LogRun>([this]);
    for (const run of chain) for (const parent of run.parents) chain.add(parent);
    return [...chain];
  }

  /** Whom its starts name: targets, and callers. */
  get persons(): readonly string[] {
    return this.starts.flatMap(({ target, caller }) => [target, caller].filter((id) => id !== undefined));
  }
}

/** What was found, and how the records of the log hang together. */
export interface Selected extends Omit<Found, 'links'> {
  readonly links: Links;
}

/** What is collected beside the records that are named. */
export interface Around {
  /** Runs that are nested in them, however deep. */
  readonly nested: boolean;
  /** Those that they are nested in: what holds one of these holds what is nested in it. */
  readonly outer: boolean;
}

export class LogRuns {
  readonly #threads: StretchThread[] = [];
  readonly #log: EventLog;
  #bar: ProgressBar | undefined;

  private constructor(
    private readonly dataDir: string,
    log: EventLog,
    /** By default all that was durable when it was opened. */
    readonly range: Range,
    private readonly signal: AbortSignal,
  ) {
    this.#log = log;
  }

  /** @param part the sequences that are passed; all that is durable. */
  static async open(dataDir: string, signal: AbortSignal, part: Partial<Range> = {}): Promise<LogRuns> {
    const { events: log } = openStore(dataDir);
    const { from = 1, through = (await log.end()).sequence - 1 } = part;
    return new LogRuns(dataDir, log, { from, through }, signal);
  }

  get log(): EventLog {
    return this.#log;
  }

  /** @throws StoreDamaged; what the signal is aborted with. */
  async find(sought: Sought): Promise<Selected> {
    const found = (await this.#pass((range) => ({ find: sought, ...range }))) as Found[];
    const [runs, erased]: [ByOrganisation<true>, ByOrganisation<number>] = [new Map(), new Map()];
    const organisations = new Set<string>();
    for (const each of found) {
      for (const organisation of each.organisations) organisations.add(organisation);
      for (const [organisation, ids] of each.runs) for (const id of ids.keys()) put(runs, organisation, id, true);
      for (const [organisation, ids] of each.erased) for (const [id, i] of ids) put(erased, organisation, id, i);
    }
    return {
      ...{ organisations, runs, erased, events: found.flatMap(({ events }) => events) },
      links: new Links(found.map(({ links }) => links)),
      unread: found.reduce((sum, { unread }) => sum + unread, 0),
    };
  }

  /** The record that an event is of; undefined for one that is not there. */
  async recordOf(organisation: string, eventId: Id, links: Links): Promise<RecordKey | undefined> {
    const passed: Id[] = [];
    for (let id = eventId; ; ) {
      const found = await this.#log.find(organisation, Buffer.from(id, 'latin1'));
      if (found === undefined || found.sequence > this.range.through) {
        const root = passed.at(-1);
        return root === undefined ? undefined : { organisation, id: root, isRun: false };
      }
      if (!isNoId(found.runId)) return { organisation, id: found.runId.toString('latin1'), isRun: true };
      passed.push(id);
      const parent = links.parentOf(organisation, id);
      if (parent === undefined) return { organisation, id, isRun: false };
      // Events that hang on each other in a circle are known by the smallest of their ids.
      const circle = passed.indexOf(parent);
      if (circle >= 0)
        return { organisation, id: passed.slice(circle).reduce((a, b) => (a < b ? a : b)), isRun: false };
      id = parent;
    }
  }

  /** The events of runs, no more than is asked for of each. */
  async events(wanted: ByOrganisation<Extent>): Promise<Collected['events']> {
    if (wanted.size === 0) return [];
    const answers = (await this.#pass((range) => ({ collect: wanted, ...range }))) as Collected[];
    return answers.flatMap(({ events }) => events);
  }

  /**
   * Records with all their events. One that is not in the log has none.
   * @returns those that are named and those nested in them; what they are nested in stands in `LogRun.parents`.
   */
  async collect(keys: Iterable<RecordKey>, links: Links, around: Around): Promise<LogRun[]> {
    const known: ByOrganisation<LogRun> = new Map();
    const owners: ByOrganisation<LogRun> = new Map();
    const inner = new Set<LogRun>();
    const begin = ({ organisation, id, isRun }: RecordKey) => {
      const run = new LogRun(organisation, id, isRun);
      put(known, organisation, id, run);
      return run;
    };
    const add = (run: LogRun, { start, ...event }: Collected['events'][number]) => {
      run.events.push(event);
      if (start !== undefined) run.starts.push(start);
      put(owners, event.organisation, event.id, run);
    };
    let fresh: LogRun[] = [];
    for (const key of keys) if (known.get(key.organisation)?.has(key.id) !== true) fresh.push(begin(key));
    for (const run of fresh) inner.add(run);
    for (let next: LogRun[] = []; fresh.length > 0; fresh = next, next = []) {
      const wanted: ByOrganisation<Extent> = new Map();
      for (const { organisation, id, isRun } of fresh) if (isRun) put(wanted, organisation, id, 'whole');
      for (const event of await this.events(wanted))
        add(known.get(event.organisation)?.get(event.runId ?? '') ?? raise(), event);
      for (const run of fresh) {
        const { organisation } = run;
        const root = run.isRun ? undefined : await this.#event(organisation, run.id);
        if (root !== undefined) add(run, root);
        // Grows while it is passed: events without a run hang on each other.
        for (const { id } of run.events)
          for (const child of links.childrenOf(organisation, id)) {
            if (!child.isRun) {
              if (owners.get(organisation)?.has(child.id) === true) continue;
              const event = await this.#event(organisation, child.id);
              if (event !== undefined) add(run, event);
              continue;
            }
            const nested = known.get(organisation)?.get(child.id);
            if (nested !== undefined) {
              if (nested !== run) nested.parents.add(run);
            } else if (around.nested && inner.has(run)) {
              const begun = begin({ organisation, ...child });
              begun.parents.add(run);
              inner.add(begun);
              next.push(begun);
            }
          }
      }
      if (!around.outer) continue;
      for (const run of fresh)
        for (const { parent } of run.starts) {
          if (parent === undefined) continue;
          const { organisation } = run;
          const key =
            owners.get(organisation)?.get(parent) ?? (await this.recordOf(organisation, parent, links));
          if (key === undefined || key.id === run.id) continue;
          let outer = known.get(organisation)?.get(key.id);
          if (outer === undefined) next.push((outer = begin(key)));
          run.parents.add(outer);
        }
    }
    return [...inner];
  }

  /** An event that names no run; undefined when there is none. */
  async #event(organisation: string, id: Id): Promise<LogEvent | undefined> {
    const place = await this.#log.find(organisation, Buffer.from(id, 'latin1'));
    if (place === undefined || place.sequence > this.range.through || !isNoId(place.runId)) return undefined;
    const { kind, receivedAt } = (await this.#log.read([place])).facts(0);
    const { sequence, at, size } = place;
    return { sequence, at, size, kind, organisation, receivedAt, id, runId: undefined };
  }

  /** What a catalogue would say of each record that has events, made of these alone. */
  async *summaries(runs: readonly LogRun[]): AsyncGenerator<readonly [LogRun, RunSummary]> {
    const placed = runs.filter(({ events }) => events.length > 0).map((run) => ({ run, places: run.events }));
    for (const window of windowsOf(placed)) {
      let index = 0;
      for await (const batch of eventBatchesOf(this.#log, window, new ScanningReader()))
        for (const events of batch) {
          const run = window[index++]?.run ?? raise();
          yield [run, summaryOf(assembleRun(events))];
        }
      this.signal.throwIfAborted();
    }
  }

  async close(): Promise<void> {
    this.#bar?.clear();
    await Promise.all(this.#threads.map((thread) => thread.stop()));
    await this.#log.close();
  }

  async #pass(jobOf: (range: Range) => Job): Promise<Answer[]> {
    const { from, through } = this.range;
    if (through < from) return [await pass(this.#log, jobOf({ from, through: from - 1 }), () => undefined)];
    const events = through - from + 1;
    const most = Math.min(MOST_THREADS, os.availableParallelism(), Math.floor(events / LEAST_OF_A_THREAD));
    this.#bar = new ProgressBar({ wanted: process.stderr.isTTY, unit: 'MiB', per: 1 << 20, from: 32 });
    let done = 0;
    const onBytes = (bytes: number) => this.#bar?.show((done += bytes), this.#log.extent);
    try {
      if (most < 2) return [await pass(this.#log, jobOf({ from, through }), onBytes, this.signal)];
      const stop = () => void Promise.all(this.#threads.map((thread) => thread.stop()));
      this.signal.addEventListener('abort', stop, { once: true });
      const ends = Array.from({ length: most }, (_, i) => from - 1 + Math.floor((events * (i + 1)) / most));
      const answers = ends.map((end, i) => {
        const thread = (this.#threads[i] ??= new StretchThread(this.dataDir));
        return thread.do(jobOf({ from: (ends[i - 1] ?? from - 1) + 1, through: end }), onBytes);
      });
      try {
        return await Promise.all(answers);
      } finally {
        this.signal.removeEventListener('abort', stop);
      }
    } catch (error) {
      this.signal.throwIfAborted();
      throw error;
    } finally {
      this.#bar.clear();
    }
  }
}

class StretchThread {
  readonly #worker: Worker;
  #waiting: { resolve: (answer: Answer) => void; reject: (error: unknown) => void } | undefined;
  #onBytes: (bytes: number) => void = () => undefined;

  constructor(dataDir: string) {
    this.#worker = new Worker(new URL('stretch-thread.js', import.meta.url), { workerData: { dataDir } });
    this.#worker.on('message', (said: { bytes: number } | { answer: Answer }) => {
      if ('bytes' in said) this.#onBytes(said.bytes);
      else this.#waiting?.resolve(said.answer);
    });
    this.#worker.on('error', (error: Error) => this.#waiting?.reject(revived(error)));
    this.#worker.on('exit', () => this.#waiting?.reject(new Error('a thread that reads the log has ended')));
  }

  /** One job at a time. */
  do(job: Job, onBytes: (bytes: number) => void): Promise<Answer> {
    this.#onBytes = onBytes;
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#worker.postMessage(job);
    });
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }
}

function raise(): never {
  throw new RangeError('the log has an event of a run that was not asked for');
}
