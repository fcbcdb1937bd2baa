/** `collector runs`: a list of runs, the newest first, by whom they are about, who called which model, and what became of it. */
import { once } from 'node:events';
import path from 'node:path';
import { Command } from 'commander';
import {
  type Catalogue,
  type FeedbackAsked,
  modelsNamed,
  type RunFilter,
  type RunSummary,
} from '../catalogue/catalogue.js';
import type { Config } from '../config.js';
import { parseDuration, DAY_MS } from '../quantity.js';
import { type Cells, PLAIN_CELLS, SPREADSHEET_CELLS } from '../records/exports/csv-cell.js';
import { type Clock, OUTCOME_WORDS } from '../records/vocabulary.js';
import { type GivenOut, logAccess } from './access-log.js';
import { BY_SENDERS, openCatalogue, unknownNames } from './catalogue.js';
import { interruption, usage } from './exit-codes.js';
import { assertReadable } from './regular-files.js';
import { CSV_HEAD, csvLine, eventsOf, fittingTable, jsonLine, plainTable } from './run-list.js';
import { printable, printableLines } from './terminal.js';
import { typed } from './typed.js';
import {
  addConfigOptions,
  clockFrom,
  configOf,
  instantFrom,
  organisationFrom,
  personFrom,
  shortId,
  wordFrom,
} from './arguments.js';

/* What an operator types to `collector runs`, read strictly before anything is done. */

export interface RunsOptions {
  readonly organisation?: string;
  readonly target?: string;
  readonly user?: string;
  readonly model?: string;
  readonly app?: string;
  readonly outcome?: string;
  readonly feedback?: string;
  readonly incomplete?: true;
  readonly conflict?: true;
  readonly failed?: true;
  readonly since?: string;
  readonly until?: string;
  readonly clock?: string;
  readonly limit?: string;
  readonly json?: true;
  readonly format?: string;
  readonly forSpreadsheet?: true;
}

export interface RunsRequest {
  readonly filter: RunFilter & { readonly clock: Clock };
  /** Infinity for all. */
  readonly limit: number;
  readonly form: 'table' | 'json' | 'csv';
  /** Of CSV. */
  readonly cells: Cells;
}

export const DEFAULT_LIMIT = 20;

/** A word as it is typed: with dashes. */
const OUTCOMES_ASKED = OUTCOME_WORDS.map((word) => word.replace('_', '-'));

const FEEDBACK: Readonly<Record<string, FeedbackAsked>> = {
  'thumbs-up': 'up',
  'thumbs-down': 'down',
  thumbs: 'thumbs',
  rating: 'rating',
  text: 'text',
  survey: 'survey',
  'other-words': 'other_words',
  any: 'any',
  none: 'none',
};
/** As it is typed. */
export const FEEDBACK_ASKED = Object.keys(FEEDBACK);

/** @param now what the time of --outcome none:TIME counts back from. */
export function runsRequestFrom(options: RunsOptions, now: number): RunsRequest {
  const { since, until, clock, json, format, forSpreadsheet } = options;
  const filter: RunsRequest['filter'] = {
    isRun: true,
    ...namesFrom(options),
    ...statesFrom(options),
    ...outcomeFrom(options, now),
    ...(since !== undefined && { since: instantFrom('--since', since) }),
    ...(until !== undefined && { until: instantFrom('--until', until) }),
    clock: clockFrom(clock) ?? 'received',
  };
  if (filter.since !== undefined && filter.until !== undefined && filter.since >= filter.until) {
    throw usage(`--since: ${since} is not earlier than --until ${until}`);
  }
  if (json && format !== undefined) throw usage('--format: not together with --json');
  if (forSpreadsheet && format === undefined) throw usage('--for-spreadsheet: goes with --format csv');
  return {
    filter,
    limit: limitFrom(options.limit),
    form: json ? 'json' : format === undefined ? 'table' : wordFrom('--format', format, ['csv']),
    cells: forSpreadsheet ? SPREADSHEET_CELLS : PLAIN_CELLS,
  };
}

