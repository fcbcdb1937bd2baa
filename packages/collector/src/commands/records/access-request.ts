/**
 * `collector records --subject-file`: the records about a person, for a request for access (GDPR, Article
 * 15). The runs are found in the log, because a single altered row of the catalogue would hide a run.
 */
import { assembleRun, recordOf, type RunLinks } from '../../records/assemble.js';
import { type FileFormat, textFormat } from '../../records/exports/file-format.js';
import type { AskedFormat } from '../../records/exports/formats.js';
import { eventBatchesOf, outsideParents, windowsOf } from '../../records/record-windows.js';
import type { EventBody, RunEvent } from '../../records/run-event.js';
import { counted } from '../../quantity.js';
import { type GivenOut, logAccess } from '../access-log.js';
import { CommandFailure, EXIT, interruption } from '../exit-codes.js';
import {
  assertOneOrganisation,
  compared,
  keysIn,
  type LogRun,
  LogRuns,
  whyNested,
} from '../lifecycle/log-runs.js';
import { idOf, textOf } from '../lifecycle/log-pass.js';
import { assertReadable } from '../regular-files.js';
import { alignedTable, legible, printableJson, ProgressBar } from '../terminal.js';
import { PieceMaker } from './job.js';
import type { ContentDirectory } from './content.js';
import { longCellsWarning, outputOf } from './output.js';
import { textOfRecord } from './timeline.js';

export interface AccessRequest {
  /** The person's ids. */
  readonly subjects: readonly string[];
  readonly organisation: string | undefined;
  /** Whether records that also concern others are included. */
  readonly withOthers: boolean;
  /** Undefined for readable text. */
  readonly format: AskedFormat | undefined;
  readonly isFull: boolean;
  /** The directory with the content that URIs reference; if undefined, none is read. */
  readonly content: ContentDirectory | undefined;
  /** Undefined for standard output. */
  readonly out: string | undefined;
  /** Whether to report the result as one JSON object. */
  readonly json: boolean;
}

/** A run that also concerns others, or may do so. */
interface Other {
  readonly run: LogRun;
  readonly why: string;
}

const MOST_OF_A_CIRCLE = 100;

/**
 * Prints the records, and on standard error those that are left out or need a review.
 * @throws CommandFailure if no start names an id, or starts of several organisations do; the message contains
 *   no id.
 */
export async function answerAccessRequest(dataDir: string, request: AccessRequest): Promise<void> {
  const { subjects, organisation, withOthers, content, format, out } = request;
  assertReadable(dataDir);
  const signal = interruption(out === undefined ? 'interrupted' : 'interrupted; no file was written');
  const subject = { subjects: subjects.length, organisation, with_others: withOthers };
  const filter = { ...subject, content: content?.root, format: format?.name, out };
  const givenOut = logAccess(dataDir, { command: 'records', filter });
  const reader = await LogRuns.open(dataDir, signal);
  try {
    const found = await reader.find({ subjects, organisation });
    assertOneOrganisation(new Map([...found.runs].map(([name, ids]) => [name, ids.size])));
    const keys = keysIn(found.runs);
    const runs = inOrder(await reader.collect(keys, { nested: true, outer: false }));
    const ids = new Set(subjects);
    const isFound = ({ organisation: of, id }: LogRun) => found.runs.get(of)?.has(id) === true;
    const others = runs.flatMap((run): Other[] => {
      const why = isFound(run) ? compared(run, ids).why : whyNested(run);
      return why === '' ? [] : [{ run, why }];
    });
    const ofOthers = new Set(others.map(({ run }) => run));
    const given = withOthers ? runs : runs.filter((run) => !ofOthers.has(run));
    const longCells = given.length > 0 ? await give(reader, request, { runs, given, givenOut, signal }) : 0;
    givenOut.complete = true;
    const { events } = givenOut;
    report(request, { records: given.length, events, others, unread: found.unread, longCells });
    if (runs.length > 0) return;
    const where = organisation === undefined ? '' : ` of ${organisation}`;
    throw new CommandFailure(`no start${where} in ${dataDir} names one of the ids`, EXIT.notFound);
  } finally {
    await reader.close();
  }
}

/** Ordered by first event. */
function inOrder(runs: readonly LogRun[]): LogRun[] {
  const first = ({ events }: LogRun) =>
    events.reduce((least, { sequence }) => Math.min(least, sequence), Infinity);
  return [...runs].sort((a, b) => first(a) - first(b));
}

