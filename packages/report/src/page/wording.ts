/** How numbers, times and the words of the vocabularies read on the page. */
import {
  type GroupNumbers,
  type ModelNumbers,
  type ReportNumbers,
  type VersionNumbers,
  isOfReceipt,
} from '../report-numbers.js';
import type { CallEnding, ConflictWord, Missing } from '@clinical-events/collector/records/counted-run';
import type { FeedbackWord } from '@clinical-events/collector/records/vocabulary';
import type { Share } from '../statistics.js';

/** Between a number and its unit, so that no line breaks there. */
const NARROW = '\u202f';
const NONE = '–';

const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
];

export const FEEDBACK_TEXT: Readonly<Record<FeedbackWord, string>> = {
  rating: 'rating',
  thumbs: 'thumbs',
  text: 'text',
  survey: 'survey',
  other_words: 'other words',
  unreadable: 'unreadable',
};

export const MISSING_TEXT: Readonly<Record<Missing, string>> = {
  'inference-start': 'the start: no one said which model ran',
  model: 'model',
  user: 'who called it',
  target: 'whom it is about',
  inputs: 'inputs',
  output: 'output',
  output_uri: 'where what was shown is kept',
  outcome: 'outcome',
  feedback: 'feedback',
  parent: 'an event that another expands on',
  payload: 'a payload: encrypted or erased',
};

export const CONFLICT_TEXT: Readonly<Record<ConflictWord, string>> = {
  second_start: 'calls with another target or user',
  parent_cycle: 'events that expand on each other in a circle',
  run_cycle: 'runs nested in each other in a circle',
  parent_in_other_run: 'an event that expands on one of another run',
  before_start: 'an event earlier than its start',
  before_parent: 'an event earlier than the one that it expands on',
  ahead_of_receipt: 'a timestamp more than five minutes after its receipt',
};

export const ENDING_TEXT: Readonly<Record<CallEnding, string>> = {
  complete: 'complete',
  failed: 'failed',
  aborted: 'stopped by the application',
  'cut off': 'cut off',
  'not read': 'not known',
  unfinished: 'not finished',
};

export function countText(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** Said of a count of things: `1 run`, `1,204 runs`. */
export function countOf(count: number, one: string): string {
  return `${countText(count)} ${count === 1 ? one : `${one}s`}`;
}

export function percent(share: number | null): string {
  if (share === null) return NONE;
  return `${percentNumber(share)}${NARROW}%`;
}

function percentNumber(share: number): string {
  const hundredths = share * 100;
  return share === 0 || share === 1 ? String(hundredths) : hundredths.toFixed(1);
}

/** Of an estimate, whose tenths are not known. */
export function wholePercent(share: number): string {
  return `${Math.round(share * 100)}${NARROW}%`;
}

export function intervalText({ low, high }: Share): string {
  if (low === null || high === null) return NONE;
  return `${percentNumber(low)} to ${percent(high)}`;
}

export function ofText({ count, of }: Pick<Share, 'count' | 'of'>): string {
  return `${countText(count)} of ${countText(of)}`;
}

export function decimal(value: number | null, digits: number): string {
  return value === null ? NONE : value.toFixed(digits);
}

/** What is to be said of a report on the days of receipt; undefined when there is nothing. */
export function clockWarning(numbers: ReportNumbers): string | undefined {
  if (!isOfReceipt(numbers)) return undefined;
  const { events, of } = numbers.clocks_apart;
  return (
    `in ${countText(events)} of ${countOf(of, 'event')} the sender’s timestamp is more than a day from the time of ` +
    'receipt, as after an import or a demo. This report goes by the time of receipt; use --clock sender to go by ' +
    'the timestamps'
  );
}

/** Each in milliseconds, and up to what it is used. */
const UNITS = [
  ['ms', 1, 1000],
  ['s', 1000, 60_000],
  ['min', 60_000, 3_600_000],
  ['h', 3_600_000, 86_400_000],
  ['d', 86_400_000, Infinity],
] as const;

/** @param relativeError no more digits than this allows; 0 for an exact time, which is given to a thousandth. */
export function durationText(milliseconds: number | null, relativeError = 0): string {
  if (milliseconds === null) return NONE;
  for (const [name, unit, end] of UNITS) {
    const text = knownDigits(milliseconds / unit, relativeError);
    // 996.9 ms that may be 1001 are 1.00 s.
    if (Number(text) * unit < end) return `${text}${NARROW}${name}`;
  }
  return NONE;
}

/** The last digit stands for at least the error. */
function knownDigits(value: number, relativeError: number): string {
  if (value === 0 || relativeError === 0) return String(Number(value.toFixed(3)));
  const power = Math.ceil(Math.log10(value * relativeError));
  return (Math.round(value / 10 ** power) * 10 ** power).toFixed(Math.max(0, -power));
}

type Latency = ModelNumbers['all']['latency_ms'];

export function latencyText(latency: Latency, percentile: 'p50' | 'p95' | 'p99'): string {
  return durationText(latency[percentile], latency.relative_error);
}

/** @param text as `toISOString` has it. */
export function dateText(text: string | null): string {
  if (text === null) return NONE;
  const [year = '', month, day] = text.slice(0, text.indexOf('T')).split('-');
  return `${Number(day)} ${MONTHS[Number(month) - 1] ?? ''} ${year}`;
}

export function shortDateText(text: string): string {
  const [day, month = '', year = ''] = dateText(text).split(' ');
  return `${day ?? ''} ${month.slice(0, 3)} ${year}`;
}

export function instantText(text: string): string {
  return `${dateText(text)}, ${text.slice(text.indexOf('T') + 1, -'.000Z'.length)} UTC`;
}

/** @param until the end of the period, which is not part of it. */
export function periodText(since: string, until: string): string {
  const [first, last] = [dateText(since), dateText(new Date(Date.parse(until) - 1).toISOString())];
  return first === last ? first : `${first} to ${last}`;
}

export function modelText({ model_id }: Pick<ModelNumbers, 'model_id'>): string {
  return model_id ?? 'model not known';
}

export function versionText({ model_version }: Pick<VersionNumbers, 'model_version'>): string {
  return model_version ?? 'version not known';
}

/** Whether runs have more calls than one each, so that there is more to say than their number. */
export function hasSeveralCalls({ calls: { calls }, runs }: Pick<GroupNumbers, 'calls' | 'runs'>): boolean {
  return calls > runs;
}

/** `less than 1 day`, `7 to 30 days`, `90 days and more`. */
export function ageText({ from_days, to_days }: { from_days: number; to_days: number | null }): string {
  if (to_days === null) return `${from_days} days and more`;
  return from_days === 0 ? `less than ${to_days} day` : `${from_days} to ${to_days} days`;
}

/** HTML as a type of its own, so that no text gets into the page without being escaped. */
export class Html {
  constructor(readonly text: string) {}
}

export type Inner = Html | string | number | readonly Inner[];

/** A template whose values are escaped, unless they are HTML already. */
export function html(strings: TemplateStringsArray, ...values: readonly Inner[]): Html {
  return new Html(strings.reduce((text, string, i) => text + markup(values[i - 1] ?? '') + string));
}

export const NOTHING = new Html('');

function markup(value: Inner): string {
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(markup).join('');
  return escaped(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Control characters and those that turn the direction of writing around would change what stands beside them. */
function escaped(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\ufeff]/gu, '\ufffd')
    .replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
