/**
 * The thread that counts how complete the newest runs are (records/completeness-window.ts). It reads the log behind the
 * ledger's thread, which does nothing for it and never waits for it; it takes a small part of one processor (rest.ts), so
 * while more comes than that can look at, the counts are of a while ago, and say so.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { LedgerCounters } from '../ledger/ledger-counters.js';
import { CompletenessWindow, MOST_EVENTS, type RunCounts } from '../records/completeness-window.js';
import { nodeFiles } from '../store/embedded/files.js';
import { LogFollower } from '../store/embedded/log-follower.js';
import { restAfter } from './rest.js';

export interface RunCountData {
  readonly dataDir: string;
  /** What the ledger's thread counts in, among it the events that are durable. */
  readonly counters: SharedArrayBuffer;
}

const SLICE_MS = 20;
/** Between two looks for new events, once all are counted. */
const EVERY_MS = 2000;
/** The clock is asked after so many events. */
const EVENTS_AT_ONCE = 32;

async function main(port: MessagePort, { dataDir, counters }: RunCountData): Promise<never> {
  const ledger = new LedgerCounters(counters);
  let known = ledger.read().entries;
  let { follower, window } = newest(dataDir, known);
  let told: RunCounts | undefined;
  let toldAt = -Infinity;
  let lookedAt = performance.now();
  for (;;) {
    const began = performance.now();
    const { entries } = ledger.read();
    // Nothing of what it remembers would be left once it had read so far, and it would never get there.
    if (window.through > 0 && entries - window.through > 2 * MOST_EVENTS)
      ({ follower, window } = newest(dataDir, entries));
    const isThrough = take(follower.read(entries), window, began + SLICE_MS);
    // Days go by without events too.
    if (told === undefined || began - toldAt >= EVERY_MS) {
      told = window.count(Date.now());
      toldAt = began;
      port.postMessage(told);
    }
    const ended = performance.now();
    const rest = restAfter(ended - began, entries - known, ended - lookedAt);
    known = entries;
    lookedAt = ended;
    await sleep(isThrough ? Math.max(EVERY_MS, rest) : rest);
  }
}

/** A reader of the newest events that can be remembered, and what is to remember them. */
function newest(dataDir: string, entries: number): { follower: LogFollower; window: CompletenessWindow } {
  const from = Math.max(1, entries - MOST_EVENTS + 1);
  return { follower: new LogFollower(dataDir, nodeFiles, from), window: new CompletenessWindow() };
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
