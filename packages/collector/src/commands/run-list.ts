/** Runs as lines of text: a table that fits a terminal, plain columns for a pipe, JSON and CSV. Values are made harmless. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { RunSummary } from '../catalogue/catalogue.js';
import type { Cells } from '../records/exports/csv-cell.js';
import { OUTCOME_TEXT } from '../records/vocabulary.js';
import { utcText } from '../records/instant.js';
import { legible, printableJson, alignedTable } from './terminal.js';
import type { Clock } from '../records/vocabulary.js';

const NONE = '-';

interface Column {
  readonly heading: string;
  readonly of: (run: RunSummary, view: RunView) => string;
  /** To so few characters it is cut on a terminal; undefined where a part of it would say nothing. */
  readonly least?: number;
  readonly cut?: (text: string, width: number) => string;
  /** On a terminal left out where no run of the list says anything in it. */
  readonly isRare?: true;
}

/** How runs are shown. */
export interface RunView {
  /** Whose times are shown. */
  readonly clock: Clock;
  /** As `records --run` takes it. */
  readonly idOf: (run: RunSummary) => string;
}

const LEAST = 8;

const COLUMNS: readonly Column[] = [
  { heading: 'RUN', of: (run, { idOf }) => idOf(run) },
  { heading: 'BEGAN (UTC)', of: ({ began }, { clock }) => minuteText(began[clock]) },
  { heading: 'ORGANISATION', of: ({ organisation }) => legible(organisation), least: LEAST },
  { heading: 'MODEL', of: (run) => modelText(run), least: 14, cut: cutModel },
  { heading: 'USER', of: ({ userId }) => nameText(userId), least: 10 },
  { heading: 'TARGET', of: ({ targetId }) => nameText(targetId), least: 12 },
  { heading: 'OUTCOME', of: ({ outcome }) => (outcome === 'none' ? NONE : OUTCOME_TEXT[outcome]) },
  { heading: 'FEEDBACK', of: (run) => feedbackText(run), least: LEAST, isRare: true },
  { heading: 'EVENTS', of: (run) => String(eventsOf(run)) },
  { heading: 'CALLS', of: (run) => callsText(run), isRare: true },
  { heading: 'TOKENS', of: ({ tokens }) => tokensText(tokens), isRare: true },
  { heading: 'NOTE', of: (run) => noteText(run), least: LEAST, isRare: true },
];
/** The first to be left out where a terminal is too narrow for all. */
const DISPENSABLE = ['EVENTS', 'TOKENS', 'CALLS', 'FEEDBACK', 'USER', 'ORGANISATION', 'TARGET'];
const GAP = 2;

/** @returns lines with a heading: all columns, nothing cut. */
export function plainTable(runs: readonly RunSummary[], view: RunView): string {
  return alignedTable(cellsOf(COLUMNS, runs, view));
}

/** @returns lines with a heading that are no wider than the terminal, unless that has less than some 70 columns. */
export function fittingTable(runs: readonly RunSummary[], view: RunView, columns: number): string {
  const organisations = new Set(runs.map(({ organisation }) => organisation));
  let shown = COLUMNS.filter(
    ({ heading, isRare, of }) =>
      (heading !== 'ORGANISATION' || organisations.size > 1) &&
      (isRare !== true || runs.some((run) => of(run, view) !== NONE)),
  );
  for (const heading of DISPENSABLE) {
    if (leastWidth(shown, runs, view) <= columns) break;
    shown = shown.filter((column) => column.heading !== heading);
  }
  const cells = cellsOf(shown, runs, view);
  const widths = fitted(shown, widthsOf(cells), columns);
  return alignedTable(cells.map((row) => row.map((cell, i) => (shown[i]?.cut ?? cut)(cell, widths[i] ?? 0))));
}

function cellsOf(columns: readonly Column[], runs: readonly RunSummary[], view: RunView): string[][] {
  const rows = runs.map((run) => columns.map(({ of }) => of(run, view)));
  return [columns.map(({ heading }) => heading), ...rows];
}

function widthsOf(cells: readonly (readonly string[])[]): number[] {
  return (cells[0] ?? []).map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
}

function leastWidth(columns: readonly Column[], runs: readonly RunSummary[], view: RunView): number {
  const natural = widthsOf(cellsOf(columns, runs, view));
  return totalOf(natural.map((width, i) => Math.min(width, columns[i]?.least ?? width)));
}

function totalOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width + GAP, -GAP);
}

