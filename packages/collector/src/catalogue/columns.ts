/** The columns of a row: numbers, and words by their positions in the lists below. */
import { CALL_ENDINGS } from '../records/calls.js';
import type { ConflictWord, CountedCall, CountedSummary, Missing } from '../records/counted-run.js';
import { FEEDBACK_WORDS, OUTCOME_WORDS, type FeedbackWord } from '../records/vocabulary.js';
import { CatalogueDamaged } from './faults.js';
import { type CallSummary, MOST_RATING, type RunSummary } from './run-summary.js';

/** Word lists are append-only; otherwise increment the version of the catalogue. */
export const LEVELS = ['full', 'minimum', 'incomplete', 'erased'] as const;
export const MISSING: readonly Missing[] = [
  'inference-start',
  'model',
  'user',
  'target',
  'inputs',
  'output',
  'output_uri',
  'outcome',
  'feedback',
  'parent',
  'payload',
];
export const CONFLICTS: readonly ConflictWord[] = [
  'second_start',
  'parent_cycle',
  'run_cycle',
  'parent_in_other_run',
  'before_start',
  'before_parent',
  'ahead_of_receipt',
];

/** Values of SQLite. */
export type Value = null | number | bigint | string | Uint8Array;

/** Maps names to their numbers in the file. */
export interface NameNumbers {
  idOf(name: string): number;
  nameOf(id: number): string;
}

interface Column<Of = RunSummary> {
  readonly name: string;
  readonly type: string;
  readonly of: (said: Of, names: NameNumbers) => Value;
}

const NUMBER = 'INTEGER NOT NULL DEFAULT 0';
const COUNTS = {
  starts: 'inference-start',
  artifacts: 'internal-artifact',
  outputs: 'human-output',
  outcomes: 'outcome',
  feedbacks: 'user-feedback',
} as const;
const CALL_NAMED = {
  target: 'targetId',
  user: 'userId',
  model: 'modelId',
  version: 'modelVersion',
} as const;
const NAMED = { ...CALL_NAMED, application: 'application' } as const;
/** Columns of names, by member; `organisation` precedes the summary. */
export const NAME_COLUMNS = ['organisation', ...Object.keys(NAMED)];

const numbers = (of: Readonly<Record<string, (summary: RunSummary) => number>>): Column[] =>
  Object.entries(of).map(([name, value]) => ({ name, type: NUMBER, of: value }));
const optional = (of: Readonly<Record<string, (summary: RunSummary) => number | undefined>>): Column[] =>
  Object.entries(of).map(([name, value]) => ({ name, type: 'INTEGER', of: (each) => value(each) ?? null }));

function namedColumns<Member extends string>(
  named: Readonly<Record<string, Member>>,
): Column<Readonly<Record<Member, string | null>>>[] {
  return Object.entries(named).map(([name, member]) => ({
    ...{ name, type: 'INTEGER' },
    of: (said, names) => (said[member] === null ? null : names.idOf(said[member])),
  }));
}

const TOKENS = (['input', 'output'] as const).map((which) => ({
  ...{ name: `${which}_tokens`, type: 'ANY' },
  of: ({ tokens }: Pick<RunSummary, 'tokens'>) => tokens[which],
}));

export const SUMMARY_COLUMNS: readonly Column[] = [
  ...numbers({
    began_received: ({ began }) => began.received,
    began_sender: ({ began }) => began.sender,
    last_received: ({ times }) => times.received.last,
    first_sent: ({ times }) => times.sent.first,
    last_sent: ({ times }) => times.sent.last,
    unreadable_events: ({ times }) => times.unreadable,
    events_apart: ({ times }) => times.apart,
  }),
  ...namedColumns(NAMED),
  ...numbers({
    ...Object.fromEntries(
      Object.entries(COUNTS).map(([name, kind]) => [name, ({ counts }: RunSummary) => counts[kind]]),
    ),
    level: ({ level }) => LEVELS.indexOf(level),
    missing: ({ missing }) => maskOf(missing, MISSING),
    conflicts: ({ conflicts }) => maskOf(conflicts, CONFLICTS),
    orphan_events: ({ orphanEvents }) => orphanEvents,
    numbers_in_text: ({ numbersInText }) => numbersInText,
    failed_calls: ({ failedCalls }) => failedCalls,
    outcome: ({ outcome }) => OUTCOME_WORDS.indexOf(outcome),
    outcomes_differ: ({ outcomesDiffer }) => Number(outcomesDiffer),
  }),
  ...optional({
    outcome_received: ({ outcomeAt }) => outcomeAt?.last.received,
    outcome_sender: ({ outcomeAt }) => outcomeAt?.last.sender,
    first_outcome_received: ({ outcomeAt }) => outcomeAt?.earliest.received,
    first_outcome_sender: ({ outcomeAt }) => outcomeAt?.earliest.sender,
  }),
  ...numbers({
    ...Object.fromEntries(
      FEEDBACK_WORDS.map((word) => [`said_${word}`, ({ feedback }: RunSummary) => feedback[word]]),
    ),
    thumbs_up: ({ thumbs }) => thumbs.up,
    thumbs_down: ({ thumbs }) => thumbs.down,
  }),
  // The numbers of ratings 0, 1, ... 5, separated by spaces.
  {
    name: 'ratings',
    type: 'TEXT',
    of: ({ ratings }) => (ratings.some((times) => times > 0) ? ratings.join(' ') : null),
  },
  { name: 'rating_sum', type: 'REAL NOT NULL DEFAULT 0', of: ({ ratingSum }) => ratingSum },
  ...optional({
    ending: ({ call }) => (call === null ? undefined : CALL_ENDINGS.indexOf(call.ending)),
    status: ({ call }) => call?.status ?? undefined,
    attempts: ({ call }) => call?.attempts,
  }),
  ...TOKENS,
  { name: 'latency_ms', type: 'REAL', of: ({ latencyMs }) => latencyMs },
];

