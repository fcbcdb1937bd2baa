/** `collector records`: what is known of each run, put together from its events, in the format of anyone who asks. */
import type { Catalogue } from '../../catalogue/catalogue.js';
import { counted } from '../../quantity.js';
import { BUNDLINGS, FORMATS } from '../../records/exports/formats.js';
import { notThere, recordMeant, runIdFrom } from '../arguments.js';
import { BY_SENDERS, type RunReading, readRuns, recordsIn, unknownNames } from '../catalogue.js';
import { defineCommand } from '../define.js';
import { usage } from '../exit-codes.js';
import { giveText } from '../terminal.js';
import { printRemarks } from '../typed.js';
import { answerAccessRequest } from './access-request.js';
import { longCellsWarning, outputOf } from './output.js';
import { RecordThreads } from './record-threads.js';
import { accessRequestFrom, requestFrom, type RecordsOptions, type RecordsRequest } from './request.js';
import { textOfRecord } from './timeline.js';

const EXAMPLES = `  $ collector records --run 0b2c5a3e
  $ collector records --run 0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10 --full | less
  $ collector records --model sepsis-abstractor@3.0 --since 2026-01-01 --until 2026-02-01 --out january.ndjson
  $ collector records --format parquet --out records --partition day
  $ collector records --format csv --for-spreadsheet --out for-excel.csv
  $ collector records --after 120000 --out changed.ndjson
  $ collector records --subject-file subject.txt --format text > answer.txt

Formats:
  text      for a person to read: the default for --run and --subject-file on a terminal
${Object.entries(FORMATS)
  .map(([name, { summary }]) => `  ${name.padEnd(9)} ${summary}\n`)
  .join('')}
Records come in the order of their first event in the log. --since and --until are about when the collector had an event:
a record is there whole when one of its events was received then. With --clock sender they are about when it began by its
sender's clock: with its inference-start, a run without a start with its earliest event. --partition day goes by the same:
use it for past events that were imported. --after takes the sequence that an earlier call reported, and gives each record
that has a newer event, whole: it replaces the record of the same organisation and record_id. Drop a record without a run
once its event stands in another (docs/reference/records.md).

--subject-file is for a request for access (GDPR, Article 15): it gives the records about this person alone, and lists the other
runs that name the person, or are nested in these, on standard error. These runs are found in the log, not in the catalogue.
The ids go into a file, one a line, or to standard input (-). --with-others gives the other runs too: review them for the rights
of others first (Article 15(4)).

--content shows the content that an event names by a URI below that URI: of sha256: and of file: and relative names, from
files of this directory alone, and checked where the URI is a hash. Nothing is fetched. Content that is not text is shown by
its size and type, and content that cannot be read by the reason.

A file or directory appears once it is whole, and never takes the place of another. Records are found in the catalogue,
which is brought up to date first; where the data directory cannot be written, it is made in TMPDIR, and removed.

It can run beside a collector. access.log has what was asked for and how much was given out.`;

export const command = defineCommand<RecordsOptions>({
  name: 'records',
  description: 'Put the events of each run together, and print or export these records.',
  options: {
    '--run <id>':
      'only the record of this run, by its id or the short one of "runs", or of this event that belongs to none',
    '--subject-file <file>':
      'ids of a person, one a line: the records about this person; - for standard input',
    '--with-others': 'with --subject-file: also give records that are about others as well',
    '--organisation <name>': 'only records of this organisation',
    '--model <id>': 'only records of this model: MODEL_ID or MODEL_ID@VERSION',
    '--since <time>': 'only records with an event received at this instant or later',
    '--until <time>': 'only records with an event received before this instant',
    '--clock <which>': 'received, or sender: by when a record began, also for its day (default: received)',
    '--after <sequence>': 'only records with an event of a higher sequence',
    '--incomplete': 'only records whose completeness is "incomplete"',
    '--full': 'with --run or --subject-file: show every text whole, as text that a pager can show',
    '--content <dir>':
      'with --full: also show content that events name by a URI, from files of this directory',
    '--format <name>': `text, ${Object.keys(FORMATS).join(', ')} (default: ndjson)`,
    '--bundle <type>': `with --format fhir: ${BUNDLINGS.join(', or ')} for a server to store (default: collection)`,
    '--for-spreadsheet':
      'with --format csv or csv-calls: so that Excel and others keep ids, and compute nothing',
    '--out <file>': 'a new file, or with --partition a new directory (default: standard output)',
    '--partition <by>': 'day: a directory for each day on which records began',
    '--json': 'report what was done as one JSON object, on standard error',
  },
  configuration: 'records',
  examples: EXAMPLES,
  async run({ options, config }) {
    const { dataDir } = config();
    const asked = accessRequestFrom(options, process.stdout.isTTY);
    if (asked !== undefined) return answerAccessRequest(dataDir, asked);
    await new Export(dataDir, requestFrom(options, process.stdout.isTTY), options).run();
  },
});

