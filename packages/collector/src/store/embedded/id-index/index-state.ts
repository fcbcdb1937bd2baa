/** Reads the state of the id index on disk. Changes nothing. */
import path from 'node:path';
import { exists } from '../../../files.js';
import { IdIndexReader } from './sorted-runs.js';

/**
 * The address up to which the index covers the log, which was durable up to there (id-index.ts, invariant 1).
 */
export function publishedTo(dataDirectory: string): number {
  const directory = path.join(dataDirectory, 'index');
  if (!exists(directory)) return 0;
  const index = IdIndexReader.read({ directory, verify: false });
  const { coveredTo } = index;
  index.close().catch(() => undefined);
  return coveredTo;
}

export interface IndexState {
  /** Bytes of events that it covers; all of them were durable. */
  readonly coveredTo: number;
  readonly damaged: boolean;
}

/** The state for `collector doctor`; undefined if there is no index. */
export function indexState(dataDirectory: string): IndexState | undefined {
  const directory = path.join(dataDirectory, 'index');
  if (!exists(directory)) return undefined;
  let damaged = false;
  const index = IdIndexReader.read({ directory, onError: () => (damaged = true) });
  const { coveredTo } = index;
  index.close().catch(() => undefined);
  return { coveredTo, damaged };
}
