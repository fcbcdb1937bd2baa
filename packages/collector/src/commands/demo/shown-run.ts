/** One run as a person reads it, for a command that has just had it stored. */
import { openCatalogue, recordsIn } from '../catalogue.js';
import { noteReading } from '../access-log.js';
import { outputColumns, timeline } from '../records/timeline.js';

export interface RunToShow {
  readonly command: string;
  readonly runId: string;
  readonly organisation: string;
}

/**
 * The reading is noted in the access log.
 * @returns its record as text; empty when the log does not have the run.
 * @throws CommandFailure when the log cannot be read, or the reading cannot be noted.
 */
export async function shownRun(dataDir: string, run: RunToShow): Promise<string> {
  const { command, runId, organisation } = run;
  const givenOut = noteReading(dataDir, { command, filter: { run: runId, organisation } });
  const access = await openCatalogue({ dataDir, quiet: true, signal: new AbortController().signal });
  try {
    let text = '';
    for await (const record of recordsIn(access, { recordId: runId, organisation })) {
      text += timeline(record, outputColumns());
      givenOut.events += record.metadata.events.length;
    }
    givenOut.complete = true;
    return text;
  } finally {
    await access.close();
  }
}
