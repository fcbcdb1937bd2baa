/** `collector runs`: lists runs, newest first, selected by target, user, model, outcome and more. */
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

export interface RunsOptions extends FilterOptions {
  readonly contains?: string;
  readonly json?: true;
  readonly format?: string;
  readonly forSpreadsheet?: true;
}

export interface RunsRequest {
  readonly filter: AskedRuns;
  /** Words that the inputs or outputs of a run must contain. */
  readonly words?: Words;
  /** Infinity for all. */
  readonly limit: number;
  readonly form: 'table' | 'json' | 'csv';
  /** Cell format of CSV. */
  readonly cells: Cells;
}

/** @param now the time from which --outcome none:TIME counts back. */
export function runsRequestFrom(options: RunsOptions, now: number): RunsRequest {
  const { json, format, forSpreadsheet, contains, target, user } = options;
  if (contains === '-' && (target === '-' || user === '-'))
    throw usage('- is standard input, which can be read only once');
  const filter = filterFrom(options, now);
  if (json && format !== undefined) throw usage('--format: cannot be combined with --json');
  if (forSpreadsheet && format === undefined) throw usage('--for-spreadsheet: requires --format csv');
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
  if (words.count === 0) throw usage(`${option}: the text contains no word`);
  return words;
}

const EXAMPLES = `  $ collector runs
  $ collector runs --target @patient.txt --outcome contradicted
  $ collector runs --user - --since 2026-01-01 --until 2026-02-01 --clock sender
  $ collector runs --model sepsis-abstractor@3.0 --only failed --limit all --format csv > failed.csv
  $ collector runs --outcome none:30d --json | jq -r .record_id
  $ collector runs --contains @words.txt --since 2026-11-01
  $ collector records --run 0b2c5a3e

On a terminal the table fits the screen: long names are cut, and columns that do not fit are left out. In a
pipe nothing is cut. RUN is the shortest unique prefix of the run's id, which "records --run" accepts. NOTE
shows what is noteworthy: the call failed (with its status), the record is incomplete, erased or contradicts
itself, or its outcomes differ. All times are UTC. Names are compared exactly.

--since and --until refer to the beginning of a run. With --clock received, that is when the collector
received its first event; with --clock sender, the timestamp of its inference-start, or of its earliest event
if it has no start. An event that cannot be read counts by its time of receipt. After an import or a demo, use
the senders' clocks.

--feedback is one of ${FEEDBACK_ASKED.join(', ')}.

--json prints one object per line, --format csv a heading and one row per run, both with the whole record_id.
With --for-spreadsheet, Excel and others keep ids such as 0000123456 and evaluate no formulas
(docs/reference/records.md, "CSV").

A collector may run at the same time. The answer covers every event stored when the command began. The call,
its filter and the number of events of the listed runs are logged in access.log; of --target, --user and
--contains only that they were given.

--target, --user and --contains take @FILE, or - for standard input: the file has one id on a line, or the
words. They can be typed too, but then every user of the host can see them in the process list, and sudo logs
them.

--contains finds runs whose "inputs" and "output" contain all the words, in any order and at any depth. Words
are whole: "sepsis" does not match "urosepsis". Case is ignored, ß equals ss, and composed and decomposed
letters are equal; ü is not u. It reads the payloads of all runs that the other options select, newest first,
until --limit is reached: --since, --model and others make it faster. Content that an event references by a
URI is not searched.`;

/** Maximum number of runs that are counted exactly. A larger count may take as long as reading all runs. */
const MOST_COUNTED = 10_000;
const SEARCHED = { unit: 'runs searched', from: 2000 };

export const command = defineCommand<RunsOptions>({
  name: 'runs',
  description: 'List runs, newest first.',
  options: {
    ...filterOptions('runs'),
    '--contains <text>': 'only runs whose inputs or outputs contain these words: the words, or @FILE, or -',
    '--json': 'print one JSON object per line',
    '--format <name>': 'csv (default: a table)',
    '--for-spreadsheet': 'with --format csv: make spreadsheets keep ids and evaluate no formulas',
  },
  configuration: 'runs',
  examples: EXAMPLES,
  // The arguments may name a patient, and every user of the host can read them.
  hidesArguments: true,
  run: ({ options, config }) => new Listing(config(), runsRequestFrom(options, Date.now()), options).run(),
});

class Listing {
  #shown = 0;
  /** Runs shown whose two clocks differ by more than a day. */
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

  /** Remarks: how many runs there are, and how to see more of them or one in full. */
  #remarks(catalogue: Catalogue, search: Containing | undefined): string[] {
    const { form, filter } = this.request;
    const lines = [this.#countLine(catalogue, search), ...(search?.remarks() ?? [])];
    if (this.#apart > 0 && filter.clock === 'received') {
      lines.push(
        `for ${this.#apart} of them the sender's clock differs by more than a day from the time of ` +
          'receipt, as after an import or a demo: use --clock sender',
      );
    }
    if (this.#shown === 0) {
      const { model } = this.options;
      const unknown = unknownNames(catalogue, { ...filter, model });
      lines.push(...unknown);
      if ((search?.searched ?? 0) === 0) lines.push(...this.#bySenders(catalogue));
    } else if (form === 'table') lines.push(`show one with: collector records --run ${this.#first}`);
    return lines;
  }

  #countLine(catalogue: Catalogue, search: Containing | undefined): string {
    const { filter, limit } = this.request;
    const shown = this.#shown;
    if (shown === 0) return 'no run matches';
    if (shown < limit) return counted(shown, 'run');
    // The total with these words is unknown without reading all runs.
    if (search !== undefined)
      return `the newest ${shown} that contain the words; more: --limit ${shown * 5}, all: --limit all`;
    const most = Math.max(MOST_COUNTED, shown) + 1;
    const count = catalogue.count({ ...filter, limit: most });
    if (shown === count) return counted(count, 'run');
    const runs = count === most ? `more than ${most - 1} runs` : counted(count, 'run');
    return `the newest ${shown} of ${runs}; more: --limit ${Math.min(count, shown * 5)}, all: --limit all`;
  }

  /** Whether the other clock has runs in the period of an empty list. */
  #bySenders(catalogue: Catalogue): string[] {
    const { filter } = this.request;
    const { clock, since, until, noOutcomeSince } = filter;
    if (clock === 'sender' || (since ?? until ?? noOutcomeSince) === undefined) return [];
    return catalogue.count({ ...filter, clock: 'sender', limit: 1 }) === 0 ? [] : [BY_SENDERS];
  }
}
