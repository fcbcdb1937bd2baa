/** What shows later that the log is whole: checkpoints, verification, back-ups; and certificates. */
import type { Warning } from './console-state.js';
import { type Child, type Element, type View } from './elements.js';
export declare function proof(view: View): Element;
/** Nothing where there is none: the facts say so. */
export declare function sinks(view: View): Child;
/** The day, and how long until then when that is soon. */
export declare function expiry(instant: string, now: number): Child;
/** Nothing where all is well: the status at the top says so. */
export declare function attention({ state: { warnings } }: View): Child;
/** What is not set up yet. May be folded away by anyone who has decided otherwise. */
export declare function hints({ state: { hints: list } }: View): Child;
/** `2 critical, 1 warning`, or nothing. */
export declare function summary(warnings: readonly Warning[]): string;
