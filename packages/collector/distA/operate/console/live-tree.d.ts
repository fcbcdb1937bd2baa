/**
 * Keeps a part of the document as the elements say, and touches only what has changed: focus, selection, scroll positions
 * and what is folded open stay, and a screen reader hears of nothing that is as before. Text goes in as text.
 */
import type { Element } from './elements.js';
export declare class LiveTree {
    #private;
    private readonly root;
    /** @param root its content is replaced by the first tree. */
    constructor(root: globalThis.Element);
    show(tree: Element): void;
}
