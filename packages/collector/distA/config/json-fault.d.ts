/**
 * What V8 does not say of a JSON text (RFC 8259). Where it stops being one: V8 names it for some faults only, and for
 * the others the text is quoted, which in a configuration file may be anything. And which names an object holds
 * twice: of those the last is taken in silence.
 */
/** @returns line and column, both from 1, of the first value or sign that is none; undefined when the text is JSON. */
export declare function jsonFaultAt(text: string): {
    line: number;
    column: number;
} | undefined;
/** @param text JSON. @returns the names that one of its objects holds more than once, with their paths, each once. */
export declare function repeatedNames(text: string): string[];