interface Giving {
  /** All that name the person, and the runs nested in them. */
  readonly runs: readonly LogRun[];
  readonly given: readonly LogRun[];
  readonly givenOut: GivenOut;
  readonly signal: AbortSignal;
}

/** @returns the number of cells that are too long for a spreadsheet. */
async function give(
  reader: LogRuns,
  { format, isFull, content, out }: AccessRequest,
  { runs, given, givenOut, signal }: Giving,
): Promise<number> {
  const made: FileFormat = (await format?.load(format.options)) ?? textOfRecords(isFull, content);
  const output = outputOf({ out, isByDay: false, extension: '', ...format }, made, signal);
  const bar = new ProgressBar({ wanted: process.stderr.isTTY, unit: 'records', per: 1, from: 1000 });
  const maker = new PieceMaker(made, undefined);
  const nested = new Map<LogRun, string[]>();
  for (const run of runs)
    for (const outer of run.parents) nested.set(outer, [...(nested.get(outer) ?? []), run.recordId]);
  const events = made.reader();
  let records = 0;
  let longCells = 0;
  try {
    for (const window of windowsOf(given.map((run) => ({ run, places: run.events })))) {
      let index = 0;
      for await (const batch of eventBatchesOf(reader.log, window, events))
        for (const each of batch) {
          const run = window[index++]?.run;
          if (run !== undefined) maker.add(assembleRun(each, await linksOf(reader, run, each, nested)));
        }
      for (const piece of maker.take()) {
        // The record is counted before it is written: a reader who stops early has received it.
        givenOut.events += piece.events;
        await output.write(piece);
        longCells += piece.longCells ?? 0;
      }
      bar.show((records += window.length), given.length);
      signal.throwIfAborted();
    }
    await output.finish();
    return longCells;
  } finally {
    bar.clear();
    output.abandon();
  }
}

function textOfRecords(isFull: boolean, content: ContentDirectory | undefined): FileFormat {
  const parts = { head: '', between: '\n', tail: '', empty: '' };
  const text = textOfRecord(isFull, content);
  return textFormat({ ...parts, text: (run) => text(recordOf(run)) });
}

async function linksOf(
  reader: LogRuns,
  run: LogRun,
  events: readonly RunEvent<EventBody>[],
  nested: ReadonlyMap<LogRun, readonly string[]>,
): Promise<RunLinks> {
  const parents = new Map<string, string | null | undefined>();
  for (const eventId of outsideParents(events)) {
    const record = await reader.recordOf(run.organisation, idOf(eventId));
    parents.set(eventId, record && (record.isRun ? textOf(record.id) : null));
  }
  const circle = run.chain.filter((each) => each.chain.includes(run)).map(({ recordId }) => recordId);
  return {
    parentRunOf: (eventId) => parents.get(eventId),
    children: nested.get(run) ?? [],
    cycle: circle.length < 2 ? [] : circle.sort().slice(0, MOST_OF_A_CIRCLE),
  };
}

function report(
  { json, withOthers, content, out }: AccessRequest,
  done: { records: number; events: number; others: readonly Other[]; unread: number; longCells: number },
): void {
  const { records, events, unread } = done;
  const warnings = [content?.warning ?? [], longCellsWarning(done.longCells)].flat();
  const others = done.others.map(({ run: { recordId, organisation }, why }) => ({
    run: recordId,
    organisation,
    why,
  }));
  if (json) {
    const fields = { records, events, others, unread, out: out ?? null, warnings };
    process.stderr.write(`${printableJson(JSON.stringify(fields))}\n`);
    return;
  }
  const rows = others.map(({ run, organisation, why }) => [run, legible(organisation), why]);
  const review = withOthers
    ? 'are included: review them, and remove what concerns others'
    : 'are left out: review them with collector records --run, or include them with --with-others';
  const lines = [
    `${counted(records, 'record')} of ${counted(events, 'event')}${out === undefined ? '' : `, in ${out}`}`,
    ...(unread > 0
      ? [`warning: ${counted(unread, 'start')} could not be decrypted, and may name the person`]
      : []),
    ...warnings.map((warning) => `warning: ${warning}`),
    ...(others.length > 0 ? [`${counted(others.length, 'run')} not only about this person ${review}`] : []),
  ];
  process.stderr.write(lines.map((line) => `collector: ${line}\n`).join(''));
  if (others.length > 0) process.stderr.write(alignedTable([['RUN', 'ORGANISATION', 'WHY'], ...rows]));
}
