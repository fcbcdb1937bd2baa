/**
 * A reading of the runs of a log, for `records` and `report`: noted in the access log, with a directory for temporary
 * files that goes with the process, and ended by a signal.
 */
import fs from 'node:fs';
import path from 'node:path';
import { nodeFiles } from '../files.js';
import { RunGroups, type RunSelection } from '../records/run-groups.js';
import { LogPlaces, openStore } from '../store/open.js';
import { StoreDamaged } from '../store/store.js';
import type { Reading } from './access-log.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { assertReaches, claimedSize } from './log-checkpoints.js';
import { noteReading, type GivenOut } from './noted-reading.js';
import { groupThreads } from './group-threads.js';
import { ProgressBar } from './progress-bar.js';
import { assertReadable } from './regular-files.js';

export interface RunReadingOptions {
  readonly dataDir: string;
  readonly reading: Reading;
  readonly tempDir: string;
  /** Nothing is shown of how far it is. */
  readonly quiet: boolean;
  /** What is said when a signal ends it. */
  readonly interrupted: string;
}

/** Fewer are done before anybody wonders. */
const BAR_FROM_MEBIBYTES = 64;
const BAR_FROM_EVENTS = 50_000;

/**
 * The reading counts as complete once `use` has returned.
 * @throws CommandFailure when there is no log, when it is damaged, or when the reading cannot be noted.
 */
export async function readRuns(
  options: RunReadingOptions,
  use: (reading: RunReading) => Promise<void>,
): Promise<void> {
  assertReadable(options.dataDir);
  // Asked first: a running collector goes on while the log is read.
  const claimed = await claimedSize(openStore(options.dataDir).tree);
  const reading = new RunReading(options, claimed);
  try {
    await use(reading);
    reading.givenOut.complete = true;
  } catch (error) {
    if (!(error instanceof StoreDamaged)) throw error;
    throw new CommandFailure(error.message, EXIT.damaged, { cause: error });
  } finally {
    await reading.log.close();
  }
}

export class RunReading {
  readonly log: LogPlaces;
  readonly givenOut: GivenOut;
  /** Aborted by a signal. */
  readonly signal: AbortSignal;
  readonly #options: RunReadingOptions;
  readonly #scratch: string;

  /** @param claimed what `claimedSize` said before the log is read. */
  constructor(
    options: RunReadingOptions,
    private readonly claimed: number,
  ) {
    const { dataDir, reading, tempDir, interrupted } = options;
    this.#options = options;
    const stop = new AbortController();
    this.signal = stop.signal;
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () => stop.abort(new CommandFailure(interrupted, EXIT.interrupted)));
    }
    this.givenOut = noteReading(dataDir, reading);
    const scratch = fs.mkdtempSync(path.join(tempDir, `collector-${reading.command}-`));
    // Also when the process ends in the middle, because nobody reads on.
    process.once('exit', () => fs.rmSync(scratch, { recursive: true, force: true }));
    this.#scratch = scratch;
    this.log = new LogPlaces(dataDir, nodeFiles);
  }

  /** @throws CommandFailure when a checkpoint says that the log was longer. */
  async group(selection: RunSelection): Promise<RunGroups> {
    const { log, signal } = this;
    const bar = this.#bar('MiB read', 1 << 20, BAR_FROM_MEBIBYTES);
    try {
      const groups = await RunGroups.of(log, selection, {
        scratch: this.#scratch,
        signal,
        elsewhere: groupThreads(this.#options.dataDir, log, signal),
        onPassed: (bytes) => bar.show(bytes, log.extent),
      });
      assertReaches(groups.nextSequence - 1, this.claimed);
      return groups;
    } finally {
      bar.clear();
    }
  }

  eventBar(): ProgressBar {
    return this.#bar('events', 1, BAR_FROM_EVENTS);
  }

  #bar(unit: string, per: number, from: number): ProgressBar {
    const wanted = !this.#options.quiet && process.stderr.isTTY;
    return new ProgressBar({ wanted, unit, per, from, rate: true });
  }
}