/** Reported at the end. */
interface Done {
  records: number;
  events: number;
  /** Records with a text in which U+FFFD stands for half a surrogate pair. */
  replaced: number;
  /** To be given to --after the next time; null with --until, which left out what came since. */
  next_after: number | null;
  warnings: readonly string[];
}

function replacedWarning(records: number): string {
  const what = `${counted(records, 'record')} ${records === 1 ? 'has' : 'have'} text that is no Unicode`;
  return `${what}: U+FFFD stands for half a surrogate pair (completeness.replaced_text names the events)`;
}

class Export {
  #request: RecordsRequest;
  readonly #since = performance.now();
  readonly #done: Done = { records: 0, events: 0, replaced: 0, next_after: 0, warnings: [] };
  #longCells = 0;

  constructor(
    private readonly dataDir: string,
    request: RecordsRequest,
    private readonly options: RecordsOptions,
  ) {
    this.#request = request;
  }

  async run(): Promise<void> {
    const { run, organisation, model, since, until, clock, after, incomplete } = this.options;
    const { content, format, bundle, out, partition, json } = this.options;
    const narrowed = { run, organisation, model, since, until, clock, after, incomplete };
    const filter = { ...narrowed, content, format, bundle, out, partition };
    const nothing = this.#request.out === undefined ? '' : '; no file was written';
    await readRuns(
      {
        dataDir: this.dataDir,
        logAs: { command: 'records', filter },
        quiet: json === true,
        interrupted: `interrupted${nothing}`,
      },
      (reading) => this.#export(reading),
    );
    this.#report(json === true);
  }

