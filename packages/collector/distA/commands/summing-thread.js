/** The thread that sums records while the one that started it writes them (catalogue/summing.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { runInLog, Summer, unpackJob } from '../catalogue/summing.js';
import { openStore } from '../store/open-to-read.js';
import { endBy } from './log-thread.js';
const { dataDir } = workerData;
const log = openStore(dataDir).events;
let taken = 0;
const summer = new Summer(log, async (organisation, eventId) => {
    const run = await runInLog(log, taken, organisation, eventId);
    return run === null ? 'unknown' : { run };
});
let last = Promise.resolve();
parentPort?.on('message', (job) => {
    last = last.then(async () => {
        const { records, before } = unpackJob(job);
        taken = before;
        parentPort?.postMessage({ answer: JSON.stringify(await summer.sum(records)) });
    });
    last.catch(endBy);
});
//# sourceMappingURL=summing-thread.js.map