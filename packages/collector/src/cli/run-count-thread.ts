/**
 * The thread that counts how complete the newest runs are (records/completeness-window.ts). It reads the log behind the
 * ledger's thread, which does nothing for it and never waits for it; at most a tenth of one processor is used, so while
 * more comes than that can look at, the counts are of a while ago, and say so.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { LedgerCounters } from '../ledger/ledger-counters.js';
import { CompletenessWindow, MOST_EVENTS, type RunCounts } from '../records/completeness-window.js';
import { nodeFiles } from '../store/embedded/files.js';
import { LogFollower } from '../store/embedded/log-follower.js';

export interface RunCountData {
  readonly dataDir: string;
  /** What the ledger's thread counts in, among it the events that are durable. */
  readonly counters: SharedArrayBuffer;
}

const SLICE_MS = 20;
/** Time at rest for each millisecond of work. */
const REST = 9;
/** Between two looks for new events, once all are counted. */
const EVERY_MS = 2000;
/** The clock is asked after so many events. */
const EVENTS_AT_ONCE = 32;

async function main(port: MessagePort, { dataDir, counters }: RunCountData): Promise<never> {
  const ledger = new LedgerCounters(counters);
  const follower = new LogFollower(dataDir, nodeFiles, Math.max(1, ledger.read().events - MOST_EVENTS + 1));
  const window = new CompletenessWindow();
  let told: RunCounts | undefined;
  let toldAt = -Infinity;
  for (;;) {
    const began = performance.now();
    const { events } = ledger.read();
    const isThrough = take(follower.read(events), window, began + SLICE_MS);
    // Days go by without events too.
    if (told === undefined || began - toldAt >= EVERY_MS) {
      told = window.count(Date.now());
      toldAt = began;
      port.postMessage(told);
    }
    const worked = performance.now() - began;
    await sleep(isThrough ? Math.max(EVERY_MS, REST * worked) : REST * worked);
  }
}

/** @returns whether there are no more. */
function take(events: ReturnType<LogFollower['read']>, window: CompletenessWindow, until: number): boolean {
  let taken = 0;
  for (const event of events) {
    window.add(event);
    if (++taken % EVENTS_AT_ONCE === 0 && performance.now() >= until) return false;
  }
  return true;
}

if (parentPort) await main(parentPort, workerData as RunCountData);
