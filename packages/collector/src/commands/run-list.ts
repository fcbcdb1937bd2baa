/** Runs as text: a table that fits a terminal, plain columns for a pipe, JSON and CSV. Values are escaped. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { RunSummary } from '../catalogue/catalogue.js';
import type { Cells } from '../records/exports/csv-cell.js';
import { OUTCOME_TEXT } from '../records/vocabulary.js';
import { utcText } from '../records/instant.js';
import { alignedTable, type Column, cutText, legible, type Output } from './terminal.js';
import type { Clock } from '../records/vocabulary.js';

const NONE = '-';

interface RunColumn extends Column {
  readonly heading: string;
  readonly of: (run: RunSummary, view: RunView) => string;
  /** Whether the column is left out on a terminal if no run of the list has a value. */
  readonly isRare?: true;
}

/** How runs are displayed. */
export interface RunView {
  /** The clock of the displayed times. */
  readonly clock: Clock;
  /** The id in the form that `records --run` takes. */
  readonly idOf: (run: RunSummary) => string;
}

const LEAST = 8;
const ORGANISATION = 'ORGANISATION';

const COLUMNS: readonly RunColumn[] = [
  { heading: 'RUN', of: (run, { idOf }) => idOf(run) },
  { heading: 'BEGAN (UTC)', of: ({ began }, { clock }) => minuteText(began[clock]) },
  { heading: ORGANISATION, of: ({ organisation }) => legible(organisation), least: LEAST, leftOut: 6 },
  { heading: 'MODEL', of: (run) => modelText(run), least: 14, cut: cutModel },
  { heading: 'USER', of: ({ userId }) => nameText(userId), least: 10, leftOut: 5 },
  { heading: 'TARGET', of: ({ targetId }) => nameText(targetId), least: 12, leftOut: 7 },
  { heading: 'OUTCOME', of: ({ outcome }) => (outcome === 'none' ? NONE : OUTCOME_TEXT[outcome]) },
  { heading: 'FEEDBACK', of: (run) => feedbackText(run), least: LEAST, leftOut: 4, isRare: true },
  { heading: 'EVENTS', of: (run) => String(eventsOf(run)), leftOut: 1 },
  { heading: 'CALLS', of: (run) => callsText(run), leftOut: 3, isRare: true },
  { heading: 'TOKENS', of: ({ tokens }) => tokensText(tokens), leftOut: 2, isRare: true },
  { heading: 'NOTE', of: (run) => noteText(run), least: LEAST, isRare: true },
];

/** @returns lines with a heading; cut to fit a terminal, complete for any other output. */
export function runTable(runs: readonly RunSummary[], view: RunView, output: Output): string {
  const organisations = new Set(runs.map(({ organisation }) => organisation));
  const hasContent = ({ heading, isRare, of }: RunColumn) =>
    (heading !== ORGANISATION || organisations.size > 1) &&
    (isRare !== true || runs.some((run) => of(run, view) !== NONE));
  const shown = output.isTTY === true ? COLUMNS.filter(hasContent) : COLUMNS;
  const rows = runs.map((run) => shown.map(({ of }) => of(run, view)));
  return alignedTable([shown.map(({ heading }) => heading), ...rows], output, shown);
}

const LEAST_OF_MODEL = 4;

/** Cuts the model and keeps the version, if there is room for both. */
function cutModel(text: string, width: number): string {
  const version = text.slice(text.lastIndexOf('@'));
  const room = width - version.length;
  if (text.length <= width || !version.startsWith('@') || room < LEAST_OF_MODEL) return cutText(text, width);
  return cutText(text.slice(0, -version.length), room) + version;
}

/** A time to the minute: 2026-03-02 08:31. */
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

function feedbackText(run: RunSummary): string {
  const said = feedbackOf(run);
  return said.length === 0 ? NONE : said.join(', ');
}

type FeedbackCounts = Pick<RunSummary, 'feedback' | 'thumbs' | 'ratings' | 'ratingSum'>;

/** The feedback of a run in words, such as `2 thumbs up`; empty without feedback. */
export function feedbackOf({ feedback, thumbs, ratings, ratingSum }: FeedbackCounts): string[] {
  const { text, survey, other_words, unreadable } = feedback;
  const rated = sumOf(ratings);
  return [
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

/** The number of calls; empty for one call, as in most runs. */
function callsText({ counts }: RunSummary): string {
  const calls = counts['inference-start'];
  return calls === 1 ? NONE : String(calls);
}

/** Input and output, as counted by the providers. */
function tokensText({ input, output }: RunSummary['tokens']): string {
  return input === null && output === null ? NONE : `${input ?? NONE}/${output ?? NONE}`;
}

function noteText(run: RunSummary): string {
  const notes = notesOf(run);
  return notes.length === 0 ? NONE : notes.join(', ');
}

type Noted = Pick<RunSummary, 'level' | 'conflicts' | 'outcomesDiffer' | 'call' | 'failedCalls' | 'counts'>;

/** Noteworthy facts, except a contradicting outcome, which has its own column. */
export function notesOf(run: Noted): string[] {
  const { level, conflicts, outcomesDiffer } = run;
  return [
    ...failedText(run),
    ...(level === 'incomplete' || level === 'erased' ? [level] : []),
    ...(conflicts.length > 0 ? ['conflict'] : []),
    ...(outcomesDiffer ? ['outcomes differ'] : []),
  ];
}

function failedText({ call, failedCalls, counts }: Noted): string[] {
  if (failedCalls === 0) return [];
  if (counts['inference-start'] > 1) return [`${failedCalls} failed`];
  return [call?.ending !== 'failed' || call.status === null ? 'failed' : `failed (${call.status})`];
}

type Value = string | number | boolean | null | readonly string[];

/**
 * The members for programs, in this order. Programs rely on the names, which docs/reference/records.md lists.
 */
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

/** The text that exports have: the kind, or kind and rule joined by a colon. */
function conflictText(word: RunSummary['conflicts'][number]): string {
  return CLOCK_RULES.includes(word) ? `clock_disorder:${word}` : word;
}
const CLOCK_RULES: readonly string[] = ['before_start', 'before_parent', 'ahead_of_receipt'];

/** The object for programs. */
export function objectOf(run: RunSummary): object {
  return Object.fromEntries(Object.entries(MEMBERS).map(([name, of]) => [name, of(run)]));
}

export const CSV_HEAD = `${Object.keys(MEMBERS).join(',')}\r\n`;

/** A row of CSV (docs/reference/records.md); lists are joined by spaces. */
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
