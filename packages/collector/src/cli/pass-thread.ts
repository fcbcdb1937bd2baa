/** The thread that passes a part of the log (pass-threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { LogPass } from '../records/log-pass.js';
import { nodeFiles } from '../store/embedded/files.js';
import { LogPlaces } from '../store/embedded/log-places.js';
import type { PassJob, PassTold } from './pass-threads.js';

const { dataDir, number, part, settings } = workerData as PassJob;
const tell = (told: PassTold) => parentPort?.postMessage(told);
const log = LogPlaces.forPassing(dataDir, nodeFiles);
const passed = await new LogPass(number, settings).run(log, part, (address) => tell({ address }));
await log.close();
tell({ passed });
