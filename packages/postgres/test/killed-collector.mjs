/**
 * A collector without HTTP, to be killed at any moment: `node killed-collector.mjs STORE DATA_DIR SIGNING_KEYS`. It stores
 * batches of its own, each repeatedly until it is acknowledged, then writes the ids of its events on one line. It gives
 * places and signs, as every collector does. SIGTERM ends it in order.
 */
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLedger } from '../../collector/dist/commands/serve/open-ledger.js';
import { CommitUnknown, NotCommitted } from '../../collector/dist/store/contract/events.js';
import { candidate, idOf } from '../../collector/test/store/candidate.ts';

const SENDERS = 2;
const EVENTS = 8;

const [store, dataDir, signingKeys] = process.argv.slice(2);
let isStopping = false;
process.on('SIGTERM', () => (isStopping = true));
fs.mkdirSync(dataDir, { recursive: true });
const silent = () => undefined;
const ledger = await openLedger(
  {
    ...{ dataDir, store, signingKeys, logOrigin: '' },
    ...{ segmentBytes: 0, lock: { id: '', path: '' }, checkpointIntervalMs: 100 },
    ...{ encryption: 'auto', encryptionKeys: '', kek: '' },
  },
  {
    ...{ onTrouble: silent, onNotice: silent, onCheckpoint: silent },
    onAlarm: (about, what, reason) => fs.writeSync(2, `${about}: ${what}: ${reason}\n`),
  },
);
await Promise.all(Array.from({ length: SENDERS }, send));
await ledger.sequencer.close();
await ledger.store.close();

async function send() {
  while (!isStopping) {
    const batch = Array.from({ length: EVENTS }, () => candidate());
    while (!(await isStored(batch))) await sleep(20);
    // Synchronously, so that the line is read also if this process is killed next.
    fs.writeSync(1, `${batch.map(idOf).join(' ')}\n`);
  }
}

async function isStored(batch) {
  try {
    await ledger.store.append(batch);
    return true;
  } catch (error) {
    if (error instanceof NotCommitted || error instanceof CommitUnknown) return false;
    throw error;
  }
}
