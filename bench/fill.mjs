/**
 * Fills a ledger up to a number of events, through the collector's own store and not over HTTP.
 *
 *   node bench/fill.mjs <data directory> <events> <key id>
 *
 * Prints what it did as one line of JSON; an interrupted fill goes on where it stopped.
 */
import { hash, randomFillSync } from 'node:crypto';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { DIST } from './lib/collector.mjs';
import { ID_LENGTH, KIND, newEvent, RUN_ID_BYTES, shapeOf } from './lib/event.mjs';
import { whole } from './lib/numbers.mjs';

const BATCH = 512;
const TELL_EVERY_MS = 5000;
/** The index may need a moment to write what it holds in memory. */
const RETRIES = 600;
const RETRY_AFTER_MS = 100;

const load = (file) => import(pathToFileURL(path.join(DIST, file)));
const { EmbeddedStore } = await load('store/embedded/embedded-store.js');
const { lockDirectory } = await load('store/embedded/directory-lock.js');
const { loadConfig } = await load('config.js');

const [directory, wanted, keyId] = process.argv.slice(2);
const total = Number(wanted);
const lock = lockDirectory(directory);
const { segmentBytes } = loadConfig({}, {});
const onTrouble = (what, error) => console.error(`fill: ${what}: ${error}`);
const store = await EmbeddedStore.open({ directory, segmentBytes, onTrouble });

const idAt = shapeOf().before.length;
const random = Buffer.alloc(16 * BATCH);
const batch = Array.from({ length: BATCH }, (_, i) => ({
  kind: KIND,
  profile: 'minimum',
  organisation: 'default',
  keyId,
  receivedAt: 0,
  eventId: random.subarray(16 * i, 16 * (i + 1)),
  runId: RUN_ID_BYTES,
  digest: '',
  body: Buffer.from(newEvent()),
}));

function renew(event, now) {
  const { eventId, body } = event;
  eventId[6] = (eventId[6] & 0x0f) | 0x40;
  eventId[8] = (eventId[8] & 0x3f) | 0x80;
  const hex = eventId.hexSlice();
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)];
  body.write(groups.join('-'), idAt, ID_LENGTH, 'latin1');
  event.receivedAt = now;
  event.digest = hash('sha256', body, 'hex');
}

async function append(candidates) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await store.append(candidates);
    } catch (error) {
      if (error.name !== 'NotCommitted' || attempt === RETRIES) throw error;
      await sleep(RETRY_AFTER_MS);
    }
  }
}

const before = store.opened.events;
const since = performance.now();
let told = since;
let events = before;
let stopped = false;
process.on('SIGTERM', () => (stopped = true)).on('SIGINT', () => (stopped = true));
while (events < total && !stopped) {
  randomFillSync(random);
  const now = Date.now();
  const candidates = total - events >= BATCH ? batch : batch.slice(0, total - events);
  for (const event of candidates) renew(event, now);
  const outcomes = await append(candidates);
  if (outcomes.some((outcome) => outcome !== 'accepted')) throw new Error('an event was not new');
  events += candidates.length;
  if (performance.now() - told >= TELL_EVERY_MS) {
    told = performance.now();
    const rate = (events - before) / ((told - since) / 1000);
    console.error(`fill: ${whole(events)} of ${whole(total)} events, ${whole(rate)} a second`);
  }
  // Lets signals and the index's own work have their turn.
  await new Promise(setImmediate);
}
const seconds = (performance.now() - since) / 1000;
await store.close();
lock.release();
console.log(JSON.stringify({ events, appended: events - before, seconds }));
if (stopped) process.exit(1);
