import type { ConsoleState } from './console-state.js';
export interface Element {
    readonly tag: string;
    readonly attributes: Readonly<Record<string, string>>;
    readonly children: readonly Node[];
}
export type Node = Element | string;
/** A number is written as it is; false and undefined are nothing. */
export type Child = Node | number | false | undefined | readonly Child[];
/** An attribute that is `true` is there without a value; one that is false or undefined is not. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
/** Tags and names of attributes are ours, and never data. */
export declare function h(tag: string, attributes?: Attributes, ...children: readonly Child[]): Element;
/** Every element has an end tag, so none of those that HTML calls void may be among them. */
export declare function toHtml(node: Node): string;
export interface View {
    readonly state: ConsoleState;
    /**
     * `page`: as the collector wrote it, without the script. `live`: the collector has just answered. Else the last answer
     * came then, and why there is none.
     */
    readonly connection: 'page' | 'live' | Lost;
    /** Seconds before the end of the charts that the reader points at. */
    readonly marked: number | undefined;
    /** The time of day, in the zone of the reader if that is known. @param at milliseconds since 1970 */
    readonly timeOfDay: (at: number) => string;
}
export interface Lost {
    /** Milliseconds since 1970 by the reader's clock. */
    readonly since: number;
    readonly reason: string;
}
/** When the state was taken: ages are told from then, by the collector's own clock. */
export declare function takenAt({ state }: View): number;
/** A part of the page under a heading. @param note a few words beside the heading. */
export declare function card(id: string, title: string, note: Child, ...content: readonly Child[]): Element;
export interface Fact {
    readonly name: string;
    readonly value: Child;
    readonly more?: Child;
}
/** Names and values, one under the other. */
export declare function facts(list: readonly Fact[]): Element;
export type Mood = 'good' | 'idle' | 'warning' | 'critical';
/** A state in a word, never by colour alone. */
export declare function chip(mood: Mood, text: string): Element;
/** How much of a whole, for the eye: the number stands beside it. */
export declare function bar(part: number, className?: string): Element;
export interface Column {
    readonly name: string;
    /** `number`: set to the right. */
    readonly className?: string;
}
/**
 * A table that stays one, or whose rows become blocks on a narrow screen, where each value bears the name of its column.
 * The roles say what the style sheet would else take from it there.
 * @param rows the first cell of each is its heading.
 */
export declare function table(caption: string, columns: readonly Column[], rows: readonly (readonly Child[])[], narrow?: 'stays' | 'stacks'): Element;
