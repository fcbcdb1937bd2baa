/** `collector report`: what happened in a period, counted, on one HTML page for a meeting. */
import path from 'node:path';
import { setImmediate as breath } from 'node:timers/promises';
import { Command } from 'commander';
import { inQuotes, ownCommand, type Config } from '../config.js';
import { reportPage } from '../records/report/page/report-page.js';
import { clockWarning } from '../records/report/page/wording.js';
import { isEmpty, numbersOf, type ReportNumbers } from '../records/report/report-numbers.js';
import { RunReport, type ReportPeriod } from '../records/report/run-report.js';
import { openStore } from '../store/open.js';
import { cursorAt, type EventLog } from '../store/event-log.js';
import { addConfigOptions, configOf } from './config-options.js';
import { printableJson } from './printable.js';
import { OneFile } from './record-output.js';
import {
  DEFAULT_DAYS,
  periodFrom,
  reportRequestFrom,
  type LogEnds,
  type ReportOptions,
  type ReportRequest,
} from './report-arguments.js';
import { readRuns, type RunReading } from './run-reading.js';
import { unknownNames } from './unknown-names.js';

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

Without --since it is about the last ${DEFAULT_DAYS} days (of UTC) before --until, from the first event in them on, and without
--until about all up to the newest event of the log. A run is counted in the period in which it began, with all that is known of it now. By the collector's clock
an event is of the day on which it was received; where past events were imported or made up, that is one day, and
--clock sender goes by their own timestamps; how many of these lie before and after the period is said on the page.

With --json the numbers of the page are printed as one JSON object on standard output; the page is written all the same.
It appears once it is whole, and never takes the place of another file. It is counted from the catalogue, which is brought
up to date first.

It can run beside a collector. That it ran, what it was asked for and how many events it read is noted in access.log.`;

const NONE_RECEIVED =
  'no such event was received in this period; use --clock sender to go by the timestamps of the events';

export function command(): Command {
  const report = new Command('report')
    .description('Count the runs of a period, by model and version, on one HTML page.')
    .requiredOption('--out <file>', 'a new HTML file')
    .option('--organisation <name>', 'only runs of this organisation')
    .option('--model <id>', 'only runs of this model: MODEL_ID or MODEL_ID@VERSION')
    .option('--since <time>', `only from this instant on (default: ${DEFAULT_DAYS} days)`)
    .option('--until <time>', 'only before this instant (default: the newest event of the log)')
    .option('--clock <whose>', 'by which clock days are counted: received or sender (default: received)')
    .option('--temp-dir <directory>', 'where the catalogue is made when it cannot be in the data directory')
    .option('--json', 'print the numbers as one JSON object too');
  return addConfigOptions(report, 'report')
    .addHelpText('after', EXAMPLES)
    .action(async (options: ReportOptions, self: Command) => {
      const config = configOf(self, 'report');
      const request = reportRequestFrom(options, Date.now());
      await new Making(config, request, options).run();
    });
}

class Making {
  readonly #since = performance.now();

  constructor(
    private readonly config: Config,
    private readonly request: ReportRequest,
    private readonly options: ReportOptions,
  ) {}

  async run(): Promise<void> {
    const { organisation, model, since, until, clock, out, json } = this.options;
    await readRuns(
      {
        dataDir: this.config.dataDir,
        reading: { command: 'report', filter: { organisation, model, since, until, clock, out } },
        tempDir: this.request.tempDir,
        quiet: json === true,
        interrupted: 'interrupted; no file was written',
      },
      (reading) => this.#make(reading),
    );
  }

  async #make(reading: RunReading): Promise<void> {
    const now = Date.now();
    const ends = await logEnds(this.config.dataDir);
    const report = await this.#count(reading, periodFrom(this.request, ends, now));
    const { organisation, model } = this.request;
    const numbers = numbersOf(report, { madeAt: now, organisation, model, logged: ends.events });
    this.#write(numbers);
    const warning = clockWarning(numbers);
    if (warning !== undefined) process.stderr.write(`collector: warning: ${warning.replace('’', "'")}\n`);
    if (isEmpty(numbers)) {
      const unknown = unknownNames(reading.catalogue, { organisation, model });
      for (const warning of unknown.length === 0 && numbers.clock === 'received' ? [NONE_RECEIVED] : unknown)
        process.stderr.write(`collector: warning: ${warning}\n`);
    }
    if (this.options.json === true) process.stdout.write(`${printableJson(JSON.stringify(numbers))}\n`);
    else this.#tell(numbers);
  }

  async #count({ catalogue, givenOut, signal, bar }: RunReading, period: ReportPeriod): Promise<RunReport> {
    const { until, clock } = period;
    const { organisation, model } = this.request;
    const newest = catalogue.cursor.sequence - 1;
    const report = new RunReport(period);
    // A run that began before the period may have events in it by the senders' clocks, and the other way round.
    const begun = clock === 'received' ? until : undefined;
    const pages = catalogue.counted({ organisation, model, until: begun }, (run) => report.add(run));
    for (const sequence of pages) {
      givenOut.events = report.eventsRead;
      bar.show(sequence, newest);
      await breath();
      signal.throwIfAborted();
    }
    bar.clear();
    return report;
  }

  #write(numbers: ReportNumbers): void {
    const page = Buffer.from(reportPage(numbers, (options) => this.#runsCommand(options)));
    const output = new OneFile(this.request.out, { join: () => page, finish: () => page });
    try {
      output.finish();
    } finally {
      output.abandon();
    }
  }

  /** With the data directory: the page is read elsewhere, and later. */
  #runsCommand(options: readonly string[]): string {
    const words = ['runs', '--data-dir', path.resolve(this.config.dataDir), ...options];
    return `${ownCommand()} ${words.map(inQuotes).join(' ')}`;
  }

  #tell({ all, events_of_no_run: ofNoRun }: ReportNumbers): void {
    const seconds = (performance.now() - this.#since) / 1000;
    const besides = ofNoRun.events === 0 ? '' : `, and ${ofNoRun.events} events of no run,`;
    process.stderr.write(
      `collector: ${all.runs} runs and ${all.events} events counted${besides} in ` +
        `${seconds.toFixed(1)} s, in ${this.request.out}\n`,
    );
  }
}

/** Reads no more than the first events and the last segments. */
async function logEnds(dataDir: string): Promise<LogEnds> {
  const log = openStore(dataDir).events;
  try {
    const first = await receivedIn(log, 1, true);
    if (first === undefined) return { events: 0, first: 0, last: 0 };
    const events = (await log.end()).sequence - 1;
    let last: number | undefined;
    // The newest entries may be the log's own.
    for (let back = 1; last === undefined && back <= events; back *= 4)
      last = await receivedIn(log, Math.max(1, events - back + 1), false);
    return { events, first, last: last ?? first };
  } finally {
    await log.close();
  }
}

/** When the first or the last event from a sequence on was received; undefined when there is none. */
async function receivedIn(log: EventLog, from: number, isFirst: boolean): Promise<number | undefined> {
  let last: number | undefined;
  for await (const batch of log.pass(cursorAt(from))) {
    for (const { isOwn, receivedAt } of batch) {
      if (isOwn) continue;
      if (isFirst) return receivedAt;
      last = receivedAt;
    }
  }
  return last;
}
