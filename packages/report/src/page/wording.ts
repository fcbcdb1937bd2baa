/** The texts of numbers, times and words of the vocabularies on the page. */
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

/** A narrow no-break space, between a number and its unit. */
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
  'inference-start': 'inference-start, which names the model',
  model: 'model',
  user: 'user',
  target: 'target',
  inputs: 'inputs',
  output: 'output',
  output_uri: 'address of the output',
  outcome: 'outcome',
  feedback: 'feedback',
  parent: 'parent of an event',
  payload: 'payload, encrypted or erased',
};

export const CONFLICT_TEXT: Readonly<Record<ConflictWord, string>> = {
  second_start: 'calls with another target or user',
  parent_cycle: 'events that are parents of each other',
  run_cycle: 'runs that are nested in each other',
  parent_in_other_run: 'an event with its parent in another run',
  before_start: 'an event before its start',
  before_parent: 'an event before its parent',
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

/** `1 run`, `1,204 runs`. */
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

/** A percentage for an estimate whose tenths are not known. */
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

/**
 * A warning for a report by days of receipt whose events happened on other days; undefined if none is needed.
 */
export function clockWarning(numbers: ReportNumbers): string | undefined {
  if (!isOfReceipt(numbers)) return undefined;
  const { events, of } = numbers.clocks_apart;
  return (
    `in ${countText(events)} of ${countOf(of, 'event')} the sender’s timestamp is more than a day from the ` +
    'time of receipt, as after an import or a demo. This report uses the time of receipt; --clock sender ' +
    'uses the timestamps'
  );
}

/** Name, milliseconds, and the duration from which the next unit is used. */
const UNITS = [
  ['ms', 1, 1000],
  ['s', 1000, 60_000],
  ['min', 60_000, 3_600_000],
  ['h', 3_600_000, 86_400_000],
  ['d', 86_400_000, Infinity],
] as const;

/** @param relativeError limits the digits; 0 for an exact time, which has three decimals. */
export function durationText(milliseconds: number | null, relativeError = 0): string {
  if (milliseconds === null) return NONE;
  for (const [name, unit, end] of UNITS) {
    const text = knownDigits(milliseconds / unit, relativeError);
    // 996.9 ms with an error of 0.5 % is 1.00 s.
    if (Number(text) * unit < end) return `${text}${NARROW}${name}`;
  }
  return NONE;
}

/** The last digit is at least the size of the error. */
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

/** @param until the end of the period, not part of it. */
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

/** Whether any run has several calls. */
export function hasSeveralCalls({ calls: { calls }, runs }: Pick<GroupNumbers, 'calls' | 'runs'>): boolean {
  return calls > runs;
}

/** `less than 1 day`, `7 to 30 days`, `90 days and more`. */
export function ageText({ from_days, to_days }: { from_days: number; to_days: number | null }): string {
  if (to_days === null) return `${from_days} days and more`;
  return from_days === 0 ? `less than ${to_days} day` : `${from_days} to ${to_days} days`;
}
