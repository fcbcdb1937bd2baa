/** Compacts a log in the background, at a rate that leaves disk and processor to the collector. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { compactLog } from './compaction.js';

export interface CompactionThreadData {
  readonly dataDir: string;
  /** Like `Erasure`, with the events as text. */
  readonly erasures: readonly {
    readonly sequence: number;
    readonly entryId: string;
    readonly erased: string;
  }[];
}

/** The error of a segment that stays unchanged. */
export interface CompactionTrouble {
  readonly trouble: unknown;
}

/** Minimum time for a slice of about 512 KiB, which limits reading to 16 MiB a second. */
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
