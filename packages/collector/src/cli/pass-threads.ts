/** Threads that pass a part of the log each, while the main one passes the last: a large log is grouped that much sooner. */
import os from 'node:os';
import { Worker } from 'node:worker_threads';
import type { PassedPart, PassSettings } from '../records/log-pass.js';
import type { PassElsewhere } from '../records/group-maker.js';
import type { LogPart } from '../store/event-places.js';
import { revived } from './record-threads.js';

export interface PassJob {
  readonly dataDir: string;
  readonly number: number;
  readonly part: LogPart;
  readonly settings: PassSettings;
}

export type PassTold = { readonly address: number } | { readonly passed: PassedPart };

/** In less, a part is passed before a thread has started. */
const BYTES_TO_A_THREAD = 32 << 20;
const MOST_THREADS = 3;

/** @param bytes of log. */
export function passThreads(dataDir: string, bytes: number, signal: AbortSignal): PassElsewhere {
  return {
    threads: Math.min(MOST_THREADS, os.availableParallelism() - 1, Math.floor(bytes / BYTES_TO_A_THREAD)),
    pass: (parts, settings, onPassed) =>
      parts.map((part, number) =>
        passIn({ dataDir, number, part, settings }, signal, (address) => onPassed(number, address)),
      ),
  };
}

function passIn(
  workerData: PassJob,
  signal: AbortSignal,
  onPassed: (address: number) => void,
): Promise<PassedPart> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('pass-thread.js', import.meta.url), { workerData });
    const stop = () => {
      reject(signal.reason as Error);
      worker.terminate().catch(reject);
    };
    signal.addEventListener('abort', stop, { once: true });
    worker.on('message', (told: PassTold) => {
      if ('passed' in told) resolve(told.passed);
      else onPassed(told.address);
    });
    worker.on('error', (error: Error) => reject(revived(error)));
    worker.on('exit', () => {
      signal.removeEventListener('abort', stop);
      reject(new Error('a thread that passes a part of the log has ended'));
    });
  });
}
