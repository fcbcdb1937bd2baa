/** `collector report`: what happened in a period, counted, on one HTML page for a meeting. */
import fs from 'node:fs';
import path from 'node:path';
import { setImmediate as breath } from 'node:timers/promises';
import { Command } from 'commander';
import type { Config } from '../config.js';
import { recordsOf, windowsOf } from '../records/record-windows.js';
import { reportPage } from '../records/report/page/report-page.js';
import { numbersOf, type ReportNumbers } from '../records/report/report-numbers.js';
import { RunReport, type ReportPeriod } from '../records/report/run-report.js';
import { RunGroups } from '../records/run-groups.js';
import { EventReader } from '../store/embedded/event-reader.js';
import { exists, nodeFiles } from '../store/embedded/files.js';
import { LogPlaces } from '../store/embedded/log-places.js';
import { TreeFiles } from '../store/embedded/tree-files.js';
import { StoreDamaged } from '../store/store.js';
import { addConfigOptions, configOf } from './config-options.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { assertReaches, claimedSize } from './log-checkpoints.js';
import { noteReading, type GivenOut } from './noted-reading.js';
import { printableJson } from './printable.js';
import { ProgressBar } from './progress-bar.js';
import { isWanted } from './record-arguments.js';
import { OneFile } from './record-output.js';
import {
  DEFAULT_DAYS,
  periodFrom,
  reportRequestFrom,
  type LogEnds,
  type ReportOptions,
  type ReportRequest,
} from './report-arguments.js';

const EXAMPLES = `
Examples:
  $ collector report --out report.html
  $ collector report --since 2026-01-01 --until 2026-04-01 --out first-quarter.html
  $ collector report --model sepsis-abstractor --clock sender --out sepsis.html
  $ collector report --out report.html --json > report.json

The page has runs and events a day, models and versions, outcomes with their age, contradicted shares with intervals,
feedback, latency, completeness and conflicts; below, it says how each is counted. It is one file, without script and
network, to be read on a screen and on paper. No payload is in it and no id of a person: counts, and the names of models,
versions and organisations.

Without --since it is about the last ${DEFAULT_DAYS} days (of UTC) before --until, and without --until about all up to the newest event
of the log. A run is counted in the period in which it began, with all that is known of it now. By the collector's clock
an event is of the day on which it was received; where past events were imported or made up, that is one day, and
--clock sender goes by their own timestamps.

With --json the numbers of the page are printed as one JSON object on standard output; the page is written all the same.
It appears once it is whole, and never takes the place of another file. Temporary files hold ids and addresses, no
payload.

It can run beside a collector. That it ran, what it was asked for and how many events it read is noted in access.log.`;

/** Fewer are done before anybody wonders. */
const BAR_FROM_MEBIBYTES = 64;
const BAR_FROM_EVENTS = 50_000;

export function command(): Command {
  const report = new Command('report')
    .description('Count the runs of a period, by model and version, on one HTML page.')
    .requiredOption('--out <file>', 'a new HTML file')
    .option('--organisation <name>', 'only runs of this organisation')
    .option('--model <id>', 'only runs of this model: MODEL_ID or MODEL_ID@VERSION')
    .option('--since <time>', `only from this instant on (default: ${DEFAULT_DAYS} days)`)
    .option('--until <time>', 'only before this instant (default: the newest event of the log)')
    .option('--clock <whose>', 'by whose clock days are counted: collector or sender (default: collector)')
    .option('--temp-dir <directory>', "where temporary files go (default: the system's)")
    .option('--json', 'print the numbers as one JSON object too');
  return addConfigOptions(report, 'report')
    .addHelpText('after', EXAMPLES)
    .action(async (options: ReportOptions, self: Command) => {
      const config = configOf(self, 'report');
      const request = reportRequestFrom(options);
      if (!exists(path.join(config.dataDir, 'ledger'))) {
        throw new CommandFailure(`${config.dataDir} holds no ledger`, EXIT.notFound);
      }
      await new Making(config, request, options).run();
    });
}

class Making {
  readonly #stop = new AbortController();
  readonly #since = performance.now();

  constructor(
    private readonly config: Config,
    private readonly request: ReportRequest,
    private readonly options: ReportOptions,
  ) {}

