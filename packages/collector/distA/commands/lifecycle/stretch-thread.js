/** The thread that passes stretches of the log (log-stretch.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { openStore } from '../../store/open-to-read.js';
import { endBy } from '../log-thread.js';
import { pass } from './log-stretch.js';
const { dataDir } = workerData;
const { events: log } = openStore(dataDir);
parentPort?.on('message', (job) => {
    pass(log, job, (bytes) => parentPort?.postMessage({ note: { bytes } })).then((answer) => parentPort?.postMessage({ answer }), endBy);
});
//# sourceMappingURL=stretch-thread.js.map