/** The thread that sums records while the one that started it writes them (catalogue/summing.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { type DueRecord, runInLog, Summer } from '../catalogue/summing.js';
import { openStore } from '../store/open-to-read.js';
import { endBy } from './log-thread.js';

const { dataDir, before } = workerData as { readonly dataDir: string; readonly before: number };
const log = openStore(dataDir).events;
const summer = new Summer(log, async (organisation, eventId) => {
  const run = await runInLog(log, before, organisation, eventId);
  return run === null ? 'unknown' : { run };
});

let last = Promise.resolve();
parentPort?.on('message', (records: readonly DueRecord[]) => {
  last = last.then(async () => parentPort?.postMessage({ answer: await summer.sum(records) }));
  last.catch(endBy);
});
