/**
 * The operator's console: one page that says whether all is well, and if not, what to do. The collector writes it whole,
 * and its script makes the same page of each new state.
 */
import type { ConsoleState } from './console-state.js';
import { type Element, type View } from './elements.js';
export declare function page(view: View): Element;
/** For the tab: what is wrong, before the name. */
export declare function pageTitle({ connection, state: { health: found, warnings } }: View): string;
/** Its links are relative, so that it may stand behind a proxy under any path. */
export declare function documentOf(whole: ConsoleState): string;