function namesFrom({ organisation, target, user, model, app }: RunsOptions): Partial<RunFilter> {
  if (target === '-' && user === '-') throw usage('- stands for standard input, which can be read only once');
  return {
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(target !== undefined && { target: personFrom('--target', target) }),
    ...(user !== undefined && { user: personFrom('--user', user) }),
    ...(model !== undefined && { models: modelsNamed(nameFrom('--model', model)) }),
    ...(app !== undefined && { application: nameFrom('--app', app) }),
  };
}

function statesFrom({ feedback, incomplete, conflict, failed }: RunsOptions): Partial<RunFilter> {
  return {
    ...(feedback !== undefined && { feedback: FEEDBACK[wordFrom('--feedback', feedback, FEEDBACK_ASKED)] }),
    ...(incomplete && { level: 'incomplete' as const }),
    ...(conflict && { hasConflict: true as const }),
    ...(failed && { failed: true as const }),
  };
}

function outcomeFrom({ outcome }: RunsOptions, now: number): Partial<RunFilter> {
  if (outcome === undefined) return {};
  const [, age] = /^none:(.*)$/s.exec(outcome) ?? [];
  if (age !== undefined) return { noOutcomeSince: now - ageFrom(age) };
  const word = OUTCOME_WORDS[OUTCOMES_ASKED.indexOf(wordFrom('--outcome', outcome, OUTCOMES_ASKED))];
  return word === undefined ? {} : { outcome: word };
}

/** A script's empty variable is a fault, and not an empty answer. */
function nameFrom(option: string, text: string): string {
  if (text === '') throw usage(`${option}: "" names nothing`);
  return text;
}

/** With its unit: 30 would be 30 milliseconds, and was surely meant as days. */
function ageFrom(text: string): number {
  const age = /[a-z]$/.test(text) ? parseDuration(text) : undefined;
  if (age !== undefined && age > 0) return age;
  throw usage(`--outcome: after none:, ${JSON.stringify(text)} is not a time such as 30d or 12h`);
}

function limitFrom(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LIMIT;
  if (text === 'all') return Infinity;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw usage(`--limit: ${JSON.stringify(text)} is neither a number of runs nor all`);
}

const EXAMPLES = `
Examples:
  $ collector runs
  $ collector runs --target @patient.txt --outcome contradicted
  $ collector runs --user - --since 2026-01-01 --until 2026-02-01 --clock sender
  $ collector runs --model sepsis-abstractor@3.0 --failed --limit all --format csv > failed.csv
  $ collector runs --outcome none:30d --json | jq -r .record_id
  $ collector records --run 0b2c5a3e

On a terminal it is a table that fits: long names are cut, and columns that do not fit are left out. In a pipe nothing is
cut. RUN is the beginning of the run's id, as many digits as no other run begins with, and can be given to "records --run".
NOTE says what is worth a look: the call failed (with its status), the record is incomplete, retired or in conflict with
itself, the outcomes differ. All times are UTC. Names are compared exactly.

--since and --until ask when a run began: by --clock received when the collector had its first event, by --clock sender
the timestamp of its inference-start. A run without a start began with its earliest event then; an event that cannot be
read counts by its time of receipt. After an import or a demo only the senders' clocks tell one day from another.

--feedback is one of ${FEEDBACK_ASKED.join(', ')}.
--json prints one object a line, --format csv a heading and a row each, with record_id whole. With --for-spreadsheet
Excel and others keep ids such as 0000123456, and compute nothing (docs/reference/records.md, "CSV").

It can run beside a collector, and covers every event that was stored when it began. That it ran, what it was asked for and
how many events the listed runs have is logged in access.log; of --target and --user only that they were given.

--target and --user take @FILE, or - for standard input: the file has one id, in a line. An id can be typed too, but every
user of the host sees it in the process list, and sudo logs it.`;

/** Rows that are laid out together: in a long list columns may grow from one to the next. */
const BLOCK = 1000;
/** Of more it is only said that there are: to count them may take as long as to read them all. */
const MOST_COUNTED = 10_000;

