/** Options that select runs, shared by `runs` and `names`. */
import { type FeedbackAsked, modelsNamed, type RunFilter } from '../catalogue/catalogue.js';
import { parseDuration } from '../quantity.js';
import { type Clock, OUTCOME_WORDS } from '../records/vocabulary.js';
import { clockFrom, periodFrom, organisationFrom, personFrom, wordFrom, wordsFrom } from './arguments.js';
import type { OwnOption } from './define.js';
import { usage } from './exit-codes.js';

export interface FilterOptions {
  readonly organisation?: string;
  readonly target?: string;
  readonly user?: string;
  readonly model?: string;
  readonly app?: string;
  readonly outcome?: string;
  readonly feedback?: string;
  readonly only?: string;
  readonly since?: string;
  readonly until?: string;
  readonly clock?: string;
  readonly limit?: string;
}

const DEFAULT_LIMIT = 20;

/** Selects runs only, without records that have no run. */
export type AskedRuns = RunFilter & { readonly clock: Clock };

/** Outcome words as typed, with dashes. */
export const OUTCOMES_ASKED = OUTCOME_WORDS.map((word) => word.replace('_', '-'));

const FEEDBACK: Readonly<Record<string, FeedbackAsked>> = {
  'thumbs-up': 'up',
  'thumbs-down': 'down',
  thumbs: 'thumbs',
  rating: 'rating',
  text: 'text',
  survey: 'survey',
  'other-words': 'other_words',
  any: 'any',
  none: 'none',
};
/** The words for --feedback. */
export const FEEDBACK_ASKED = Object.keys(FEEDBACK);

/** States of a run: its completeness is "incomplete", it contradicts itself, or a model call failed. */
export const STATES = ['incomplete', 'contradictory', 'failed'] as const;
/** The options that select runs. @param most the noun for what --limit counts. */
export function filterOptions(most: string): Record<string, OwnOption> {
  return {
    '--target <id>': 'only runs about this patient, document or claim: the id, or @FILE, or -',
    '--user <id>': 'only runs called by this user: the id, or @FILE, or -',
    '--model <id>': 'only runs of this model: MODEL_ID or MODEL_ID@VERSION',
    '--app <name>': 'only runs of this application',
    '--organisation <name>': 'only runs of this organisation',
    '--outcome <word>':
      'only runs with this last outcome: validated, partial, …, or none; none:30d: none, and begun 30 days ' +
      'ago',
    '--feedback <sort>': 'only runs with this feedback: thumbs-up, thumbs-down, …, or none',
    '--only <states>': `only runs that are ${STATES.join(', ')}: one or more, comma-separated`,
    '--since <time>': 'only runs that began at or after this time',
    '--until <time>': 'only runs that began before this time',
    '--clock <which>': 'clock for the beginning of a run: received, or sender (default: received)',
    '--limit <number>': `maximum number of ${most}, or all (default: ${DEFAULT_LIMIT})`,
  };
}

/** @param now the time from which --outcome none:TIME counts back. */
export function filterFrom(options: FilterOptions, now: number): AskedRuns {
  const { feedback, only } = options;
  return {
    isRun: true,
    ...namesFrom(options),
    ...(feedback !== undefined && { feedback: FEEDBACK[wordFrom('--feedback', feedback, FEEDBACK_ASKED)] }),
    ...statesFrom(only),
    ...outcomeFrom(options, now),
    ...periodFrom(options),
    clock: clockFrom(options.clock) ?? 'received',
  };
}

function namesFrom({ organisation, target, user, model, app }: FilterOptions): Partial<RunFilter> {
  if (target === '-' && user === '-') throw usage('- stands for standard input, which can be read only once');
  return {
    ...(organisation !== undefined && { organisation: organisationFrom(organisation) }),
    ...(target !== undefined && { target: personFrom('--target', target) }),
    ...(user !== undefined && { user: personFrom('--user', user) }),
    ...(model !== undefined && { models: modelsNamed(nameFrom('--model', model)) }),
    ...(app !== undefined && { application: nameFrom('--app', app) }),
  };
}

/** The states of --only; several must all apply. */
export function statesFrom(only: string | undefined): Partial<RunFilter> {
  const states = only === undefined ? new Set<string>() : wordsFrom('--only', only, STATES);
  return {
    ...(states.has('incomplete') && { level: 'incomplete' as const }),
    ...(states.has('contradictory') && { hasConflict: true as const }),
    ...(states.has('failed') && { failed: true as const }),
  };
}

function outcomeFrom({ outcome }: FilterOptions, now: number): Partial<RunFilter> {
  if (outcome === undefined) return {};
  const [, age] = /^none:(.*)$/s.exec(outcome) ?? [];
  if (age !== undefined) return { noOutcomeSince: now - ageFrom(age) };
  const word = OUTCOME_WORDS[OUTCOMES_ASKED.indexOf(wordFrom('--outcome', outcome, OUTCOMES_ASKED))];
  return word === undefined ? {} : { outcome: word };
}

/** Rejects an empty name, so that an empty variable in a script is an error and not an empty answer. */
function nameFrom(option: string, text: string): string {
  if (text === '') throw usage(`${option}: the name is empty`);
  return text;
}

/** A duration with its unit: a bare 30 would mean 30 milliseconds, and days were surely meant. */
function ageFrom(text: string): number {
  const age = /[a-z]$/.test(text) ? parseDuration(text) : undefined;
  if (age !== undefined && age > 0) return age;
  throw usage(`--outcome: after none:, ${JSON.stringify(text)} is not a time such as 30d or 12h`);
}

/** Infinity for all. @param what the noun for the message. */
export function limitFrom(text: string | undefined, what: string): number {
  if (text === undefined) return DEFAULT_LIMIT;
  if (text === 'all') return Infinity;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw usage(`--limit: ${JSON.stringify(text)} is neither a number of ${what} nor all`);
}

/** The filter for the access log, under the names of the options; the log leaves persons out. */
export function loggedFilter(options: FilterOptions): Readonly<Record<string, unknown>> {
  const { target, user, model, app, organisation, outcome, feedback, only } = options;
  const { since, until, clock, limit } = options;
  return {
    ...{ target, user, model, app, organisation, outcome, feedback, only },
    ...{ since, until, clock, limit },
  };
}
