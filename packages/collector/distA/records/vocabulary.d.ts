/**
 * By which clock a report counts, and a list looks for runs.
 *
 * received: when the collector had an event. sender: the timestamp that the event has, which is what is left of the
 * past where events came by an import; for a payload that cannot be read, when the collector had it.
 */
export declare const CLOCKS: readonly ["received", "sender"];
export type Clock = (typeof CLOCKS)[number];
/** What a run came to: R-117's vocabulary, and what there is beside it. In the order of the page. */
export declare const OUTCOME_WORDS: readonly ["validated", "partial", "contradicted", "unknown", "other_words", "unreadable", "none"];
export type OutcomeWord = (typeof OUTCOME_WORDS)[number];
export declare const FEEDBACK_WORDS: readonly ["rating", "thumbs", "text", "survey", "other_words", "unreadable"];
export type FeedbackWord = (typeof FEEDBACK_WORDS)[number];
export declare function outcomeWord(type: unknown): OutcomeWord;
export declare function feedbackWord(type: unknown): FeedbackWord;
/**
 * Of feedback of type `thumbs`, by its `direction` or else its `rating_value`. Undefined for one that has neither, and
 * for a direction that says something else.
 */
export declare function thumbOf(direction: unknown, rating: unknown): 'up' | 'down' | undefined;
export declare const OUTCOME_TEXT: Readonly<Record<OutcomeWord, string>>;
