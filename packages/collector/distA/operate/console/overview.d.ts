import { type Child, type Element, type View } from './elements.js';
export declare function overview(view: View): Element;
export declare function health({ state: { health: found, queue, ledger } }: View): Element;
/** A bar with its number. */
export declare function metered(part: number, text: string): Child;
