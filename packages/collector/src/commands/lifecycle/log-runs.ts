/**
 * Runs as recorded in the log, for commands that erase or hold events. They are found and collected by passes
 * over the whole log, on several threads, also while a collector runs. A start may be stored after its
 * events, so one pass finds runs and another collects their events.
 */
import os from 'node:os';
import type { EventLog } from '../../store/contract/events.js';
import { claimedSize, openStore } from '../../store/open-to-read.js';
import { type RunSummary, summaryOf } from '../../catalogue/run-summary.js';
import { assembleRun } from '../../records/assemble.js';
import { eventBatchesOf, windowsOf } from '../../records/record-windows.js';
import { ScanningReader } from '../../records/run-event.js';
import { usage } from '../exit-codes.js';
import { LogThread } from '../log-thread.js';
import { legible, ProgressBar } from '../terminal.js';
import { assertReaches } from '../regular-files.js';
import {
  type Answer,
  type ByOrganisation,
  type CollectedEvent,
  eventOf,
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
  type Wanted,
} from './log-pass.js';

/** Number of events that a thread reads in a quarter of a second, the time in which another one starts. */
const LEAST_OF_A_THREAD = 16_384;
const MOST_THREADS = 4;

/**
 * Identifies a record: a run by its id, or events without a run by the id of the event they are attached to.
 */
export interface RecordKey {
  readonly organisation: string;
  readonly id: Id;
  readonly isRun: boolean;
}

export function nameOf({ organisation, id }: RecordKey): string {
  return `${organisation} ${id}`;
}

/** The records of found runs. */
export function keysIn(runs: Found['runs']): RecordKey[] {
  return [...runs].flatMap(([organisation, ids]) =>
    Array.from(ids.keys(), (id) => ({ organisation, id, isRun: true })),
  );
}

/** A record with its events. */
export class LogRun implements RecordKey {
  readonly events: LogEvent[] = [];
  readonly starts: StartFacts[] = [];
  /** Records in which one of its starts is nested. */
  readonly parents = new Set<LogRun>();

  constructor(
    readonly organisation: string,
    readonly id: Id,
    readonly isRun: boolean,
  ) {}

  get recordId(): string {
    return textOf(this.id);
  }

  /** The run itself, and all runs that contain it. */
  get chain(): readonly LogRun[] {
    const chain = new Set<LogRun>([this]);
    for (const run of chain) for (const parent of run.parents) chain.add(parent);
    return [...chain];
  }

  /**
   * Its id, and the events it is attached to. A run has the id of the event that opens it, which may be
   * missing.
   */
  get hangsOn(): readonly string[] {
    const parents = this.isRun ? this.starts.map(({ parent }) => parent) : [this.events[0]?.parent];
    return [this.id, ...parents.filter((id) => id !== undefined)].map(textOf);
  }

  /** The targets and callers of its starts. */
  get persons(): readonly string[] {
    return this.starts.flatMap(({ target, caller }) => [target, caller].filter((id) => id !== undefined));
  }
}

export function named({ starts }: LogRun, as: 'target' | 'caller'): string[] {
  return starts.flatMap((start) => start[as] ?? []);
}

/** Why a nested run that was not found by an id is not about the person. */
export function whyNested(run: LogRun): string {
  const isOfSomeone = named(run, 'target').length > 0;
  return `nested in a planned run; ${isOfSomeone ? 'about someone else' : 'names no person'}`;
}

/**
 * Whether a run that was found by an id of a person is about this person.
 * @returns `why` is empty only if the run is about this person and no other.
 */
export function compared(
  run: LogRun,
  ids: ReadonlySet<string>,
): { because: 'target' | 'caller'; about: 'this person' | 'someone else'; why: string } {
  const [targets, callers] = [named(run, 'target'), named(run, 'caller')];
  const isThis = (id: string) => ids.has(id);
  const isTarget = targets.some(isThis);
  const isAlone = targets.length > 0 ? targets.every(isThis) : callers.length > 0 && callers.every(isThis);
  const states = new Set(run.starts.map(({ state }) => state));
  return {
    because: isTarget ? 'target' : 'caller',
    about: isAlone ? 'this person' : 'someone else',
    why: states.has('erased')
      ? 'a start was erased'
      : states.has('unread')
        ? 'a start cannot be decrypted'
        : isAlone
          ? ''
          : isTarget
            ? 'its starts name several targets'
            : targets.length > 0
              ? 'the person is the caller, and the target is someone else'
              : 'its starts name several callers',
  };
}

/** @param counts the number of matches per organisation. @throws CommandFailure for several organisations. */
export function assertOneOrganisation(counts: ReadonlyMap<string, number>): void {
  if (counts.size < 2) return;
  const list = [...counts].map(([name, count]) => `${legible(name)} (${count})`).sort();
  throw usage(
    `matches are in ${counts.size} organisations and may concern different persons: ${list.join(', ')}; ` +
      'give one with --organisation',
  );
}