export function command(): Command {
  const runs = new Command('runs')
    .description('List runs, the newest first, and what is worth seeing of each.')
    .option('--target <id>', 'only runs about this patient, document or claim: @FILE or - holds its id')
    .option('--user <id>', 'only runs that this user called: @FILE or - holds the id')
    .option('--model <id>', 'only runs of this model: MODEL_ID or MODEL_ID@VERSION')
    .option('--app <name>', 'only runs that this application sent')
    .option('--organisation <name>', 'only runs of this organisation')
    .option(
      '--outcome <word>',
      'only runs whose last outcome is validated, partial, …, or none; none:30d: and that began that long ago',
    )
    .option('--feedback <sort>', 'only runs with this feedback: thumbs-up, thumbs-down, …, or none')
    .option('--incomplete', 'only runs whose completeness is "incomplete"')
    .option('--conflict', 'only runs that contradict themselves')
    .option('--failed', 'only runs whose call of the model failed')
    .option('--since <time>', 'only runs that began at this instant or later')
    .option('--until <time>', 'only runs that began before this instant')
    .option(
      '--clock <which>',
      'by which clock a run began: received, or sender: by its start, else its first event (default: received)',
    )
    .option('--limit <number>', `how many at most, or all (default: ${DEFAULT_LIMIT})`)
    .option('--json', 'print one JSON object a line')
    .option('--format <name>', 'csv (default: a table)')
    .option('--for-spreadsheet', 'with --format csv: so that Excel and others keep ids, and compute nothing');
  return addConfigOptions(runs, 'runs')
    .addHelpText('after', EXAMPLES)
    .action(async (options: RunsOptions, self: Command) => {
      // The arguments may name a patient all the same, and every user of the host can read them.
      process.title = 'collector runs';
      const config = configOf(self, 'runs');
      await new Listing(config, runsRequestFrom(options, Date.now()), options).run();
    });
}

/** For the access log, under the names that were typed; that leaves persons out. */
function loggedFilter(options: RunsOptions): Readonly<Record<string, unknown>> {
  const { target, user, model, app, organisation, outcome, feedback, incomplete, conflict, failed } = options;
  const { since, until, clock, limit } = options;
  return {
    ...{ target, user, model, app, organisation, outcome, feedback, incomplete, conflict, failed },
    ...{ since, until, clock, limit },
  };
}

class Listing {
  readonly #signal = interruption();
  #shown = 0;
  /** Of those shown, runs for which the two clocks are more than a day apart. */
  #apart = 0;
  #first = '';

  constructor(
    private readonly config: Config,
    private readonly request: RunsRequest,
    private readonly options: RunsOptions,
  ) {}

  async run(): Promise<void> {
    const { dataDir } = this.config;
    assertReadable(dataDir);
    const givenOut = logAccess(dataDir, { command: 'runs', filter: loggedFilter(this.options) });
    const signal = this.#signal;
    const access = await openCatalogue({ dataDir, quiet: !process.stderr.isTTY, signal });
    try {
      const lines = await access.ask((catalogue) => this.#answer(catalogue, givenOut));
      givenOut.complete = true;
      process.stderr.write(lines.map((line) => `collector: ${line}\n`).join(''));
    } finally {
      await access.close();
    }
  }

  /** @returns what is said of the list. */
  async #answer(catalogue: Catalogue, givenOut: GivenOut): Promise<string[]> {
    try {
      await this.#list(catalogue, givenOut);
      const { filter, limit } = this.request;
      // No fewer than are listed: of those it is known that they are there.
      const most = Math.max(limit, MOST_COUNTED);
      const isAll = this.#shown < limit;
      const count = isAll ? this.#shown : catalogue.count({ ...filter, limit: most + 1 });
      return this.#remarks(catalogue, count, most);
    } catch (error) {
      // What was given out cannot be asked for again.
      throw this.#shown > 0 ? new Error((error as Error).message, { cause: error }) : error;
    }
  }

  async #list(catalogue: Catalogue, givenOut: GivenOut): Promise<void> {
    const { filter, limit } = this.request;
    let block: RunSummary[] = [];
    for (const run of catalogue.runs({ ...filter, ...(limit < Infinity && { limit }) })) {
      block.push(run);
      if (block.length < BLOCK) continue;
      await this.#show(block, catalogue, givenOut);
      block = [];
    }
    if (block.length > 0 || this.#shown === 0) await this.#show(block, catalogue, givenOut);
  }

