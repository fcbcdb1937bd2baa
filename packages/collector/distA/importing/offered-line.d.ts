import { type EventKind } from '@clinical-events/protocol';
/** The text of a value: from `start` up to, not including, `end`. */
export interface Place {
    readonly start: number;
    readonly end: number;
}
export interface Members {
    /** By name as it reads, without escapes. */
    readonly places: ReadonlyMap<string, Place>;
    /** Where the object's closing brace stands. */
    readonly close: number;
}
/**
 * @param text a JSON text that has been read without a fault (RFC 8259).
 * @param from where the object begins, white space before it allowed.
 * @returns undefined when the value there is no object.
 */
export declare function membersOf(text: string, from?: number): Members | undefined;
/**
 * Why a line is not stored: a code that HTTP answers with, or what can be wrong with a line alone:
 *   `kind_missing`     the line is an event, and no one has said of which kind
 *   `wrapper_invalid`  a member of the line around the event is faulty; `details.issues` names it
 *   `sha256_mismatch`  the body is not the one that was hashed when the line was written
 */
export interface LineFault {
    readonly code: string;
    /** What the code alone does not say. */
    readonly message?: string;
    /** Never holds a value of the event, nor does the message. */
    readonly details?: Readonly<Record<string, unknown>> | undefined;
    /** When it is known and a UUID. */
    readonly eventId?: string | undefined;
}
export interface LineRules {
    /** Of all lines, whatever they say. */
    readonly kind: EventKind | undefined;
    /** The only one that a line may name; any when undefined. */
    readonly organisation: string | undefined;
}
export interface Offered {
    readonly kind: EventKind;
    /** A view of the line, or bytes of its own. */
    readonly body: Buffer;
    /** Of the event, in lower case; undefined when it has none that is a UUID. */
    readonly eventId: string | undefined;
}
/** @param line without its ending. */
export declare function readLine(line: Buffer, rules: LineRules): Offered | LineFault;
