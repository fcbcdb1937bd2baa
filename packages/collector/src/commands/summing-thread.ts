/** The thread that sums records while the main thread writes them. */
import { parentPort, workerData } from 'node:worker_threads';
import { jobsOf } from '../catalogue/summing.js';
import { openStore } from '../store/open-to-read.js';
import { endBy } from './log-thread.js';

const sum = jobsOf(openStore(workerData as string).events);
let last = Promise.resolve();
parentPort?.on('message', (job: Float64Array) => {
  last = last.then(async () => parentPort?.postMessage({ answer: await sum(job) }));
  last.catch(endBy);
});
