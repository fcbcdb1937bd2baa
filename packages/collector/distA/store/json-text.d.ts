/** JSON texts (RFC 8259): their values, and for those who walk one without building values, its parts. */
export declare const QUOTE = 34;
export declare const COMMA = 44;
export declare const COLON = 58;
export declare const OPEN_BRACKET = 91;
export declare const CLOSE_BRACKET = 93;
export declare const OPEN_BRACE = 123;
export declare const CLOSE_BRACE = 125;
export declare const POINT = 46;
/** The offset of the quote that ends the string beginning at `start`, or -1: jumps from quote to quote. */
export declare function stringEnd(text: string, start: number): number;
type Reviver = Parameters<typeof JSON.parse>[1];
/**
 * As JSON.parse, with the names that the text has. V8 of Node 24 to 26 mistakes a name that has an escape for one that it
 * met before where that has a backslash: of {"x":0,"\\":1} and then {"x":0,"\n":1} the second has the name of the first.
 * @throws SyntaxError, as JSON.parse.
 */
export declare function parseJson(text: string, reviver?: Reviver): unknown;
/** A text by its UTF-16 units, with zeros behind them: read in a third of the time that `charCodeAt` takes. */
export type Units = Uint16Array<ArrayBuffer>;
export declare function unitsOf(text: string): Units;
/** The first place from `at` on without white space. */
export declare function pastSpace(units: Units, at: number): number;
/** Whether two strings read the same; the places are those behind the first and of the last quote. */
export declare function sameString(a: Units, fromA: number, toA: number, b: Units, fromB: number, toB: number): boolean;
/**
 * What one pass over a text finds: where containers end, and where each member of an object has its value. Numbers in
 * typed arrays, no more of them than the text has characters; the time is linear in the text whatever it holds.
 * Containers are numbered from 0 in the order in which they open.
 */
export declare class JsonOutline {
    #private;
    readonly text: string;
    /** Where the text is found to be no JSON value; undefined when it is one. The rest then means nothing. */
    readonly faultAt: number | undefined;
    /** Whether some object has two members of one name. */
    repeats: boolean;
    readonly units: Units;
    constructor(text: string);
    /** The place behind a container. */
    endOf(container: number): number;
    /** The number of the first container that opens behind a container. */
    nextOf(container: number): number;
    membersOf(object: number): number;
    /** @returns the number of the member whose name is spelt from `from` to `to`, without quotes; or -1. */
    find(object: number, name: Units, from: number, to: number): number;
    /** Where a member's value begins. */
    valueOf(member: number): number;
    /** The number of the container that a member's value is, when it is one. */
    containerOf(member: number): number;
}
/** The place behind the string, number or literal that begins at `at`; below 0, -1 less the place of the fault. */
export declare function pastScalar(units: Units, at: number): number;
export {};
