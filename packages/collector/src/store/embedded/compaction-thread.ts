/** Compacts a log beside the collector that writes it, at a rate at which neither disk nor processor is lacking to it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { compactLog } from './compaction.js';

export interface CompactionThreadData {
  readonly dataDir: string;
  /** As in `Erasure`, with the events as text. */
  readonly erasures: readonly {
    readonly sequence: number;
    readonly entryId: string;
    readonly erased: string;
  }[];
}

/** A segment that stays as it was. */
export interface CompactionTrouble {
  readonly trouble: unknown;
}

/** Of a slice, some 512 KiB: at most 16 MiB are read in a second. */
const SLICE_MS = 32;

async function main({ dataDir, erasures }: CompactionThreadData): Promise<void> {
  let began = performance.now();
  await compactLog(
    dataDir,
    erasures.map((each) => ({ ...each, erased: SequenceSet.fromText(each.erased) ?? SequenceSet.EMPTY })),
    {
      async pause() {
        const worked = performance.now() - began;
        await sleep(Math.max(worked, SLICE_MS - worked));
        began = performance.now();
      },
      onTrouble(trouble) {
        const said: CompactionTrouble = { trouble };
        parentPort?.postMessage(said);
      },
    },
  );
}

if (parentPort) await main(workerData as CompactionThreadData);