/** Records to collect in addition to the named ones. */
export interface Around {
  /** Runs nested in them, at any depth. */
  readonly nested: boolean;
  /** Runs that contain them: a hold on one of these covers what is nested in it. */
  readonly outer: boolean;
}

export class LogRuns {
  #onBytes: (bytes: number) => void = () => undefined;
  readonly #threads: LogThread<Job, Answer, { readonly bytes: number }>[] = [];
  #bar: ProgressBar | undefined;

  private constructor(
    private readonly dataDir: string,
    readonly log: EventLog,
    /** The range to read; by default everything that was durable when the log was opened. */
    readonly range: Range,
    private readonly signal: AbortSignal,
  ) {}

  /**
   * @param part the sequences to read; default all durable ones. @throws CommandFailure if the log is
   *   truncated.
   */
  static async open(dataDir: string, signal: AbortSignal, part: Partial<Range> = {}): Promise<LogRuns> {
    const { events: log, tree } = openStore(dataDir);
    // The claim is read first: a running collector appends while the log is read.
    const claimed = await claimedSize(tree);
    const end = (await log.end()).sequence - 1;
    assertReaches(end, claimed);
    const { from = 1, through = end } = part;
    return new LogRuns(dataDir, log, { from, through }, signal);
  }

  /** @throws CommandFailure if the log is damaged; the reason of the signal. */
  async find(sought: Partial<Sought>): Promise<Found> {
    const find = { subjects: [], runs: [], events: [], mentions: false, erased: '', ...sought };
    const found = (await this.#pass((range) => ({ find, ...range }))) as Found[];
    const runs: ByOrganisation<true> = new Map();
    const runless: ByOrganisation<true> = new Map();
    const erased: Found['erased'] = { runs: new Map(), runless: new Map() };
    const organisations = new Set<string>();
    for (const each of found) {
      for (const organisation of each.organisations) organisations.add(organisation);
      for (const [all, some] of [
        [runs, each.runs],
        [runless, each.runless],
        [erased.runs, each.erased.runs],
        [erased.runless, each.erased.runless],
      ] as const)
        for (const [organisation, ids] of some) for (const id of ids.keys()) put(all, organisation, id, true);
    }
    return {
      ...{ organisations, runs, runless, erased, events: found.flatMap(({ events }) => events) },
      unread: found.reduce((sum, { unread }) => sum + unread, 0),
    };
  }

  /** The records of runs and of events without a run, each with the id by which it was found. */
  async recordsOf({ runs, runless }: Found['erased']): Promise<{ id: Id; record: RecordKey }[]> {
    const records = keysIn(runs).map((record) => ({ id: record.id, record }));
    for (const { organisation, id } of keysIn(runless)) {
      const record = await this.recordOf(organisation, id);
      if (record !== undefined) records.push({ id, record });
    }
    return records;
  }

  /** The record of an event; undefined if the log does not have it. */
  async recordOf(organisation: string, eventId: Id): Promise<RecordKey | undefined> {
    const passed: Id[] = [];
    for (let id: Id | undefined = eventId; id !== undefined;) {
      // Events in a circle are identified by the smallest of their ids.
      const circle = passed.indexOf(id);
      if (circle >= 0) passed.push(passed.slice(circle).reduce((a, b) => (a < b ? a : b)));
      const event: LogEvent | undefined = circle >= 0 ? undefined : await this.#event(organisation, id);
      if (event === undefined) break;
      if (event.runId !== undefined) return { organisation, id: event.runId, isRun: true };
      passed.push(id);
      id = event.parent;
    }
    const root = passed.at(-1);
    return root === undefined ? undefined : { organisation, id: root, isRun: false };
  }

  /** The events of runs, and those attached to other events, in log order. */
  async #events(wanted: Wanted): Promise<readonly CollectedEvent[]> {
    const answers = await this.#pass((range) => ({ collect: wanted, ...range }));
    return (answers as (readonly CollectedEvent[])[]).flat();
  }