  /** Logged before: the one who stops reading has had it. */
  async #show(block: readonly RunSummary[], catalogue: Catalogue, givenOut: GivenOut): Promise<void> {
    const text = this.#textOf(block, catalogue);
    this.#shown += block.length;
    for (const run of block) {
      givenOut.events += eventsOf(run);
      if (Math.abs(run.began.received - run.began.sender) > DAY_MS) this.#apart++;
    }
    await this.#write(text);
  }

  #textOf(block: readonly RunSummary[], catalogue: Catalogue): string {
    const isFirst = this.#shown === 0;
    const { form, filter, cells } = this.request;
    if (form === 'json') return block.map(jsonLine).join('');
    if (form === 'csv')
      return (isFirst ? cells.mark + CSV_HEAD : '') + block.map((run) => csvLine(run, cells)).join('');
    if (block.length === 0) return '';
    const short = ({ recordId }: RunSummary) => shortId(recordId, catalogue.neighbours(recordId));
    if (isFirst) this.#first = block.slice(0, 1).map(short).join('');
    const { isTTY, columns } = process.stdout;
    const { clock } = filter;
    const text = isTTY
      ? fittingTable(block, { clock, idOf: short }, columns)
      : plainTable(block, { clock, idOf: ({ recordId }) => recordId });
    return isFirst ? text : text.slice(text.indexOf('\n') + 1);
  }

  async #write(text: string): Promise<void> {
    const signal = this.#signal;
    signal.throwIfAborted();
    const harmless = process.stdout.isTTY ? printableLines(text) : text;
    if (process.stdout.write(harmless)) return;
    await once(process.stdout, 'drain', { signal }).catch((error: unknown) => {
      signal.throwIfAborted();
      throw error;
    });
  }

  /** As it is typed here, for the first run of the list. */
  #recordCommand(): string {
    return typed('collector records', path.resolve(this.config.dataDir)) + ` --run ${this.#first}`;
  }

  /** How many there are, how to see more of them, and how to see one whole. */
  #remarks(catalogue: Catalogue, count: number, most: number): string[] {
    const { form, filter } = this.request;
    const lines = [countLine(this.#shown, count, most)];
    if (this.#apart > 0 && filter.clock === 'received') {
      lines.push(
        `of ${this.#apart} of them the sender's clock is more than a day from the time of receipt, as after an import or ` +
          'a demo: --clock sender goes by it',
      );
    }
    if (count === 0) lines.push(...this.#unknown(catalogue), ...this.#bySenders(catalogue));
    else if (form === 'table') lines.push(`to see one: ${this.#recordCommand()}`);
    return lines;
  }

  /** For an empty list of a time: whether the other clock has runs in it. */
  #bySenders(catalogue: Catalogue): string[] {
    const { filter } = this.request;
    const { clock, since, until, noOutcomeSince } = filter;
    if (clock === 'sender' || (since ?? until ?? noOutcomeSince) === undefined) return [];
    return catalogue.count({ ...filter, clock: 'sender', limit: 1 }) === 0 ? [] : [BY_SENDERS];
  }

  /** For an empty list: the names that no run has. That of a person is neither repeated nor suggested. */
  #unknown(catalogue: Catalogue): string[] {
    const { organisation, target, user, application, models } = this.request.filter;
    const { model } = this.options;
    const isUnknown = (filter: RunFilter) => catalogue.count({ ...filter, limit: 1 }) === 0;
    const says = (name: string | undefined, filter: RunFilter, message: string) =>
      name !== undefined && isUnknown(filter) ? [message] : [];
    const guessed = {
      ...(organisation !== undefined && isUnknown({ organisation }) && { organisation }),
      ...(model !== undefined && isUnknown({ models }) && { model }),
    };
    return [
      ...(Object.keys(guessed).length > 0 ? unknownNames(catalogue, guessed) : []),
      ...says(target, { target }, 'no run names this target'),
      ...says(user, { user }, 'no run names this user'),
      ...says(application, { application }, `no run names the application "${printable(application ?? '')}"`),
    ];
  }
}

/** @param most how far was counted, unless all are listed. */
function countLine(shown: number, count: number, most: number): string {
  if (count === 0) return 'no run matches';
  const runs = `${count > most ? `more than ${most}` : count} ${count === 1 ? 'run' : 'runs'}`;
  if (shown === count) return runs;
  return `the newest ${shown} of ${runs}; more: --limit ${Math.min(count, shown * 5)}, all: --limit all`;
}
