/** `collector report`: what happened in a period, counted, on one HTML page for a meeting. */
import path from 'node:path';
import { setImmediate as breath } from 'node:timers/promises';
import { type Config, inQuotes, ownCommand } from '@clinical-events/collector/config';
import { reportPage } from './page/report-page.js';
import { clockWarning } from './page/wording.js';
import { type ReportNumbers, isEmpty, numbersOf } from './report-numbers.js';
import { type ReportPeriod, RunReport } from './run-report.js';
import { type Clock } from '@clinical-events/collector/records/vocabulary';
import { DAY_MS } from '@clinical-events/collector/quantity';
import { type EventLog, cursorAt } from '@clinical-events/collector/store/contract/events';
import { openStore } from '@clinical-events/collector/store/open-to-read';
import {
  modelsNamed,
  type RunReading,
  readRuns,
  unknownNames,
} from '@clinical-events/collector/commands/catalogue';
import { countedRecords } from '@clinical-events/collector/commands/counting';
import { OneFile } from '@clinical-events/collector/commands/records/output';
import { jsonLine } from '@clinical-events/collector/commands/terminal';
import {
  clockFrom,
  newPlaceFrom,
  organisationFrom,
  periodFrom as typedPeriodFrom,
} from '@clinical-events/collector/commands/arguments';
import { defineCommand } from '@clinical-events/collector/commands/define';
import { usage } from '@clinical-events/collector/commands/exit-codes';

/* What an operator types to `collector report`, read strictly before anything is done. */

export interface ReportOptions {
  readonly out: string;
  readonly organisation?: string;
  readonly model?: string;
  readonly since?: string;
  readonly until?: string;
  readonly clock?: string;
  readonly json?: true;
}

export interface ReportRequest {
  readonly out: string;
  readonly organisation: string | undefined;
  /** MODEL_ID or MODEL_ID@VERSION. */
  readonly model: string | undefined;
  readonly models: ReportPeriod['models'];
  readonly since: number | undefined;
  readonly until: number | undefined;
  readonly clock: Clock;
}

/** The times of receipt of the first and the last event of a log. */
export interface LogEnds {
  readonly events: number;
  readonly first: number;
  readonly last: number;
}

/** Without --since. */
export const DEFAULT_DAYS = 90;
/** On an axis of more, nothing of the time that was meant could be seen. */
const MOST_YEARS = 100;

/** @param now stands in for the end of the log, which has not been looked at. */
export function reportRequestFrom(options: ReportOptions, now: number): ReportRequest {
  const { organisation, model, clock } = options;
  const { since, until } = typedPeriodFrom(options);
  if (since !== undefined && (until ?? now) - since > MOST_YEARS * 366 * DAY_MS) {
    throw usage(`--since: ${options.since} is more than ${MOST_YEARS} years before the end of the period`);
  }
  if (model === '') throw usage('--model: "" is no model');
  return {
    organisation: organisation === undefined ? undefined : organisationFrom(organisation),
    model,
    models: model === undefined ? undefined : modelsNamed(model),
    ...{ since, until, clock: clockFrom(clock) ?? 'received' },
    out: newPlaceFrom(options.out),
  };
}

/**
 * The period that is asked for: without an end up to the end of the log, without a beginning the 90 days of UTC before
 * its end. Of these it begins with the first event: by the collector's clock with that of the log, by the senders'
 * with the first that lies in them, which shows once they are read.
 * @param now stands in for the end of a log without events.
 */
export function periodFrom(
  { since, until, clock, models }: ReportRequest,
  log: LogEnds,
  now: number,
): ReportPeriod {
  const asOf = log.events === 0 ? now : log.last;
  const end = until ?? Math.max(asOf, since ?? 0) + 1;
  if (since !== undefined) return { since, fromFirstEvent: false, until: end, clock, asOf, models };
  const days = dayOf(end - 1) - (DEFAULT_DAYS - 1) * DAY_MS;
  const began = clock === 'received' && log.events > 0 ? Math.min(dayOf(log.first), dayOf(end - 1)) : days;
  return {
    since: Math.max(days, began),
    fromFirstEvent: clock === 'sender',
    until: end,
    clock,
    asOf,
    models,
  };
}

function dayOf(time: number): number {
  return Math.floor(time / DAY_MS) * DAY_MS;
}

const EXAMPLES = `  $ collector report --out report.html
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
--clock sender goes by their own timestamps: a run begins with its inference-start, one without a start with its earliest
event, and an event that cannot be read counts by its time of receipt. How many events lie before and after the period is
said on the page.

With --json the numbers of the page are printed as one JSON object on standard output; the page is written all the same.
Latencies are in milliseconds there, with all their digits: relative_error is what a percentile may be off by, of its value,
and 0 where percentiles are exact. The page shows the digits that this leaves.
It appears once it is whole, and never takes the place of another file. It is counted from the catalogue, which is brought
up to date first.

It can run beside a collector. That it ran, what it was asked for and how many events it read is noted in access.log.`;

const NONE_RECEIVED =
  'no such event was received in this period; use --clock sender to go by the timestamps of the events';

export const command = defineCommand<ReportOptions>({
  name: 'report',
  description: 'Count the runs of a period, by model and version, on one HTML page.',
  options: {
    '--out <file>': { help: 'a new HTML file', isRequired: true },
    '--organisation <name>': 'only runs of this organisation',
    '--model <id>': 'only runs of this model: MODEL_ID or MODEL_ID@VERSION',
    '--since <time>': `only from this instant on (default: ${DEFAULT_DAYS} days)`,
    '--until <time>': 'only before this instant (default: the newest event of the log)',
    '--clock <whose>':
      'by which clock days are counted: received, or sender: a run by its start, else its first event (default: received)',
    '--json': 'print the numbers as one JSON object too',
  },
  configuration: 'report',
  examples: EXAMPLES,
  async run({ options, config: read }) {
    const config = read();
    await new Making(config, reportRequestFrom(options, Date.now()), options).run();
  },
});

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
        logAs: { command: 'report', filter: { organisation, model, since, until, clock, out } },
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
    if (this.options.json === true) process.stdout.write(jsonLine(numbers));
    else this.#tell(numbers);
  }

  async #count({ catalogue, givenOut, signal, bar }: RunReading, period: ReportPeriod): Promise<RunReport> {
    const { until, clock } = period;
    const { organisation, models } = this.request;
    const newest = catalogue.cursor.sequence - 1;
    const report = new RunReport(period);
    // A run that began before the period may have events in it by the senders' clocks, and the other way round.
    const begun = clock === 'received' ? until : undefined;
    const filter = { organisation, models, until: begun };
    for await (const sequence of countedRecords(catalogue, filter, (run) => report.add(run))) {
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
