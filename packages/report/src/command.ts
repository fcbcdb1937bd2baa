/** `collector report`: counts the runs of a period on one HTML page. */
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

/** The length of the period without --since. */
export const DEFAULT_DAYS = 90;
/** A longer period is a mistake in a date. */
const MOST_YEARS = 100;

/** @param now used in place of the end of the log, which is not known yet. */
export function reportRequestFrom(options: ReportOptions, now: number): ReportRequest {
  const { organisation, model, clock } = options;
  const { since, until } = typedPeriodFrom(options);
  if (since !== undefined && (until ?? now) - since > MOST_YEARS * 366 * DAY_MS) {
    throw usage(`--since: ${options.since} is more than ${MOST_YEARS} years before the end of the period`);
  }
  if (model === '') throw usage('--model: a model cannot be empty');
  return {
    organisation: organisation === undefined ? undefined : organisationFrom(organisation),
    model,
    models: model === undefined ? undefined : modelsNamed(model),
    ...{ since, until, clock: clockFrom(clock) ?? 'received' },
    out: newPlaceFrom(options.out),
  };
}

/**
 * The period of the report. Without --until it ends with the log; without --since it is the last 90 UTC days,
 * from the first event on. With the senders' clocks, the first event is known only after all events are
 * counted.
 * @param now used in place of the end of a log without events.
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

The page is one file without script and network, for screen and paper. It counts runs and events, models and
versions, outcomes, feedback, latency, completeness and conflicts, and explains each number. It has no payload
and no id of a person, only counts and the names of models, versions and organisations.

Without --since, the period is the last ${DEFAULT_DAYS} UTC days before --until, from the first event on.
A run is counted in the period in which it began, with everything that the log knows of it. Imported or
made-up events were all received on one day: --clock sender uses their timestamps instead. A run then
begins with its inference-start, or with its earliest event, and an event that cannot be read counts at its
receipt.

With --json, the numbers of the page are also printed as one JSON object. Latencies are in milliseconds;
relative_error is the largest error of a percentile, relative to its value, and 0 where percentiles are exact.
--out never replaces a file. The command may run beside a collector, and access.log has an entry for it.`;

const NONE_RECEIVED =
  'no such event was received in this period; --clock sender uses the timestamps of the events';

export const command = defineCommand<ReportOptions>({
  name: 'report',
  description: 'Count the runs of a period, by model and version, on one HTML page.',
  options: {
    '--out <file>': { help: 'a new HTML file', isRequired: true },
    '--organisation <name>': 'only runs of this organisation',
    '--model <id>': 'only runs of this model: MODEL_ID or MODEL_ID@VERSION',
    '--since <time>': `only from this instant on (default: ${DEFAULT_DAYS} days)`,
    '--until <time>': 'only before this instant (default: after the newest event of the log)',
    '--clock <whose>': 'clock that days are counted by: received (collector), or sender (default: received)',
    '--json': 'also print the numbers as one JSON object',
  },
  configuration: 'report',
  examples: EXAMPLES,
  async run({ options, config: read }) {
    const config = read();
    await new Report(config, reportRequestFrom(options, Date.now()), options).run();
  },
});

class Report {
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
    else this.#printCounts(numbers);
  }

  async #count({ catalogue, givenOut, signal, bar }: RunReading, period: ReportPeriod): Promise<RunReport> {
    const { until, clock } = period;
    const { organisation, models } = this.request;
    const newest = catalogue.cursor.sequence - 1;
    const report = new RunReport(period);
    // With the senders' clocks, a run that began before or after the period may have events in it.
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

  /** Names the data directory, because the page is read elsewhere. */
  #runsCommand(options: readonly string[]): string {
    const words = ['runs', '--data-dir', path.resolve(this.config.dataDir), ...options];
    return `${ownCommand()} ${words.map(inQuotes).join(' ')}`;
  }

  #printCounts({ all, events_of_no_run: ofNoRun }: ReportNumbers): void {
    const seconds = (performance.now() - this.#since) / 1000;
    const more = ofNoRun.events === 0 ? '' : `, and ${ofNoRun.events} events of no run,`;
    process.stderr.write(
      `collector: ${all.runs} runs and ${all.events} events counted${more} in ` +
        `${seconds.toFixed(1)} s, in ${this.request.out}\n`,
    );
  }
}

/** Reads only the first events and the last segments. */
async function logEnds(dataDir: string): Promise<LogEnds> {
  const log = openStore(dataDir).events;
  try {
    const first = await receivedIn(log, 1, true);
    if (first === undefined) return { events: 0, first: 0, last: 0 };
    const events = (await log.end()).sequence - 1;
    let last: number | undefined;
    // The newest entries may be the log's own, which are not events.
    for (let back = 1; last === undefined && back <= events; back *= 4)
      last = await receivedIn(log, Math.max(1, events - back + 1), false);
    return { events, first, last: last ?? first };
  } finally {
    await log.close();
  }
}

/**
 * The time of receipt of the first or the last event from a sequence number on; undefined without an event.
 */
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
