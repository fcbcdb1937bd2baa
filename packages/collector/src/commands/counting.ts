/** Counts records while a thread reads the next pages of the catalogue. */
import type { Catalogue, RunFilter } from '../catalogue/catalogue.js';
import type { PageQuery, PageRange, PageRows, ReadPage } from '../catalogue/questions.js';
import type { CountedRun } from '../records/counted-run.js';
import { LogThread } from './log-thread.js';
import type { PageThreadData } from './page-thread.js';

/** With fewer events, starting a thread does not pay off. */
const FROM_EVENTS = 500_000;

export interface PageReader {
  readonly read: ReadPage;
  stop(): Promise<void>;
}

/** @param sequence the state of the catalogue; the thread does not read pages of another state. */
export function startReading(file: string, sequence: number, query: PageQuery): PageReader {
  const workerData: PageThreadData = { file, sequence, query };
  const thread = new LogThread<PageRange, PageRows | null>(new URL('page-thread.js', import.meta.url), {
    workerData,
  });
  return { read: (range) => thread.do(range).catch(() => null), stop: () => thread.stop() };
}

/** Like `Catalogue.counted`. */
export async function* countedRecords(
  catalogue: Catalogue,
  filter: RunFilter,
  visit: (record: CountedRun) => void,
): AsyncGenerator<number> {
  let reader: PageReader | undefined;
  const start = (file: string, sequence: number, query: PageQuery) =>
    (reader = startReading(file, sequence, query)).read;
  try {
    yield* catalogue.counted(filter, visit, catalogue.cursor.sequence > FROM_EVENTS ? start : undefined);
  } finally {
    await reader?.stop();
  }
}
