/**
 * The thread that counts how complete the newest runs are (records/completeness-window.ts). It reads the log behind the
 * ledger's thread, which does nothing for it and never waits for it; it takes a small part of one processor (rest.ts), so
 * while more comes than that can look at, the counts are of a while ago, and say so.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { LedgerCounters } from '../ledger/ledger-counters.js';
import { CompletenessWindow, MOST_EVENTS, type RunCounts } from '../records/completeness-window.js';
import { openStore } from '../store/open.js';
import { cursorAt, cursorBehind, type Cursor, type EventLog } from '../store/event-log.js';
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
  const log = openStore(dataDir).events;
  let { from, window } = newest(known);
  let told: RunCounts | undefined;
  let toldAt = -Infinity;
  let lookedAt = performance.now();
  for (;;) {
    const began = performance.now();
    const { entries } = ledger.read();
    // Nothing of what it remembers would be left once it had read so far, and it would never get there.
    if (window.through > 0 && entries - window.through > 2 * MOST_EVENTS)
      ({ from, window } = newest(entries));
    let isThrough: boolean;
    ({ from, isThrough } = await take(log, from, entries, window, began + SLICE_MS));
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

/** Where the newest events begin that can be remembered, and what is to remember them. */
function newest(entries: number): { from: Cursor; window: CompletenessWindow } {
  return { from: cursorAt(Math.max(1, entries - MOST_EVENTS + 1)), window: new CompletenessWindow() };
}

/** @returns where to go on, and whether there are no more. */
async function take(
  log: EventLog,
  from: Cursor,
  through: number,
  window: CompletenessWindow,
  until: number,
): Promise<{ from: Cursor; isThrough: boolean }> {
  const pass = log.pass(from, { through });
  for (let taken = 0; ;) {
    const next = await pass.next();
    if (next.done) return { from: next.value, isThrough: true };
    for (const entry of next.value) {
      window.add(entry);
      if (++taken % EVENTS_AT_ONCE !== 0 || performance.now() < until) continue;
      await pass.return(from);
      return { from: cursorBehind(entry), isThrough: false };
    }
  }
}

if (parentPort) await main(parentPort, workerData as RunCountData);
