/** The words by which runs are counted and listed, and the two clocks. */
import { numberIn } from './raw-json.js';

/**
 * The clock of a report or a list.
 *
 * received: when the collector received an event. sender: the event's timestamp, which imported events keep;
 * for an unreadable payload, the time of receipt.
 */
export const CLOCKS = ['received', 'sender'] as const;
export type Clock = (typeof CLOCKS)[number];

/*
 * Words that a report may show. With profile minimum a sender may use any words, even personal ones: words
 * outside the list are counted as other words and not shown.
 */

/** The result of a run: the vocabulary of R-115 and further words, in the order of the page. */
export const OUTCOME_WORDS = [
  'validated',
  'partial',
  'contradicted',
  'unknown',
  'other_words',
  'unreadable',
  'none',
] as const;
export type OutcomeWord = (typeof OUTCOME_WORDS)[number];

export const FEEDBACK_WORDS = ['rating', 'thumbs', 'text', 'survey', 'other_words', 'unreadable'] as const;
export type FeedbackWord = (typeof FEEDBACK_WORDS)[number];

const OUTCOMES: readonly unknown[] = ['validated', 'partial', 'contradicted', 'unknown'];
const FEEDBACK: readonly unknown[] = ['rating', 'thumbs', 'text', 'survey'];

export function outcomeWord(type: unknown): OutcomeWord {
  return OUTCOMES.includes(type) ? (type as OutcomeWord) : 'other_words';
}

export function feedbackWord(type: unknown): FeedbackWord {
  return FEEDBACK.includes(type) ? (type as FeedbackWord) : 'other_words';
}

const DIRECTION = /^\s*(?:thumbs?[-_ ]?)?(up|down)\s*$/i;
/** Rating from which a thumb without a direction is up. */
const LEAST_UP = 3;

/**
 * The direction of feedback of type `thumbs`, from its `direction`, otherwise from its `rating_value`.
 * Undefined without either, and for an unknown direction.
 */
export function thumbOf(direction: unknown, rating: unknown): 'up' | 'down' | undefined {
  if (direction === undefined || direction === null) {
    const value = numberIn(rating);
    return value === undefined ? undefined : value >= LEAST_UP ? 'up' : 'down';
  }
  const said = typeof direction === 'string' ? DIRECTION.exec(direction)?.[1]?.toLowerCase() : undefined;
  return said as 'up' | 'down' | undefined;
}

export const OUTCOME_TEXT: Readonly<Record<OutcomeWord, string>> = {
  validated: 'validated',
  partial: 'partial',
  contradicted: 'contradicted',
  unknown: 'unknown',
  other_words: 'other words',
  unreadable: 'unreadable',
  none: 'none yet',
};
