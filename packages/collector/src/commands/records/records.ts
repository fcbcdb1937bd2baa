/** `collector records`: assembles each run from its events and exports it in the requested format. */
import type { Catalogue } from '../../catalogue/catalogue.js';
import { counted } from '../../quantity.js';
import { FORMATS } from '../../records/exports/formats.js';
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
  $ collector records --format parquet --out records/
  $ collector records --format csv --for-spreadsheet --out for-excel.csv
  $ collector records --after 120000 --out changed.ndjson
  $ collector records --subject-file subject.txt --format text > answer.txt

Formats:
  text      readable text: the default for --run and --subject-file on a terminal
${Object.entries(FORMATS)
  .map(([name, { summary }]) => `  ${name.padEnd(9)} ${summary}\n`)
  .join('')}
Records are in the order of their first event in the log. --since and --until select by time of receipt: a
record is complete if one of its events was received in that period. With --clock sender they select by when a
record began: its inference-start, or its earliest event if it has no start. Days use the same
clock; choose sender for imported events. --after takes the sequence that an earlier call reported and returns
each record with a newer event in full: it replaces the record with the same organisation and record_id. Drop
a record without a run once its event appears in another record (docs/reference/records.md).

--subject-file is for a request for access (GDPR, Article 15). It prints the records that concern only this
person and lists, on standard error, the other runs that name the person or are nested in such runs. These
runs are found in the log, not in the catalogue. Give the ids in a file, one per line, or on standard input
(-). --with-others prints the other runs too: first review them for the rights of others (Article 15(4)).

--content shows content that an event references by a URI: sha256: URIs, file: URIs and relative names, only
from files of this directory, and checked if the URI is a hash. Nothing is fetched. Content that is not text
is shown by its type and size; for unreadable content the reason is shown.

A file or directory appears when it is complete, and never replaces another. Records are found in the
catalogue, which is updated first; if the data directory cannot be written, a temporary catalogue is made in
TMPDIR.

A collector may run at the same time. access.log has the filter and how many events were printed.`;

export const command = defineCommand<RecordsOptions>({
  name: 'records',
  description: 'Assemble the events of each run into a record, and print or export the records.',
  options: {
    '--run <id>':
      'only the record of this run (its id, or the short id of "runs"), or of this event without a run',
    '--subject-file <file>':
      'file with the ids of a person, one per line: the records about this person; - for standard input',
    '--with-others': 'with --subject-file: include records that also concern others',
    '--organisation <name>': 'only records of this organisation',
    '--model <id>': 'only records of this model: MODEL_ID or MODEL_ID@VERSION',
    '--since <time>': 'only records with an event received at or after this time',
    '--until <time>': 'only records with an event received before this time',
    '--clock <which>': 'clock for --since, --until and days: received, or sender (default: received)',
    '--after <sequence>': 'only records with an event of a higher sequence',
    '--only <states>':
      'only records that are incomplete, contradictory or failed: one or more, comma-separated',
    '--full': 'with --run or --subject-file: show every text in full, as text for a pager',
    '--content <dir>':
      'with --full: also show content that events reference by a URI, from files of this directory',
    '--format <name>': `text, ${Object.keys(FORMATS).join(', ')} (default: ndjson)`,
    '--for-spreadsheet':
      'with --format csv or csv-calls: make spreadsheets keep ids and evaluate no formulas',
    '--out <place>':
      'a new file, or with a final / a new directory with one directory per day (default: standard output)',
    '--json': 'report the result as one JSON object on standard error',
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
  /** Records with text in which U+FFFD replaces half a surrogate pair. */
  replaced: number;
  /** The value for --after in the next call; null with --until, which excludes newer events. */
  next_after: number | null;
  warnings: readonly string[];
}

function replacedWarning(records: number): string {
  const what = `${counted(records, 'record')} ${records === 1 ? 'has' : 'have'} invalid Unicode text`;
  return `${what}: U+FFFD replaces half a surrogate pair (completeness.replaced_text names the events)`;
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
    const { run, organisation, model, since, until, clock, after, only } = this.options;
    const { content, format, out, json } = this.options;
    const narrowed = { run, organisation, model, since, until, clock, after, only };
    const filter = { ...narrowed, content, format, out };
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

  /** Completes a short record id. */
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
    if (after > newest) throw usage(`--after: ${after} is after the end of the log, which is ${newest}`);
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

  /** A server has one id space, and event ids are unique only within an organisation. */
  #assertOneServer(catalogue: Catalogue): void {
    const { selection, format } = this.#request;
    if (format?.name !== 'fhir-transaction' || selection.organisation !== undefined) return;
    const organisations = catalogue.organisations();
    if (organisations.length > 1)
      throw usage(
        `--format: a server holds one organisation: give --organisation (${organisations.sort().join(', ')})`,
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
          // The record is counted before it is written: a reader who stops early has received it.
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
    const { organisation, since, until, after, model, only } = this.options;
    const narrowing = [organisation, since, until, after, model, only];
    const isNarrowed = narrowing.some((each) => each !== undefined);
    throw notThere({ what: 'run', id, dataDir: this.dataDir, isNarrowed });
  }

  /** Shows one run to a person, in every organisation that has it. */
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
    const where = out === undefined ? '' : `, in ${out}`;
    const next = next_after === null ? '' : `; for later events use --after ${next_after}`;
    const given = `${counted(records, 'record')} of ${counted(events, 'event')}`;
    const done = `${given} in ${seconds.toFixed(1)} s, ${rate}/s${where}${next}`;
    printRemarks([
      ...warnings.map((warning) => `warning: ${warning}`),
      ...(format === undefined ? [] : [done]),
    ]);
  }
}
