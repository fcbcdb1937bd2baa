/** The thread that reads ranges of the log (log-pass.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { openStore } from '../../store/open-to-read.js';
import { endBy } from '../log-thread.js';
import { type Job, pass } from './log-pass.js';

const { dataDir } = workerData as { readonly dataDir: string };
const { events: log } = openStore(dataDir);
parentPort?.on('message', (job: Job) => {
  pass(log, job, (bytes) => parentPort?.postMessage({ note: { bytes } })).then(
    (answer) => parentPort?.postMessage({ answer }),
    endBy,
  );
});
