/**
 * The thread that encrypts the names in the catalogue with a new key while the ledger's thread stores events.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { catalogueDirectory, resealCatalogue } from '../../catalogue/catalogue.js';
import { openStore } from '../../store/open-to-read.js';
import { endBy } from '../log-thread.js';
import { messageOf } from '../../system-code.js';

const dataDir = workerData as string;
parentPort?.on('message', () => {
  const note = (error: unknown) => parentPort?.postMessage({ note: messageOf(error) });
  resealCatalogue(catalogueDirectory(dataDir), openStore(dataDir).events, note)
    .then(() => parentPort?.postMessage({ answer: undefined }))
    .catch(endBy);
});