/** Columns of names of a call. */
export const CALL_NAME_COLUMNS = Object.keys(CALL_NAMED);

export const CALL_COLUMNS: readonly Column<CallSummary>[] = [
  { name: 'number', type: 'INTEGER NOT NULL', of: ({ number }) => number },
  ...namedColumns(CALL_NAMED),
  {
    ...{ name: 'ending', type: 'INTEGER' },
    of: ({ ended }) => (ended === null ? null : CALL_ENDINGS.indexOf(ended.ending)),
  },
  { name: 'status', type: 'INTEGER', of: ({ ended }) => ended?.status ?? null },
  { name: 'attempts', type: 'INTEGER', of: ({ ended }) => ended?.attempts ?? null },
  ...TOKENS,
];
/** @param row of CALL_COLUMNS. */
export function callIn(row: readonly Value[], names: NameNumbers): CountedCall {
  const [number, , , model, version, ending, status, attempts, input, output] = row;
  const nameOf = (id: Value | undefined) => (typeof id === 'number' ? names.nameOf(id) : null);
  return {
    number: count(number),
    modelId: nameOf(model),
    modelVersion: nameOf(version),
    ended:
      ending === null
        ? null
        : { ending: wordAt(CALL_ENDINGS, ending), status: orNull(status), attempts: count(attempts) },
    tokens: { input: orNull(input), output: orNull(output) },
  };
}

function maskOf<Word>(words: readonly Word[], all: readonly Word[]): number {
  return words.reduce((mask, word) => mask | (1 << all.indexOf(word)), 0);
}

/** Masks of words, each made once: there are few, and millions of summaries. */
class MaskedWords<Word> {
  readonly #known = new Map<number, readonly Word[]>();

  constructor(private readonly all: readonly Word[]) {}

  of(mask: number): readonly Word[] {
    let words = this.#known.get(mask);
    if (words === undefined) {
      words = this.all.filter((_, place) => (mask & (1 << place)) !== 0);
      this.#known.set(mask, words);
    }
    return words;
  }
}

const MISSING_IN = new MaskedWords(MISSING);
const CONFLICTS_IN = new MaskedWords(CONFLICTS);
const NO_RATINGS: readonly number[] = new Array<number>(MOST_RATING + 1).fill(0);
const NO_FEEDBACK = Object.fromEntries(FEEDBACK_WORDS.map((word) => [word, 0])) as Record<
  FeedbackWord,
  number
>;
const NO_TOKENS = { input: null, output: null };
const NO_THUMBS = { up: 0, down: 0 };

type NameMember = (typeof NAMED)[keyof typeof NAMED];

/** A summary without its start time and its names. */
export type RowPieces = Omit<
  RunSummary,
  'organisation' | 'recordId' | 'isRun' | 'firstSequence' | 'lastSequence' | 'began' | NameMember
>;

/** The position of each column in a summary. */
const PLACES = new Map(SUMMARY_COLUMNS.map(({ name }, place) => [name, place]));

/** @throws TypeError if a summary has no such column. */
export function placeOf(column: string): number {
  const place = PLACES.get(column);
  if (place === undefined) throw new TypeError(`a summary has no column ${column}`);
  return place;
}

const RECEIVED = placeOf('began_received');
const SENDER = placeOf('began_sender');
const LAST_RECEIVED = placeOf('last_received');
const STARTS = placeOf('starts');
const LEVEL = placeOf('level');
const MISSED = placeOf('missing');
const DISAGREE = placeOf('conflicts');
const ORPHANS = placeOf('orphan_events');
const TEXTS = placeOf('numbers_in_text');
const FAILED = placeOf('failed_calls');
const OUTCOME = placeOf('outcome');
const DIFFER = placeOf('outcomes_differ');
const OUTCOME_AT = placeOf('outcome_received');
const SAID = placeOf(`said_${FEEDBACK_WORDS[0]}`);
const THUMBS = placeOf('thumbs_up');
const RATINGS = placeOf('ratings');
const ENDING = placeOf('ending');
const LATENCY = placeOf('latency_ms');