/** Takes from the widest columns first. */
function fitted(columns: readonly Column[], natural: readonly number[], most: number): number[] {
  const widths = [...natural];
  for (let excess = totalOf(widths) - most; excess > 0; excess--) {
    let widest = -1;
    for (const [i, { least }] of columns.entries()) {
      const width = widths[i] ?? 0;
      if (least !== undefined && width > least && width > (widths[widest] ?? 0)) widest = i;
    }
    if (widest < 0) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

/** Not within a pair of surrogates. */
function cut(text: string, width: number): string {
  if (text.length <= width) return text;
  return `${text.slice(0, width - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

const LEAST_OF_MODEL = 4;

/** The version stays, where it leaves room for some of the model. */
function cutModel(text: string, width: number): string {
  const version = text.slice(text.lastIndexOf('@'));
  const room = width - version.length;
  if (text.length <= width || !version.startsWith('@') || room < LEAST_OF_MODEL) return cut(text, width);
  return cut(text.slice(0, -version.length), room) + version;
}

/** As far as people read times: 2026-03-02 08:31. */
function minuteText(time: number): string {
  return new Date(time)
    .toISOString()
    .replace('T', ' ')
    .replace(/:\d\d\.\d{3}Z$/, '');
}

function nameText(name: string | null): string {
  return name === null ? NONE : legible(name);
}

function modelText({ modelId, modelVersion }: RunSummary): string {
  return modelId === null
    ? NONE
    : legible(modelVersion === null || modelVersion === modelId ? modelId : `${modelId}@${modelVersion}`);
}

export function eventsOf({ counts }: Pick<RunSummary, 'counts'>): number {
  return EVENT_KINDS.reduce((sum, kind) => sum + counts[kind], 0);
}

function feedbackText({ feedback, thumbs, ratings, ratingSum }: RunSummary): string {
  const { text, survey, other_words, unreadable } = feedback;
  const rated = sumOf(ratings);
  const said = [
    timesText(thumbs.up, 'thumbs up'),
    timesText(thumbs.down, 'thumbs down'),
    timesText(feedback.thumbs - thumbs.up - thumbs.down, 'thumbs'),
    ratingText(rated, ratingSum),
    timesText(feedback.rating - rated, 'rating'),
    timesText(text, 'text'),
    timesText(survey, 'survey'),
    timesText(other_words, 'other words'),
    timesText(unreadable, 'unreadable'),
  ].filter((part) => part !== '');
  return said.length === 0 ? NONE : said.join(', ');
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function timesText(times: number, what: string): string {
  if (times <= 0) return '';
  return times === 1 ? what : `${times} ${what}`;
}

function ratingText(count: number, sum: number): string {
  if (count === 0) return '';
  const mean = Number((sum / count).toFixed(1));
  return count === 1 ? `rating ${mean} of 5` : `${count} ratings, mean ${mean} of 5`;
}

/** Of a run of one call nothing: most are. */
function callsText({ counts }: RunSummary): string {
  const calls = counts['inference-start'];
  return calls === 1 ? NONE : String(calls);
}

/** In and out, as the providers counted. */
function tokensText({ input, output }: RunSummary['tokens']): string {
  return input === null && output === null ? NONE : `${input ?? NONE}/${output ?? NONE}`;
}

/** What is worth a look, beside a contradicting outcome, which has its column. */
function noteText(run: RunSummary): string {
  const { level, conflicts, outcomesDiffer } = run;
  const notes = [
    ...failedText(run),
    ...(level === 'incomplete' || level === 'retired' ? [level] : []),
    ...(conflicts.length > 0 ? ['conflict'] : []),
    ...(outcomesDiffer ? ['outcomes differ'] : []),
  ];
  return notes.length === 0 ? NONE : notes.join(', ');
}

function failedText({ call, failedCalls, counts }: RunSummary): string[] {
  if (failedCalls === 0) return [];
  if (counts['inference-start'] > 1) return [`${failedCalls} failed`];
  return [call?.ending !== 'failed' || call.status === null ? 'failed' : `failed (${call.status})`];
}

type Value = string | number | boolean | null | readonly string[];

/** What programs get of a run, in this order. The names are a promise; those of docs/reference/records.md where it has them. */
const MEMBERS: Readonly<Record<string, (run: RunSummary) => Value>> = {
  record_id: ({ recordId }) => recordId,
  organisation: ({ organisation }) => organisation,
  began_received_at: ({ began }) => utcText(began.received),
  began_timestamp: ({ began }) => utcText(began.sender),
  last_received_at: ({ times }) => utcText(times.received.last),
  model_id: ({ modelId }) => modelId,
  model_version: ({ modelVersion }) => modelVersion,
  caller_id: ({ userId }) => userId,
  target_id: ({ targetId }) => targetId,
  app_name: ({ application }) => application,
  event_count: eventsOf,
  last_outcome: ({ outcome }) => outcome,
  outcomes_differ: ({ outcomesDiffer }) => outcomesDiffer,
  feedback_count: ({ feedback }) => sumOf(Object.values(feedback)),
  thumbs_up: ({ thumbs }) => thumbs.up,
  thumbs_down: ({ thumbs }) => thumbs.down,
  rating_mean: ({ ratings, ratingSum }) => (sumOf(ratings) === 0 ? null : ratingSum / sumOf(ratings)),
  completeness: ({ level }) => level,
  missing: ({ missing }) => missing,
  conflicts: ({ conflicts }) => conflicts.map(conflictText),
  call_ending: ({ call }) => call?.ending ?? null,
  call_status: ({ call }) => call?.status ?? null,
  call_count: ({ counts }) => counts['inference-start'],
  failed_calls: ({ failedCalls }) => failedCalls,
  input_tokens: ({ tokens }) => tokens.input,
  output_tokens: ({ tokens }) => tokens.output,
};

/** As exports have them: the kind, or kind and rule with a colon between. */
function conflictText(word: RunSummary['conflicts'][number]): string {
  return CLOCK_RULES.includes(word) ? `clock_disorder:${word}` : word;
}
const CLOCK_RULES: readonly string[] = ['before_start', 'before_parent', 'ahead_of_receipt'];

/** One object, on a line. */
export function jsonLine(run: RunSummary): string {
  const members = Object.entries(MEMBERS).map(([name, of]) => [name, of(run)] as const);
  return `${printableJson(JSON.stringify(Object.fromEntries(members)))}\n`;
}

export const CSV_HEAD = `${Object.keys(MEMBERS).join(',')}\r\n`;

/** One row of CSV, as docs/reference/records.md says of that format: lists with spaces between. */
export function csvLine(run: RunSummary, cells: Cells): string {
  return `${Object.values(MEMBERS)
    .map((of) => csvText(of(run), cells))
    .join(',')}\r\n`;
}

function csvText(value: Value, { cell }: Cells): string {
  if (value === null) return '';
  if (typeof value === 'object') return cell(value.join(' '));
  return typeof value === 'string' ? cell(value) : String(value);
}
