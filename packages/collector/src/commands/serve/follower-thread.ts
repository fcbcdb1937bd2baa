/**
 * The thread that keeps the catalogue up to date. It reads the log after the ledger's thread, which does nothing for it
 * and never waits for it, and rests while many events come (follower-thread.ts). Whatever goes wrong here is reported and tried
 * again: the catalogue is derived, and anyone who asks it brings it up to date as well.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { Catalogue, CatalogueBusy, type Tally, catalogueDirectory } from '../../catalogue/catalogue.js';
import { LedgerCounters } from '../../ledger/ledger-counters.js';
import type { EventLog } from '../../store/contract/events.js';
import { openStore } from '../../store/open-to-read.js';

/* How long a reader of the log rests, so that it takes nothing that events need. */

/** From this rate on, a collector may need all of its processors. */
export const BUSY_EVENTS_A_SECOND = 5000;
/** Up to this rate it needs almost no time. */
export const IDLE_EVENTS_A_SECOND = 500;
/** Time at rest for each millisecond of work: half of one processor, and a hundredth while it is busy. */
const REST = 1;
const BUSY_REST = 99;

/**
 * @param workedMs time that the reader worked since its last rest.
 * @param arrived events that were stored within `overMs`, that rest and the work included.
 * @returns milliseconds.
 */
export function restAfter(workedMs: number, arrived: number, overMs: number): number {
  const perSecond = (arrived * 1000) / overMs;
  if (perSecond <= IDLE_EVENTS_A_SECOND) return 0;
  return workedMs * (perSecond > BUSY_EVENTS_A_SECOND ? BUSY_REST : REST);
}

export interface FollowerData {
  readonly dataDir: string;
  /** What the ledger's thread counts in, among it the entries that are durable. */
  readonly counters: SharedArrayBuffer;
}

/** How the follower does. */
export interface FollowerState {
  /** Undefined before the first count. */
  readonly tally?: Tally;
  /** Why it could not be brought up to date the last time. */
  readonly trouble?: string;
}

/** Some 50 ms of work: what is done under full load between two rests, and at least before it ends. */
const MOST_ENTRIES = 4096;
/** The longest update, so that a load that begins is seen. */
const SLICE_MS = 200;
/** Between two looks for new events, once all are taken in; and between two counts. */
const EVERY_MS = 2000;
/** After this many entries the log's reader begins again: it keeps 22 bytes for each event that the id index lacks. */
const ENTRIES_OF_A_READER = 1 << 20;
/** For another process that writes the catalogue, and takes in nothing. */
const WAIT_MS = 15_000;
const WINDOW_MS = 30 * 86_400_000;
const FIRST_PAUSE_MS = 5000;
const MOST_PAUSE_MS = 300_000;

class Follower {
  #log: EventLog | undefined;
  #catalogue: Catalogue | undefined;
  /** With which sequence the log's reader has begun. */
  #from = 0;
  /** Which sequence came next after the last update. */
  #reached = 0;
  /** Whether that had taken in all, and settled all rows that it had to. */
  #isThrough = false;

  constructor(private readonly dataDir: string) {}

  /**
   * Takes in some of what there is up to an entry.
   * @returns whether that is all.
   * @throws whatever is wrong with the catalogue or the log.
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

  /** Begins again with the log; and with the catalogue, where the next update does not rebuild it. */
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
      // A command that takes in a long log does the work meanwhile.
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

/** A parser's message repeats what it could not read. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'not known';
  return error.name === 'SyntaxError' ? 'an event is not JSON' : error.message;
}

if (parentPort) await main(parentPort, workerData as FollowerData);
