/** `collector runs`: a list of runs, the newest first, by whom they are about, who called which model, and what became of it. */
import type { Catalogue, RunSummary } from '../catalogue/catalogue.js';
import type { Config } from '../config.js';
import { counted, DAY_MS } from '../quantity.js';
import { type Cells, PLAIN_CELLS, SPREADSHEET_CELLS } from '../records/exports/csv-cell.js';
import { Words } from '../records/words.js';
import { shortId, textFrom, wordFrom } from './arguments.js';
import { BY_SENDERS, readRuns, type RunReading, unknownNames } from './catalogue.js';
import { Containing } from './containing.js';
import { defineCommand } from './define.js';
import { usage } from './exit-codes.js';
import {
  filterOptions,
  type AskedRuns,
  FEEDBACK_ASKED,
  filterFrom,
  type FilterOptions,
  limitFrom,
  loggedFilter,
} from './run-filter.js';
import { CSV_HEAD, csvLine, eventsOf, objectOf, runTable } from './run-list.js';
import { asCsv, asJsonLines, asTable, type Framing, giveRows } from './terminal.js';
import { printRemarks } from './typed.js';

/* What an operator types to `collector runs`, read strictly before anything is done. */

export interface RunsOptions extends FilterOptions {
  readonly contains?: string;
  readonly json?: true;
  readonly format?: string;
  readonly forSpreadsheet?: true;
}

export interface RunsRequest {
  readonly filter: AskedRuns;
  /** Which the inputs and outputs of a run have. */
  readonly words?: Words;
  /** Infinity for all. */
  readonly limit: number;
  readonly form: 'table' | 'json' | 'csv';
  /** Of CSV. */
  readonly cells: Cells;
}

/** @param now what the time of --outcome none:TIME counts back from. */
export function runsRequestFrom(options: RunsOptions, now: number): RunsRequest {
  const { json, format, forSpreadsheet, contains, target, user } = options;
  if (contains === '-' && (target === '-' || user === '-'))
    throw usage('- stands for standard input, which can be read only once');
  const filter = filterFrom(options, now);
  if (json && format !== undefined) throw usage('--format: not together with --json');
  if (forSpreadsheet && format === undefined) throw usage('--for-spreadsheet: goes with --format csv');
  return {
    filter,
    ...(contains !== undefined && { words: wordsFrom('--contains', contains) }),
    limit: limitFrom(options.limit, 'runs'),
    form: json ? 'json' : format === undefined ? 'table' : wordFrom('--format', format, ['csv']),
    cells: forSpreadsheet ? SPREADSHEET_CELLS : PLAIN_CELLS,
  };
}

function wordsFrom(option: string, text: string): Words {
  const words = new Words(textFrom(option, text, 'the words'));
  if (words.count === 0) throw usage(`${option}: there is no word in it`);
  return words;
}

const EXAMPLES = `  $ collector runs
  $ collector runs --target @patient.txt --outcome contradicted
  $ collector runs --user - --since 2026-01-01 --until 2026-02-01 --clock sender
  $ collector runs --model sepsis-abstractor@3.0 --failed --limit all --format csv > failed.csv
  $ collector runs --outcome none:30d --json | jq -r .record_id
  $ collector runs --contains @words.txt --since 2026-11-01
  $ collector records --run 0b2c5a3e

On a terminal it is a table that fits: long names are cut, and columns that do not fit are left out. In a pipe nothing is
cut. RUN is the beginning of the run's id, as many digits as no other run begins with, and can be given to "records --run".
NOTE says what is worth a look: the call failed (with its status), the record is incomplete, erased or in conflict with
itself, the outcomes differ. All times are UTC. Names are compared exactly.

--since and --until ask when a run began: by --clock received when the collector had its first event, by --clock sender
the timestamp of its inference-start. A run without a start began with its earliest event then; an event that cannot be
read counts by its time of receipt. After an import or a demo only the senders' clocks tell one day from another.

--feedback is one of ${FEEDBACK_ASKED.join(', ')}.
--json prints one object a line, --format csv a heading and a row each, with record_id whole. With --for-spreadsheet
Excel and others keep ids such as 0000123456, and compute nothing (docs/reference/records.md, "CSV").

It can run beside a collector, and covers every event that was stored when it began. That it ran, what it was asked for and
how many events the listed runs have is logged in access.log; of --target, --user and --contains only that they were given.

--target, --user and --contains take @FILE, or - for standard input: the file has one id, in a line, or the words. They can
be typed too, but every user of the host sees them in the process list, and sudo logs them.

--contains finds runs that have all the words, in any order, in the texts of "inputs" and "output" of their events, at any
depth. Words are whole: "sepsis" is not found in "urosepsis". Case makes no difference, ß is ss, and composed and decomposed
letters are the same; ü is not u. It reads the payloads of all runs that the other options leave, newest first, until
--limit is reached: --since, --model and the like make it quicker. What lies elsewhere, by its URI, is not searched.`;

