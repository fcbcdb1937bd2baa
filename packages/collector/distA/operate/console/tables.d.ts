import { type Element, type View } from './elements.js';
/** Whether nothing was answered since the start. */
export declare function isUnasked({ state: { totals } }: View): boolean;
/** In place of the two cards below. */
export declare function unasked(): Element;
export declare function acceptedByKind({ state: { totals } }: View): Element;
export declare function refusedByReason({ state: { totals } }: View): Element;
export declare function keys(view: View): Element;
export declare function runs({ state: { runs: found, traffic, database } }: View): Element;
export declare function storage(view: View): Element;
