/** The thread that reads the inputs of `collector import` and examines their events while the main thread stores. */
import { once } from 'node:events';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { BlockPool, type PreparedBatch } from '../importing/batch.js';
import { prepare, type PreparationSettings } from '../importing/preparation.js';

/**
 * What the thread says; the last is `done`. The main thread says nothing but that a batch is stored, by giving back its
 * block.
 */
export type ImportThreadMessage =
  { readonly type: 'batch'; readonly batch: PreparedBatch } | { readonly type: 'done' };

/** Batches that are on their way or being stored: one in work on either side, and one between. */
const BATCHES_AHEAD = 3;

async function main(port: MessagePort, settings: PreparationSettings): Promise<void> {
  let ahead = 0;
  const pool = new BlockPool();
  port.on('message', (block: PreparedBatch['block']) => {
    pool.give(block);
    ahead--;
  });
  for await (const batch of prepare(settings, process.stdin, pool)) {
    const message: ImportThreadMessage = { type: 'batch', batch };
    port.postMessage(message, [batch.block.buffer, batch.table.buffer]);
    ahead++;
    while (ahead >= BATCHES_AHEAD) await once(port, 'message');
  }
  port.postMessage({ type: 'done' } satisfies ImportThreadMessage);
  port.close();
}

if (parentPort) await main(parentPort, workerData as PreparationSettings);
