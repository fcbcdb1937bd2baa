/** `collector report`: counts the runs of a period on one HTML page. */
import path from 'node:path';
import { type Config, inQuotes, ownCommand } from '@clinical-events/collector/config';
import { reportPage } from './page/report-page.js';
import { clockWarning } from './page/wording.js';
import { type CountedRequest, countReport, DEFAULT_DAYS } from './count-report.js';
import { type ReportNumbers, isEmpty } from './report-numbers.js';
import { DAY_MS } from '@clinical-events/collector/quantity';
import {
  modelsNamed,
  type RunReading,
  readRuns,
  unknownNames,
} from '@clinical-events/collector/commands/catalogue';
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

export interface ReportRequest extends CountedRequest {
  readonly out: string;
}

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
    const { catalogue, log, givenOut, signal, bar } = reading;
    const newest = catalogue.cursor.sequence - 1;
    const { organisation, model } = this.request;
    const numbers = await countReport({ catalogue, log }, this.request, (sequence, events) => {
      givenOut.events = events;
      bar.show(sequence, newest);
      signal.throwIfAborted();
    });
    bar.clear();
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
