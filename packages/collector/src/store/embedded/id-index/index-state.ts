/** How far the id index on the disk goes, for `collector doctor`. Changes nothing. */
import path from 'node:path';
import { exists } from '../../../files.js';
import { IdIndexReader } from './sorted-runs.js';

export interface IndexState {
  /** So many bytes of events it covers: all of them were durable. */
  readonly coveredTo: number;
  readonly damaged: boolean;
}

/** @returns undefined when there is none. */
export function indexState(dataDirectory: string): IndexState | undefined {
  const directory = path.join(dataDirectory, 'index');
  if (!exists(directory)) return undefined;
  let damaged = false;
  const index = IdIndexReader.read({ directory, onError: () => (damaged = true) });
  const { coveredTo } = index;
  index.close().catch(() => undefined);
  return { coveredTo, damaged };
}