  /**
   * Records with all their events; a record that is not in the log has none. Takes one pass per level of
   * nesting.
   * @returns the named records and those nested in them; the records that contain them are in
   *   `LogRun.parents`.
   */
  async collect(keys: Iterable<RecordKey>, around: Around): Promise<LogRun[]> {
    const known: ByOrganisation<LogRun> = new Map();
    const owners: ByOrganisation<LogRun> = new Map();
    const inner = new Set<LogRun>();
    let wanted: Wanted = { runs: new Map(), on: new Map() };
    const starts: { readonly run: LogRun; readonly parent: Id }[] = [];
    const add = (run: LogRun, { start, ...event }: CollectedEvent) => {
      const { organisation, id } = event;
      if (owners.get(organisation)?.has(id) === true) return;
      put(owners, organisation, id, run);
      run.events.push(event);
      if (inner.has(run)) put(wanted.on, organisation, id, true);
      if (start === undefined) return;
      run.starts.push(start);
      if (event.parent !== undefined) starts.push({ run, parent: event.parent });
    };
    const begin = async ({ organisation, id, isRun }: RecordKey, isInner: boolean) => {
      const run = new LogRun(organisation, id, isRun);
      put(known, organisation, id, run);
      if (isInner) inner.add(run);
      const root = isRun ? undefined : await this.#event(organisation, id);
      if (isRun) put(wanted.runs, organisation, id, true);
      if (root !== undefined) add(run, root);
      return run;
    };
    for (const key of keys) if (known.get(key.organisation)?.has(key.id) !== true) await begin(key, true);
    while (wanted.runs.size + wanted.on.size > 0) {
      const asked = wanted;
      wanted = { runs: new Map(), on: new Map() };
      for (const event of await this.#events(asked)) {
        const { organisation, runId, parent = '' } = event;
        const outer = owners.get(organisation)?.get(parent);
        const own = runId === undefined ? outer : known.get(organisation)?.get(runId);
        if (own !== undefined) {
          // The run was found earlier as the container of another run.
          const isNested = event.start !== undefined && outer !== undefined && inner.has(outer);
          if (isNested && around.nested && !inner.has(own)) {
            inner.add(own);
            for (const { id } of own.events) put(wanted.on, organisation, id, true);
          }
          add(own, event);
        } else if (runId !== undefined && outer !== undefined && around.nested)
          await begin({ organisation, id: runId, isRun: true }, true);
      }
      for (const { run, parent } of starts.splice(0)) {
        const { organisation } = run;
        const owner = owners.get(organisation)?.get(parent);
        const key = owner ?? (around.outer ? await this.recordOf(organisation, parent) : undefined);
        if (key === undefined || key.id === run.id) continue;
        run.parents.add(owner ?? known.get(organisation)?.get(key.id) ?? (await begin(key, false)));
      }
    }
    return [...inner];
  }

  async #event(organisation: string, id: Id): Promise<LogEvent | undefined> {
    const place = await this.log.find(organisation, Buffer.from(id, 'latin1'));
    if (place === undefined || place.sequence > this.range.through) return undefined;
    for await (const batch of this.log.pass(place, { through: place.sequence }))
      for (const entry of batch) return eventOf(entry);
    return undefined;
  }

  /** The summary that the catalogue would have of each record, made only from these events. */
  async *summaries(runs: readonly LogRun[]): AsyncGenerator<readonly [LogRun, RunSummary]> {
    const placed = runs.filter(({ events }) => events.length > 0).map((run) => ({ run, places: run.events }));
    for (const window of windowsOf(placed)) {
      let index = 0;
      for await (const batch of eventBatchesOf(this.log, window, new ScanningReader()))
        for (const events of batch) {
          const run = window[index++]?.run;
          if (run !== undefined) yield [run, summaryOf(assembleRun(events))];
        }
      this.signal.throwIfAborted();
    }
  }

  async close(): Promise<void> {
    this.#bar?.clear();
    await Promise.all(this.#threads.map((thread) => thread.stop()));
    await this.log.close();
  }

  async #pass(jobOf: (range: Range) => Job): Promise<Answer[]> {
    const { from, through } = this.range;
    if (through < from) return [await pass(this.log, jobOf({ from, through: from - 1 }), () => undefined)];
    const events = through - from + 1;
    const most = Math.min(MOST_THREADS, os.availableParallelism(), Math.floor(events / LEAST_OF_A_THREAD));
    this.#bar = new ProgressBar({ wanted: process.stderr.isTTY, unit: 'MiB', per: 1 << 20, from: 32 });
    let done = 0;
    this.#onBytes = (bytes) => this.#bar?.show((done += bytes), this.log.extent);
    try {
      if (most < 2) return [await pass(this.log, jobOf({ from, through }), this.#onBytes, this.signal)];
      const stop = () => {
        for (const thread of this.#threads) thread.stop().catch(() => undefined);
      };
      this.signal.addEventListener('abort', stop, { once: true });
      const ends = Array.from({ length: most }, (_, i) => from - 1 + Math.floor((events * (i + 1)) / most));
      const answers = ends.map((end, i) => {
        const thread = (this.#threads[i] ??= new LogThread(
          new URL('pass-thread.js', import.meta.url),
          { workerData: { dataDir: this.dataDir } },
          ({ bytes }) => this.#onBytes(bytes),
        ));
        return thread.do(jobOf({ from: (ends[i - 1] ?? from - 1) + 1, through: end }));
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
