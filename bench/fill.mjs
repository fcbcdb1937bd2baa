/**
 * Fills a log up to a number of events, or with the lines of a file for `collector import`, through the
 * collector's store and sequencer, without HTTP.
 *
 *   node bench/fill.mjs <data directory> <events> <key id> [--encrypted]
 *   node bench/fill.mjs <data directory> <file> <key id> [organisation] [--encrypted]
 *
 * Prints its numbers as a line of JSON. An interrupted fill is continued by the next one.
 */
import { randomFillSync } from 'node:crypto';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { SALT_BYTES } from '@clinical-events/protocol';
import { signedSize } from './lib/checkpoint.mjs';
import { DIST } from './lib/collector.mjs';
import { ID_LENGTH, KIND, newEvent, RUN_ID_BYTES, shapeOf } from './lib/event.mjs';
import { whole } from './lib/numbers.mjs';

/** The largest batch of the collector. */
const BATCH = 1024;
const TELL_EVERY_MS = 5000;
/** The index needs time to write its tables. */
const RETRIES = 600;
const RETRY_AFTER_MS = 100;

const load = (file) => import(pathToFileURL(path.join(DIST, file)));
const { loadConfig } = await load('config.js');
const { LineInput } = await load('importing/lines.js');
const { readLine } = await load('importing/offered-line.js');
const { examine } = await load('ledger/examine.js');
const { commitmentOf } = await load('tree/merkle.js');
const { fillSalt } = await load('ledger/salt.js');
const { Sequencer } = await load('ledger/sequencer.js');
const { SigningKeys } = await load('tree/signing-keys.js');
const { lockDirectory } = await load('store/directory-lock.js');
const { EmbeddedStore } = await load('store/embedded/embedded-store.js');
const { nodeFiles } = await load('files.js');
const { frameSize } = await load('store/embedded/frame.js');
const { openKeys } = await load('privacy/open-keys.js');
const { TreeFiles } = await load('store/embedded/tree-files.js');

const isEncrypted = process.argv.at(-1) === '--encrypted';
const [directory, wanted, keyId, organisation = 'default'] = process.argv.slice(
  2,
  isEncrypted ? -1 : undefined,
);
const total = /^\d+$/.test(wanted) ? Number(wanted) : undefined;
const config = loadConfig({ 'data-dir': directory }, {});
const lock = lockDirectory(directory);
const onTrouble = (what, error) => console.error(`fill: ${what}: ${error}`);
let signed = signedSize(directory) ?? 0;
async function keysOf(ledgerId) {
  const places = { directories: [path.join(directory, 'encryption-keys')], kek: '' };
  for (const each of places.directories) nodeFiles.makeDirectory(each);
  return openKeys({ places, ledgerId, onTrouble });
}

// Assembled as in the collector (commands/serve/ledger-thread.ts).
const store = await EmbeddedStore.open({
  directory,
  segmentBytes: config.segmentBytes,
  vouchedEntries: signed,
  onTrouble,
  ...(isEncrypted && { encryption: { suite: 1, openKeys: keysOf } }),
});
const sequencer = await Sequencer.open({
  store: TreeFiles.open(directory, nodeFiles),
  signer: SigningKeys.openOrCreate({
    dataDir: directory,
    directory: config.signingKeys,
    origin: () => `collector/${store.opened.ledgerId}`,
    onTrouble,
  }),
  committed: store.committed,
  intervalMs: config.checkpointIntervalMs,
  onCheckpoint: (note) => (signed = Number(note.split('\n')[1])),
  onTrouble,
});

const idAt = SALT_BYTES + shapeOf().before.length;
const random = Buffer.alloc(16 * BATCH);
const batch = Array.from({ length: BATCH }, (_, i) => ({
  kind: KIND,
  profile: 'minimum',
  door: 'endpoint',
  organisation: 'default',
  keyId,
  receivedAt: 0,
  eventId: random.subarray(16 * i, 16 * (i + 1)),
  runId: RUN_ID_BYTES,
  // The kind follows from the body.
  parentId: RUN_ID_BYTES,
  salted: Buffer.concat([Buffer.alloc(SALT_BYTES), Buffer.from(newEvent())]),
  commitment: Buffer.alloc(0),
}));

function renew(event, now) {
  const { eventId, salted } = event;
  eventId[6] = (eventId[6] & 0x0f) | 0x40;
  eventId[8] = (eventId[8] & 0x3f) | 0x80;
  const hex = eventId.hexSlice();
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)];
  salted.write(groups.join('-'), idAt, ID_LENGTH, 'latin1');
  fillSalt(salted);
  event.receivedAt = now;
  event.commitment = commitmentOf(salted);
}

function* newEvents(count) {
  for (let left = count; left > 0; left -= BATCH) {
    randomFillSync(random);
    const now = Date.now();
    const candidates = batch.slice(0, left);
    for (const event of candidates) renew(event, now);
    yield candidates;
  }
}

function candidateOf({ bytes, number }) {
  const { kind, body } = readLine(bytes, { kind: undefined, organisation });
  const ids = body && examine(body, kind, config.profile, config.maxNestingDepth);
  if (ids?.eventId === undefined) throw new Error(`line ${number} holds no event`);
  const salted = Buffer.concat([Buffer.alloc(SALT_BYTES), body]);
  fillSalt(salted);
  const { profile } = config;
  const envelope = { kind, profile, door: 'endpoint', organisation, keyId, receivedAt: Date.now(), ...ids };
  return { ...envelope, salted, commitment: commitmentOf(salted) };
}

async function* eventsIn(file) {
  for await (const lines of new LineInput(file).lines()) {
    for (let at = 0; at < lines.length; at += BATCH) yield lines.slice(at, at + BATCH).map(candidateOf);
  }
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
for await (const candidates of total === undefined ? eventsIn(wanted) : newEvents(total - before)) {
  if (stopped) break;
  const outcomes = await append(candidates);
  const stored = outcomes.filter((outcome) => outcome === 'accepted').length;
  if (total !== undefined && stored < outcomes.length) throw new Error('an event was not new');
  events += stored;
  if (performance.now() - told >= TELL_EVERY_MS) {
    told = performance.now();
    const rate = (events - before) / ((told - since) / 1000);
    const of = total === undefined ? '' : ` of ${whole(total)}`;
    console.error(`fill: ${whole(events)}${of} events, ${whole(rate)} a second`);
  }
  // Gives signals, the sequencer and the index a turn.
  await new Promise(setImmediate);
}
const seconds = (performance.now() - since) / 1000;
await sequencer.close();
await store.close();
lock.release();
const entries = store.opened.entries + events - before;
if (signed !== entries) throw new Error(`the newest checkpoint speaks of ${signed} of ${entries} entries`);
console.log(JSON.stringify({ events, appended: events - before, seconds, frameBytes: frameSize(batch[0]) }));
if (stopped) process.exit(1);