  /** Makes the record id a whole one. */
  #findRecord(catalogue: Catalogue): void {
    const { run } = this.options;
    if (run === undefined || runIdFrom('--run', run).isWhole) return;
    const { selection } = this.#request;
    const asked = { option: '--run', text: run, organisation: selection.organisation };
    const recordId = recordMeant(catalogue, asked, this.dataDir);
    this.#request = { ...this.#request, selection: { ...selection, recordId } };
  }

  async #export(reading: RunReading): Promise<void> {
    this.#findRecord(reading.catalogue);
    const { selection } = this.#request;
    const { catalogue } = reading;
    const newest = catalogue.cursor.sequence - 1;
    const { afterSequence: after = 0 } = selection;
    if (after > newest) throw usage(`--after: ${after} is behind the end of the log, which is ${newest}`);
    this.#assertOneServer(catalogue);
    const isAll = selection.until === undefined && this.options.run === undefined;
    this.#done.next_after = isAll ? newest : null;
    await this.#give(reading, newest);
    if (this.#done.records > 0) return;
    const { organisation, model } = this.options;
    this.#done.warnings = [
      ...unknownNames(catalogue, { organisation, model }),
      ...(this.#isThereBySenders(catalogue) ? [BY_SENDERS] : []),
    ];
  }

  /** A server has one space of ids; those of events are unique in an organisation. */
  #assertOneServer(catalogue: Catalogue): void {
    const { selection, format } = this.#request;
    if (format?.options.bundle !== 'transaction' || selection.organisation !== undefined) return;
    const organisations = catalogue.organisations();
    if (organisations.length > 1)
      throw usage(
        `--bundle: a server is for one organisation: name it by --organisation (${organisations.sort().join(', ')})`,
      );
  }

  #isThereBySenders(catalogue: Catalogue): boolean {
    const { selection } = this.#request;
    const { clock, eventsSince: since, until } = selection;
    if (clock === 'sender' || (since ?? until) === undefined) return false;
    return catalogue.count({ ...selection, clock: 'sender', eventsSince: undefined, since, limit: 1 }) > 0;
  }

  async #give(reading: RunReading, newest: number): Promise<void> {
    const { givenOut, signal, bar } = reading;
    const { selection, format, dayBy } = this.#request;
    if (selection.recordId !== undefined) this.#assertThere(reading, selection.recordId);
    if (format === undefined) {
      await this.#show(reading);
      return;
    }
    const place = { ...format, out: this.#request.out, isByDay: dayBy !== undefined };
    const output = outputOf(place, await format.load(format.options), signal);
    const { dataDir } = this;
    const threads = new RecordThreads(
      { dataDir, format: format.name, options: format.options, dayBy },
      reading,
    );
    try {
      for await (const { pieces, sequence } of threads.pieces(selection, signal)) {
        for (const piece of pieces) {
          // Noted before: anyone who stops reading has had it.
          givenOut.events += piece.events;
          await output.write(piece);
          this.#done.records += piece.records;
          this.#done.replaced += piece.replaced;
          this.#longCells += piece.longCells ?? 0;
        }
        bar.show(sequence, newest);
      }
      signal.throwIfAborted();
      await output.finish();
      this.#done.events = givenOut.events;
    } finally {
      output.abandon();
      await threads.stop();
    }
  }

  #assertThere({ catalogue }: RunReading, id: string): void {
    const { selection } = this.#request;
    if (catalogue.count({ ...selection, limit: 1 }) > 0) return;
    const { organisation, since, until, after, model, incomplete } = this.options;
    const narrowing = [organisation, since, until, after, model, incomplete];
    const isNarrowed = narrowing.some((each) => each !== undefined);
    throw notThere({ what: 'run', id, dataDir: this.dataDir, isNarrowed });
  }

  /** For a person: one run, in every organisation that has it. */
  async #show(reading: RunReading): Promise<void> {
    const textOf = textOfRecord(this.options.full === true, this.#request.content);
    for await (const record of recordsIn(reading, this.#request.selection)) {
      await giveText(`${this.#done.records++ === 0 ? '' : '\n'}${textOf(record)}`, reading.signal);
      reading.givenOut.events += record.metadata.events.length;
      if (record.metadata.completeness.replaced_text.length > 0) this.#done.replaced++;
    }
  }

  #report(json: boolean): void {
    const { records, events, replaced, next_after } = this.#done;
    const { format, out, content } = this.#request;
    const warnings = [
      ...this.#done.warnings,
      ...(replaced > 0 ? [replacedWarning(replaced)] : []),
      ...[content?.warning ?? []].flat(),
      ...longCellsWarning(this.#longCells),
    ];
    const seconds = (performance.now() - this.#since) / 1000;
    if (json) {
      const done = { ...this.#done, warnings, out: out ?? null, seconds };
      process.stderr.write(`${JSON.stringify(done)}\n`);
      return;
    }
    const rate = Math.round(events / Math.max(seconds, 0.001));
    const done =
      `${counted(records, 'record')} of ${counted(events, 'event')} in ${seconds.toFixed(1)} s, ${rate}/s` +
      `${out === undefined ? '' : `, in ${out}`}${next_after === null ? '' : `; next time use --after ${next_after}`}`;
    printRemarks([
      ...warnings.map((warning) => `warning: ${warning}`),
      ...(format === undefined ? [] : [done]),
    ]);
  }
}
