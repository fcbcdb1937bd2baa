/**
 * A reading of records from the catalogue, for `records` and `report`: noted in the access log, and ended by a signal.
 */
import type { ClinicalRecord } from '@clinical-events/protocol';
import {
  type Catalogue,
  type PlacedRecord,
  type RecordSelection,
  unpackEntries,
} from '../catalogue/catalogue.js';
import type { RunLinks } from '../records/record-metadata.js';
import { outsideParents, recordsOf, windowsOf } from '../records/record-windows.js';
import type { RunEvent } from '../records/run-event.js';
import type { EventLog } from '../store/event-log.js';
import { openStore } from '../store/open.js';
import type { Reading } from './access-log.js';
import { failureOf, openCatalogue } from './catalogue-access.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { assertReaches, claimedSize } from './log-checkpoints.js';
import { noteReading, type GivenOut } from './noted-reading.js';
import { ProgressBar } from './progress-bar.js';
import { assertReadable } from './regular-files.js';

export interface RunReadingOptions {
  readonly dataDir: string;
  readonly reading: Reading;
  /** Where a catalogue is made that cannot be in the data directory. */
  readonly tempDir: string | undefined;
  /** Nothing is shown of how far it is. */
  readonly quiet: boolean;
  /** What is said when a signal ends it. */
  readonly interrupted: string;
}

/** What records are made from. */
export interface RecordSource {
  /** Up to date, and the same until the reading ends. */
  readonly catalogue: Catalogue;
  readonly log: EventLog;
}

export interface RunReading extends RecordSource {
  readonly givenOut: GivenOut;
  /** Aborted by a signal. */
  readonly signal: AbortSignal;
  readonly bar: ProgressBar;
}

/** Fewer events are done before anybody wonders. */
const BAR_FROM_EVENTS = 50_000;

/**
 * The reading counts as complete once `use` has returned.
 * @throws CommandFailure when there is no log, when it is damaged or shorter than a checkpoint says, when there is no
 *   catalogue to be had, or when the reading cannot be noted.
 */
export async function readRuns(
  { dataDir, reading, tempDir, quiet, interrupted }: RunReadingOptions,
  use: (reading: RunReading) => Promise<void>,
): Promise<void> {
  assertReadable(dataDir);
  // Asked first: a running collector goes on while the log is read.
  const claimed = await claimedSize(openStore(dataDir).tree);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => stop.abort(new CommandFailure(interrupted, EXIT.interrupted)));
  }
  const givenOut = noteReading(dataDir, reading);
  const { signal } = stop;
  const access = await openCatalogue({ dataDir, tempDir, quiet, signal });
  const wanted = !quiet && process.stderr.isTTY;
  const bar = new ProgressBar({ wanted, unit: 'events', per: 1, from: BAR_FROM_EVENTS, rate: true });
  try {
    const { catalogue, log } = access;
    assertReaches(catalogue.cursor.sequence - 1, claimed);
    await use({ catalogue, log, givenOut, signal, bar });
    givenOut.complete = true;
  } catch (error) {
    throw failureOf(error);
  } finally {
    bar.clear();
    await access.close();
  }
}

/** Records that are made here, one after the other. */
export async function* recordsIn(
  source: RecordSource,
  selection: RecordSelection,
): AsyncGenerator<ClinicalRecord> {
  for (const page of source.catalogue.placed(selection)) {
    const runs = page.map((record) => ({ record, places: unpackEntries(record.chunks()) }));
    for (const window of windowsOf(runs)) {
      const linksAt = (run: number, events: readonly RunEvent[]) =>
        linksOf(source, window[run]?.record, events);
      yield* await recordsOf(source.log, window, linksAt);
    }
  }
}

async function linksOf(
  { catalogue, log }: RecordSource,
  record: PlacedRecord | undefined,
  events: readonly RunEvent[],
): Promise<RunLinks> {
  const runs = new Map<string, string | null | undefined>();
  for (const eventId of outsideParents(events)) {
    const organisation = events[0]?.event.organisation ?? '';
    runs.set(eventId, await runOfEvent({ catalogue, log }, organisation, eventId));
  }
  return {
    parentRunOf: (eventId) => runs.get(eventId),
    children: record?.hasChildren ? catalogue.children(record) : [],
    cycle: record?.isInCircle ? catalogue.cycle(record) : [],
  };
}

/** The run of an event; null when it is of none, undefined when the log does not have it. */
export async function runOfEvent(
  { catalogue, log }: RecordSource,
  organisation: string,
  eventId: string,
): Promise<string | null | undefined> {
  const found = await catalogue.recordOfEvent(log, organisation, eventId);
  return found?.runId;
}
