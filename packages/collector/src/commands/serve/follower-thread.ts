/**
 * The thread that keeps the catalogue up to date. It reads the log after the ledger's thread, which never
 * waits for it, and rests while many events arrive. Errors are reported and retried: the catalogue is
 * derived, and each command that uses it also updates it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { Catalogue, CatalogueBusy, type Tally, catalogueDirectory } from '../../catalogue/catalogue.js';
import { LedgerCounters } from '../../ledger/ledger-counters.js';
import type { EventLog } from '../../store/contract/events.js';
import { openStore } from '../../store/open-to-read.js';

/* Rest periods, so that the reader does not take resources from events. */

/** Above this rate a collector may need all processors. */
export const BUSY_EVENTS_A_SECOND = 5000;
/** Up to this rate a collector needs almost no processor time. */
export const IDLE_EVENTS_A_SECOND = 500;
/**
 * Rest per millisecond of work. The thread uses half of one processor, or a hundredth while the collector is
 * busy.
 */
const REST = 1;
const BUSY_REST = 99;

/**
 * @param workedMs working time since the last rest.
 * @param arrived events stored within `overMs`, which includes that rest and the work.
 * @returns milliseconds to rest.
 */
export function restAfter(workedMs: number, arrived: number, overMs: number): number {
  const perSecond = (arrived * 1000) / overMs;
  if (perSecond <= IDLE_EVENTS_A_SECOND) return 0;
  return workedMs * (perSecond > BUSY_EVENTS_A_SECOND ? BUSY_REST : REST);
}

export interface FollowerData {
  readonly dataDir: string;
  /** Counters of the ledger's thread, including the number of durable entries. */
  readonly counters: SharedArrayBuffer;
}

/** State of the follower. */
export interface FollowerState {
  /** Undefined before the first count. */
  readonly tally?: Tally;
  /** Why the last update failed. */
  readonly trouble?: string;
}

/** Number of entries in about 50 ms of work, which is done between two rests under full load. */
const MOST_ENTRIES = 4096;
/** Maximum duration of an update, so that a new load is noticed. */
const SLICE_MS = 200;
/** Interval between checks for new events when there are none, and between tallies. */
const EVERY_MS = 2000;
/**
 * The log's reader is replaced after this many entries: it keeps 22 bytes per event that the id index lacks.
 */
const ENTRIES_OF_A_READER = 1 << 20;
/** How long to wait for another process that writes the catalogue and makes no progress. */
const WAIT_MS = 15_000;
const WINDOW_MS = 30 * 86_400_000;
const FIRST_PAUSE_MS = 5000;
const MOST_PAUSE_MS = 300_000;

class Follower {
  #log: EventLog | undefined;
  #catalogue: Catalogue | undefined;
  /** The sequence at which the log's reader began. */
  #from = 0;
  /** The next sequence after the last update. */
  #reached = 0;
  /** Whether that update was complete and settled all rows. */
  #isThrough = false;

  constructor(private readonly dataDir: string) {}

  /**
   * Adds some of the entries up to `entries`.
   * @returns whether all of them are in the catalogue.
   * @throws any error of the catalogue or the log.
   */
  async follow(entries: number): Promise<boolean> {
    const log = (this.#log ??= openStore(this.dataDir).events);
    if (log.ledgerId === '') return true;
    const catalogue = (this.#catalogue ??= Catalogue.open({
      ...{ directory: catalogueDirectory(this.dataDir), ledgerId: log.ledgerId, names: log.names },
      ...{ mostEntries: MOST_ENTRIES, waitMs: WAIT_MS },
    }));
    const isUpToDate = catalogue.isCurrent && !catalogue.hasRemnants && catalogue.cursor.sequence > entries;
    if (this.#isThrough && isUpToDate) return true;
    const { cursor, complete } = await this.#update(catalogue, log, entries);
    if (this.#from === 0) this.#from = cursor.sequence;
    this.#reached = cursor.sequence;
    if (cursor.sequence - this.#from > ENTRIES_OF_A_READER || cursor.sequence < this.#from)
      await this.#reread();
    return (this.#isThrough = complete);
  }

  tally(): Tally | undefined {
    return this.#catalogue?.tally(Date.now() - WINDOW_MS);
  }

  /** Reopens the log, and also the catalogue unless the next update rebuilds it. */
  async reset(): Promise<void> {
    await this.#reread();
    if (this.#catalogue?.isCurrent === false) return;
    this.#catalogue?.close();
    this.#catalogue = undefined;
  }

  async #update(catalogue: Catalogue, log: EventLog, through: number) {
    try {
      return await catalogue.update(log, { through, budgetMs: SLICE_MS, isLazy: true });
    } catch (error) {
      if (!(error instanceof CatalogueBusy) || catalogue.cursor.sequence === this.#reached) throw error;
      // A command is updating the catalogue from a long log meanwhile.
      return { cursor: catalogue.cursor, complete: false };
    }
  }

  async #reread(): Promise<void> {
    this.#from = 0;
    await this.#log?.close();
    this.#log = undefined;
  }
}

async function main(port: MessagePort, { dataDir, counters }: FollowerData): Promise<never> {
  const ledger = new LedgerCounters(counters);
  const follower = new Follower(dataDir);
  let known = ledger.read().entries;
  let lookedAt = performance.now();
  let reportedAt = -Infinity;
  let pause = FIRST_PAUSE_MS;
  for (;;) {
    const began = performance.now();
    const { entries } = ledger.read();
    let rest: number;
    try {
      const isThrough = await follower.follow(entries);
      const ended = performance.now();
      rest = restAfter(ended - began, entries - known, ended - lookedAt);
      if (isThrough) rest = Math.max(EVERY_MS, rest);
      lookedAt = ended;
      known = entries;
      pause = FIRST_PAUSE_MS;
      if (began - reportedAt >= EVERY_MS) {
        port.postMessage(stateOf(follower.tally()));
        reportedAt = began;
      }
    } catch (error) {
      port.postMessage({ trouble: reasonOf(error) } satisfies FollowerState);
      await follower.reset().catch(() => undefined);
      rest = pause;
      pause = Math.min(2 * pause, MOST_PAUSE_MS);
    }
    await sleep(rest);
  }
}

function stateOf(tally: Tally | undefined): FollowerState {
  return tally === undefined ? {} : { tally };
}

/** The message of a JSON parser would repeat part of the event. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return error.name === 'SyntaxError' ? 'an event is not JSON' : error.message;
}

if (parentPort) await main(parentPort, workerData as FollowerData);
