/** What an operator types to `collector runs`, read strictly before anything is done. */
import fs from 'node:fs';
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import type { FeedbackAsked, RunFilter } from '../catalogue/catalogue.js';
import { parseDuration } from '../quantity.js';
import { OUTCOME_WORDS } from '../records/report/closed-words.js';
import type { Clock } from '../records/report/run-moments.js';
import { clockFrom, instantFrom, organisationFrom } from './event-arguments.js';
import { usage } from './key-arguments.js';

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
  /** Of --no-outcome-for: Commander takes a name with no- for a negation, whose default is true. */
  readonly outcomeFor?: string | true;
  readonly since?: string;
  readonly until?: string;
  readonly clock?: string;
  readonly limit?: string;
  readonly json?: true;
  readonly csv?: true;
  readonly tempDir?: string;
}

export interface RunsRequest {
  readonly filter: RunFilter & { readonly clock: Clock };
  /** Infinity for all. */
  readonly limit: number;
  readonly form: 'table' | 'json' | 'csv';
  readonly tempDir: string | undefined;
}

export const DEFAULT_LIMIT = 20;

/** A word as it is typed: with dashes. */
const OUTCOMES_ASKED = OUTCOME_WORDS.map((word) => word.replace('_', '-'));

const FEEDBACK: Readonly<Record<string, FeedbackAsked>> = {
  'thumbs-up': 'up',
  'thumbs-down': 'down',
  rating: 'rating',
  text: 'text',
  survey: 'survey',
  'other-words': 'other_words',
  any: 'any',
  none: 'none',
};
/** As it is typed. */
export const FEEDBACK_ASKED = Object.keys(FEEDBACK);

/** @param now what --no-outcome-for counts back from. */
export function runsRequestFrom(options: RunsOptions, now: number): RunsRequest {
  const { since, until, clock, json, csv, tempDir } = options;
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
  if (json && csv) throw usage('--csv: not together with --json');
  return {
    filter,
    limit: limitFrom(options.limit),
    form: json ? 'json' : csv ? 'csv' : 'table',
    tempDir: tempDir === undefined ? undefined : directoryFrom(tempDir),
  };
}

function namesFrom({ organisation, target, user, model, app }: RunsOptions): Partial<RunFilter> {
  return {
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(target !== undefined && { target: nameFrom('--target', target) }),
    ...(user !== undefined && { user: nameFrom('--user', user) }),
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

function outcomeFrom({ outcome, outcomeFor }: RunsOptions, now: number): Partial<RunFilter> {
  if (typeof outcomeFor === 'string') {
    if (outcome !== undefined) throw usage('--no-outcome-for: not together with --outcome');
    return { noOutcomeSince: now - ageFrom(outcomeFor) };
  }
  if (outcome === undefined) return {};
  const word = OUTCOME_WORDS[OUTCOMES_ASKED.indexOf(wordFrom('--outcome', outcome, OUTCOMES_ASKED))];
  return word === undefined ? {} : { outcome: word };
}

/** A script's empty variable is a fault, and not an empty answer. */
function nameFrom(option: string, text: string): string {
  if (text === '') throw usage(`${option}: "" names nothing`);
  return text;
}

/** Both an id and a version may have an @ in them, so that a text can be meant in several ways. */
export function modelsNamed(text: string): NonNullable<RunFilter['models']> {
  const parts = [...text.matchAll(/@/g)].map(({ index }) => ({
    model: text.slice(0, index),
    version: text.slice(index + 1),
  }));
  return [{ model: text }, ...parts.filter(({ model }) => model !== '')];
}

function wordFrom<Word extends string>(option: string, text: string, words: readonly Word[]): Word {
  const found = words.find((word) => word === text);
  if (found !== undefined) return found;
  throw usage(`${option}: ${JSON.stringify(text)} is none of ${words.join(', ')}${didYouMean(text, words)}`);
}

/** With its unit: 30 would be 30 milliseconds, and was surely meant as days. */
function ageFrom(text: string): number {
  const age = /[a-z]$/.test(text) ? parseDuration(text) : undefined;
  if (age !== undefined && age > 0) return age;
  throw usage(`--no-outcome-for: ${JSON.stringify(text)} is not a time such as 30d or 12h`);
}

function limitFrom(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LIMIT;
  if (text === 'all') return Infinity;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw usage(`--limit: ${JSON.stringify(text)} is neither a number of runs nor all`);
}

function directoryFrom(text: string): string {
  const directory = path.resolve(text);
  if (fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory() === true) return directory;
  throw usage(`--temp-dir: there is no directory ${directory}`);
}
