/** One run as a person reads it, for a command that has just had it stored. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { nodeFiles } from '../files.js';
import { recordsOf, windowsOf } from '../records/record-windows.js';
import { RunGroups } from '../records/run-groups.js';
import { LogPlaces } from '../store/open.js';
import { noteReading } from './noted-reading.js';
import { outputColumns, timeline } from './record-timeline.js';

export interface RunToShow {
  readonly command: string;
  readonly runId: string;
  readonly organisation: string;
}

/**
 * The reading is noted in the access log.
 * @returns its record as text; empty when the log does not have the run.
 * @throws StoreDamaged; CommandFailure when the reading cannot be noted.
 */
export async function shownRun(dataDir: string, run: RunToShow): Promise<string> {
  const { command, runId, organisation } = run;
  const givenOut = noteReading(dataDir, { command, filter: { run: runId, organisation } });
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-records-'));
  const log = new LogPlaces(dataDir, nodeFiles);
  try {
    const groups = await RunGroups.of(log, { recordId: runId, organisation }, { scratch });
    let text = '';
    for (const window of windowsOf(groups.runs())) {
      for (const record of await recordsOf(log, window, (at) => groups.linksOf(window[at]))) {
        text += timeline(record, outputColumns());
        givenOut.events += record.metadata.events.length;
      }
    }
    givenOut.complete = true;
    return text;
  } finally {
    await log.close();
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}