  async run(): Promise<void> {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () =>
        this.#stop.abort(new CommandFailure('interrupted; no file was written', EXIT.interrupted)),
      );
    }
    const { dataDir } = this.config;
    // Asked first: a running collector goes on while the log is read.
    const claimed = claimedSize(TreeFiles.read(dataDir, nodeFiles));
    const { organisation, model, since, until, clock, out, json } = this.options;
    const filter = { organisation, model, since, until, clock, out };
    const givenOut = noteReading(dataDir, { command: 'report', filter });
    const scratch = fs.mkdtempSync(path.join(this.request.tempDir, 'collector-report-'));
    // Also when the process ends in the middle.
    process.once('exit', () => fs.rmSync(scratch, { recursive: true, force: true }));
    const log = new LogPlaces(dataDir, nodeFiles);
    try {
      const now = Date.now();
      const ends = logEnds(dataDir);
      assertReaches(ends.events, claimed);
      const report = await this.#count(log, periodFrom(this.request, ends, now), scratch, givenOut);
      const { organisation, model } = this.request;
      const numbers = numbersOf(report, { madeAt: now, organisation, model, logged: ends.events });
      this.#write(numbers);
      givenOut.complete = true;
      if (json === true) process.stdout.write(`${printableJson(JSON.stringify(numbers))}\n`);
      else this.#tell(numbers);
    } catch (error) {
      if (!(error instanceof StoreDamaged)) throw error;
      throw new CommandFailure(error.message, EXIT.damaged, { cause: error });
    } finally {
      await log.close();
    }
  }

  async #count(
    log: LogPlaces,
    period: ReportPeriod,
    scratch: string,
    givenOut: GivenOut,
  ): Promise<RunReport> {
    const groups = await this.#group(log, period, scratch);
    const report = new RunReport(period);
    const bar = this.#bar('events', 1, BAR_FROM_EVENTS);
    try {
      let seen = 0;
      for (const window of windowsOf(groups.runs())) {
        for (const record of recordsOf(log, window, (run) => groups.linksOf(window[run]))) {
          seen += record.metadata.events.length;
          if (!isWanted({ incomplete: false, model: this.request.model }, record)) continue;
          report.add(record);
          givenOut.events += record.metadata.events.length;
        }
        bar.show(seen, groups.events);
        await breath();
        this.#stop.signal.throwIfAborted();
      }
    } finally {
      bar.clear();
    }
    return report;
  }

  async #group(log: LogPlaces, period: ReportPeriod, scratch: string): Promise<RunGroups> {
    const { organisation } = this.request;
    const { since, until, clock } = period;
    const selection = {
      ...(organisation !== undefined && { organisation }),
      // By a sender's clock a run may have been received at any time.
      ...(clock === 'collector' && { since, until }),
    };
    const bar = this.#bar('MiB read', 1 << 20, BAR_FROM_MEBIBYTES);
    try {
      return await RunGroups.of(log, selection, {
        scratch,
        signal: this.#stop.signal,
        onPassed: (bytes) => bar.show(bytes, log.bytes),
      });
    } finally {
      bar.clear();
    }
  }

  #bar(unit: string, per: number, from: number): ProgressBar {
    const wanted = this.options.json !== true && process.stderr.isTTY;
    return new ProgressBar({ wanted, unit, per, from, rate: true });
  }

  #write(numbers: ReportNumbers): void {
    const page = Buffer.from(reportPage(numbers));
    const output = new OneFile(this.request.out, { join: () => page, finish: () => page });
    try {
      output.finish();
    } finally {
      output.abandon();
    }
  }

  #tell({ all }: ReportNumbers): void {
    const seconds = (performance.now() - this.#since) / 1000;
    process.stderr.write(
      `collector: ${all.runs} runs and ${all.events} events counted in ` +
        `${seconds.toFixed(1)} s, in ${this.request.out}\n`,
    );
  }
}

/** Reads no more than the first event and the last segments. */
function logEnds(dataDir: string): LogEnds {
  const reader = new EventReader(dataDir, nodeFiles);
  let first: number | undefined;
  for (const { receivedAt } of reader.scan({})) {
    first = receivedAt;
    break;
  }
  if (first === undefined) return { events: 0, first: 0, last: 0 };
  const end = reader.scan({ from: Number.MAX_SAFE_INTEGER }).next();
  const events = end.done === true ? end.value.nextSequence - 1 : 0;
  let last = first;
  for (const { receivedAt } of reader.scan({ from: events })) last = receivedAt;
  return { events, first, last };
}
