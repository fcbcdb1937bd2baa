/**
 * Threads that pass a part of the log each, and then sort a share of what was noted, while the main one does the same
 * with the last part and with its own share: a large log is grouped that much sooner.
 */
import os from 'node:os';
import { Worker } from 'node:worker_threads';
import type { GroupElsewhere } from '../records/group-maker.js';
import type { PassedPart, PassSettings } from '../records/log-pass.js';
import type { SortedNumbers, SortSettings } from '../records/run-sorter.js';
import type { LogPlaces, PlacesShare } from '../store/open.js';
import type { LogPart } from '../store/event-places.js';
import { revived } from './record-threads.js';

interface PassJob {
  readonly number: number;
  readonly part: LogPart;
  readonly settings: PassSettings;
}

interface SortJob {
  readonly files: readonly number[];
  readonly settings: SortSettings;
}

export interface GroupJob {
  readonly dataDir: string;
  readonly places: PlacesShare;
  readonly job: PassJob | SortJob;
}

export type GroupTold = { readonly address: number } | { readonly done: PassedPart | SortedNumbers };

/** In less, a part is passed before a thread has started. */
const BYTES_TO_A_THREAD = 32 << 20;
const MOST_THREADS = 3;

export function groupThreads(dataDir: string, log: LogPlaces, signal: AbortSignal): GroupElsewhere {
  const { extent: bytes, share: places } = log;
  return {
    threads: Math.min(MOST_THREADS, os.availableParallelism() - 1, Math.floor(bytes / BYTES_TO_A_THREAD)),
    pass: (parts, settings, onPassed) =>
      parts.map((part, number) =>
        done<PassedPart>({ dataDir, places, job: { number, part, settings } }, signal, (address) =>
          onPassed(number, address),
        ),
      ),
    sort: (shares, settings) =>
      shares.map((files) => done<SortedNumbers>({ dataDir, places, job: { files, settings } }, signal)),
  };
}

/** Does the job in a thread of its own. */
function done<Done extends PassedPart | SortedNumbers>(
  workerData: GroupJob,
  signal: AbortSignal,
  onPassed?: (address: number) => void,
): Promise<Done> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('group-thread.js', import.meta.url), { workerData });
    const stop = () => {
      reject(signal.reason as Error);
      worker.terminate().catch(reject);
    };
    signal.addEventListener('abort', stop, { once: true });
    worker.on('message', (told: GroupTold) => {
      if ('done' in told) resolve(told.done as Done);
      else onPassed?.(told.address);
    });
    worker.on('error', (error: Error) => reject(revived(error)));
    worker.on('exit', () => {
      signal.removeEventListener('abort', stop);
      reject(new Error('a thread that groups events has ended'));
    });
  });
}