/** Returns the value of a column by its position. */
export type Cells = (place: number) => Value | undefined;

/** @throws CatalogueDamaged if there is no such word. */
export function wordAt<Word>(words: readonly Word[], value: Value | undefined): Word {
  const word = words[Number(value)];
  if (word === undefined) throw new CatalogueDamaged('a row with an unknown word');
  return word;
}

const count = (value: Value | undefined): number => Number(value);
const orNull = (value: Value | undefined): number | null =>
  value === null || value === undefined ? null : Number(value);

export function beganIn(cells: Cells): RunSummary['began'] {
  return { received: count(cells(RECEIVED)), sender: count(cells(SENDER)) };
}

/** The counted values of a row. */
export function countedIn(cells: Cells): CountedSummary {
  const firstOutcome = cells(OUTCOME_AT + 2);
  const ending = cells(ENDING);
  const feedbacks = count(cells(STARTS + 4));
  return {
    counts: {
      'inference-start': count(cells(STARTS)),
      'internal-artifact': count(cells(STARTS + 1)),
      'human-output': count(cells(STARTS + 2)),
      outcome: count(cells(STARTS + 3)),
      'user-feedback': feedbacks,
    },
    times: {
      received: { first: count(cells(RECEIVED)), last: count(cells(LAST_RECEIVED)) },
      sent: { first: count(cells(LAST_RECEIVED + 1)), last: count(cells(LAST_RECEIVED + 2)) },
      unreadable: count(cells(LAST_RECEIVED + 3)),
      apart: count(cells(LAST_RECEIVED + 4)),
    },
    level: wordAt(LEVELS, cells(LEVEL)),
    missing: MISSING_IN.of(count(cells(MISSED))),
    conflicts: CONFLICTS_IN.of(count(cells(DISAGREE))),
    numbersInText: count(cells(TEXTS)),
    outcome: wordAt(OUTCOME_WORDS, cells(OUTCOME)),
    outcomesDiffer: cells(DIFFER) === 1,
    outcomeAt:
      firstOutcome === null
        ? null
        : { earliest: { received: count(firstOutcome), sender: count(cells(OUTCOME_AT + 3)) } },
    feedback: feedbacks === 0 ? NO_FEEDBACK : saidIn(cells),
    thumbs: feedbacks === 0 ? NO_THUMBS : { up: count(cells(THUMBS)), down: count(cells(THUMBS + 1)) },
    ratings: feedbacks === 0 ? NO_RATINGS : ratingsIn(cells(RATINGS)),
    ratingSum: feedbacks === 0 ? 0 : count(cells(RATINGS + 1)),
    call:
      ending === null
        ? null
        : {
            ending: wordAt(CALL_ENDINGS, ending),
            status: orNull(cells(ENDING + 1)),
            attempts: count(cells(ENDING + 2)),
          },
    tokens:
      ending === null ? NO_TOKENS : { input: orNull(cells(ENDING + 3)), output: orNull(cells(ENDING + 4)) },
    latencyMs: orNull(cells(LATENCY)),
  };
}

/** Columns that have a value only with feedback or a captured model call. */
export const RARE: readonly string[] = [
  ...FEEDBACK_WORDS.map((word) => `said_${word}`),
  ...[
    'thumbs_up',
    'thumbs_down',
    'ratings',
    'rating_sum',
    'status',
    'attempts',
    'input_tokens',
    'output_tokens',
  ],
];
/** Columns that are not counted. */
export const UNCOUNTED: readonly string[] = [
  'orphan_events',
  'failed_calls',
  'outcome_received',
  'outcome_sender',
];

/** The values of a row without names. */
export function piecesIn(cells: Cells): RowPieces {
  const counted = countedIn(cells);
  return {
    ...counted,
    orphanEvents: count(cells(ORPHANS)),
    failedCalls: count(cells(FAILED)),
    outcomeAt: counted.outcomeAt && {
      last: { received: count(cells(OUTCOME_AT)), sender: count(cells(OUTCOME_AT + 1)) },
      ...counted.outcomeAt,
    },
  };
}

function saidIn(cells: Cells): Record<FeedbackWord, number> {
  return Object.fromEntries(
    FEEDBACK_WORDS.map((word, place) => [word, count(cells(SAID + place))]),
  ) as Record<FeedbackWord, number>;
}

function ratingsIn(value: Value | undefined): readonly number[] {
  if (typeof value !== 'string') return NO_RATINGS;
  const ratings = value.split(' ').map(Number);
  if (ratings.length !== NO_RATINGS.length || !ratings.every(Number.isInteger))
    throw new CatalogueDamaged('a row with ratings of another form');
  return ratings;
}

/** The names in a row. */
export function namesIn(cells: Cells, names: NameNumbers): Pick<RunSummary, NameMember> {
  const named = Object.entries(NAMED).map(([column, member]) => {
    const id = cells(placeOf(column));
    return [member, id === null ? null : names.nameOf(Number(id))];
  });
  return Object.fromEntries(named) as Pick<RunSummary, NameMember>;
}
