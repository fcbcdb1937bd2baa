/** The thread that passes a part of the log, or sorts some of what was noted (group-threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { nodeFiles } from '../files.js';
import { sortShare } from '../records/group-maker.js';
import { LogPass } from '../records/log-pass.js';
import { LogPlaces } from '../store/open.js';
import type { GroupJob, GroupTold } from './group-threads.js';

const { dataDir, places, job } = workerData as GroupJob;
const tell = (told: GroupTold) => parentPort?.postMessage(told);
const log = LogPlaces.beside(dataDir, nodeFiles, places);
if ('part' in job) {
  const pass = new LogPass(job.number, job.settings);
  const done = await pass.run(log, job.part, (address) => tell({ address }));
  tell({ done });
} else {
  const done = await sortShare(log, job.files, job.settings);
  tell({ done });
}
await log.close();
