/** The thread that sums records while the one that started it writes them (catalogue/summing.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { runInLog, Summer, type SummingJob } from '../catalogue/summing.js';
import { openStore } from '../store/open-to-read.js';
import { endBy } from './log-thread.js';

const { dataDir } = workerData as { readonly dataDir: string };
const log = openStore(dataDir).events;
let taken = 0;
const summer = new Summer(log, async (organisation, eventId) => {
  const run = await runInLog(log, taken, organisation, eventId);
  return run === null ? 'unknown' : { run };
});

let last = Promise.resolve();
parentPort?.on('message', ({ records, before }: SummingJob) => {
  last = last.then(async () => {
    taken = before;
    parentPort?.postMessage({ answer: await summer.sum(records) });
  });
  last.catch(endBy);
});
