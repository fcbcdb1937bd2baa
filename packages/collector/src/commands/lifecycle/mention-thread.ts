/** The thread that looks for ids in a stretch of the log: several can do so beside each other (mentions.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { openStore } from '../../store/open-to-read.js';
import { mentionsIn, type SearchAnswer, type SearchSettings } from './mentions.js';

const { dataDir, ...search } = workerData as SearchSettings;
const tell = (answer: SearchAnswer) => parentPort?.postMessage(answer);
const log = openStore(dataDir).events;
const found = await mentionsIn(log, search, (bytes) => tell({ bytes }));
await log.close();
tell({ found });
