/** The words by which runs are counted and listed, and the two clocks. */
import { numberIn } from './raw-json.js';
/**
 * By which clock a report counts, and a list looks for runs.
 *
 * received: when the collector had an event. sender: the timestamp that the event has, which is what is left of the
 * past where events came by an import; for a payload that cannot be read, when the collector had it.
 */
export const CLOCKS = ['received', 'sender'];
/*
 * The words that a report may show. Under profile minimum a sender may put anything in place of a vocabulary, the words
 * of a patient among it: what is not one of these is counted as other words, and not shown.
 */
/** What a run came to: R-117's vocabulary, and what there is beside it. In the order of the page. */
export const OUTCOME_WORDS = [
    'validated',
    'partial',
    'contradicted',
    'unknown',
    'other_words',
    'unreadable',
    'none',
];
export const FEEDBACK_WORDS = ['rating', 'thumbs', 'text', 'survey', 'other_words', 'unreadable'];
const OUTCOMES = ['validated', 'partial', 'contradicted', 'unknown'];
const FEEDBACK = ['rating', 'thumbs', 'text', 'survey'];
export function outcomeWord(type) {
    return OUTCOMES.includes(type) ? type : 'other_words';
}
export function feedbackWord(type) {
    return FEEDBACK.includes(type) ? type : 'other_words';
}
const DIRECTION = /^\s*(?:thumbs?[-_ ]?)?(up|down)\s*$/i;
/** From this value on, a thumb that says no direction is up. */
const LEAST_UP = 3;
/**
 * Of feedback of type `thumbs`, by its `direction` or else its `rating_value`. Undefined for one that has neither, and
 * for a direction that says something else.
 */
export function thumbOf(direction, rating) {
    if (direction === undefined || direction === null) {
        const value = numberIn(rating);
        return value === undefined ? undefined : value >= LEAST_UP ? 'up' : 'down';
    }
    const said = typeof direction === 'string' ? DIRECTION.exec(direction)?.[1]?.toLowerCase() : undefined;
    return said;
}
export const OUTCOME_TEXT = {
    validated: 'validated',
    partial: 'partial',
    contradicted: 'contradicted',
    unknown: 'unknown',
    other_words: 'other words',
    unreadable: 'unreadable',
    none: 'none yet',
};
//# sourceMappingURL=vocabulary.js.map