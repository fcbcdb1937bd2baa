/** The thread that passes a part of the log, or sorts some of what was noted (group-threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { sortShare } from '../records/group-maker.js';
import { LogPass } from '../records/log-pass.js';
import { nodeFiles } from '../store/embedded/files.js';
import { LogPlaces } from '../store/embedded/log-places.js';
import type { GroupJob, GroupTold } from './group-threads.js';

const { dataDir, job } = workerData as GroupJob;
const tell = (told: GroupTold) => parentPort?.postMessage(told);
if ('part' in job) {
  const log = LogPlaces.forPassing(dataDir, nodeFiles);
  const pass = new LogPass(job.number, job.settings);
  const done = await pass.run(log, job.part, (address) => tell({ address }));
  await log.close();
  tell({ done });
} else {
  const log = LogPlaces.forReading(dataDir, nodeFiles);
  const done = await sortShare(log, job.files, job.settings);
  await log.close();
  tell({ done });
}