/** Of more it is only said that there are: to count them may take as long as to read them all. */
const MOST_COUNTED = 10_000;
const SEARCHED = { unit: 'runs searched', from: 2000 };

export const command = defineCommand<RunsOptions>({
  name: 'runs',
  description: 'List runs, the newest first, and what is worth seeing of each.',
  options: {
    ...filterOptions('runs'),
    '--contains <text>': 'only runs whose inputs or outputs have these words: @FILE or - holds them',
    '--json': 'print one JSON object a line',
    '--format <name>': 'csv (default: a table)',
    '--for-spreadsheet': 'with --format csv: so that Excel and others keep ids, and compute nothing',
  },
  configuration: 'runs',
  examples: EXAMPLES,
  // The arguments may name a patient all the same, and every user of the host can read them.
  hidesArguments: true,
  run: ({ options, config }) => new Listing(config(), runsRequestFrom(options, Date.now()), options).run(),
});

class Listing {
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
    const filter = { ...loggedFilter(this.options), contains: this.options.contains };
    const lines = await readRuns(
      {
        ...{ dataDir: this.config.dataDir, logAs: { command: 'runs', filter } },
        ...{ quiet: !process.stderr.isTTY, counts: SEARCHED },
      },
      async (reading) => {
        const search = this.request.words && new Containing(this.request.words, reading);
        await this.#list(reading, search);
        return this.#remarks(reading.catalogue, search);
      },
    );
    printRemarks(lines, this.config.dataDir);
  }

  async #list(reading: RunReading, search: Containing | undefined): Promise<void> {
    const { filter, limit } = this.request;
    const { catalogue, givenOut, signal, bar } = reading;
    const all = search?.among(filter) ?? catalogue.runs({ ...filter, ...(limit < Infinity && { limit }) });
    const onBlock = (block: readonly RunSummary[]) => {
      this.#shown += block.length;
      for (const run of block) {
        givenOut.events += eventsOf(run);
        if (Math.abs(run.began.received - run.began.sender) > DAY_MS) this.#apart++;
      }
      bar.clear();
    };
    await giveRows(all, { framing: this.#framing(catalogue), limit, signal, onBlock });
  }

  #framing(catalogue: Catalogue): Framing<RunSummary> {
    const { form, filter, cells } = this.request;
    if (form === 'json') return asJsonLines(objectOf);
    if (form === 'csv') return asCsv(cells.mark + CSV_HEAD, (run) => csvLine(run, cells));
    const short = ({ recordId }: RunSummary) => shortId(recordId, catalogue.neighbours(recordId));
    const view = {
      clock: filter.clock,
      idOf: process.stdout.isTTY ? short : ({ recordId }: RunSummary) => recordId,
    };
    return asTable((runs) => {
      if (this.#first === '') this.#first = runs.slice(0, 1).map(short).join('');
      return runTable(runs, view, process.stdout);
    });
  }

  /** How many there are, how to see more of them, and how to see one whole. */
  #remarks(catalogue: Catalogue, search: Containing | undefined): string[] {
    const { form, filter } = this.request;
    const lines = [this.#countLine(catalogue, search), ...(search?.remarks() ?? [])];
    if (this.#apart > 0 && filter.clock === 'received') {
      lines.push(
        `of ${this.#apart} of them the sender's clock is more than a day from the time of receipt, as after an import or ` +
          'a demo: --clock sender goes by it',
      );
    }
    if (this.#shown === 0) {
      const { model } = this.options;
      const unknown = unknownNames(catalogue, { ...filter, model });
      lines.push(...unknown);
      if ((search?.searched ?? 0) === 0) lines.push(...this.#bySenders(catalogue));
    } else if (form === 'table') lines.push(`to see one: collector records --run ${this.#first}`);
    return lines;
  }

  #countLine(catalogue: Catalogue, search: Containing | undefined): string {
    const { filter, limit } = this.request;
    const shown = this.#shown;
    if (shown === 0) return 'no run matches';
    if (shown < limit) return counted(shown, 'run');
    // To know how many have the words would be to read them all.
    if (search !== undefined)
      return `the newest ${shown} that have the words; more: --limit ${shown * 5}, all: --limit all`;
    const most = Math.max(MOST_COUNTED, shown) + 1;
    const count = catalogue.count({ ...filter, limit: most });
    if (shown === count) return counted(count, 'run');
    const runs = count === most ? `more than ${most - 1} runs` : counted(count, 'run');
    return `the newest ${shown} of ${runs}; more: --limit ${Math.min(count, shown * 5)}, all: --limit all`;
  }

  /** For an empty list of a time: whether the other clock has runs in it. */
  #bySenders(catalogue: Catalogue): string[] {
    const { filter } = this.request;
    const { clock, since, until, noOutcomeSince } = filter;
    if (clock === 'sender' || (since ?? until ?? noOutcomeSince) === undefined) return [];
    return catalogue.count({ ...filter, clock: 'sender', limit: 1 }) === 0 ? [] : [BY_SENDERS];
  }
}
