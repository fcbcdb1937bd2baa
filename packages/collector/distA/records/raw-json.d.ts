/**
 * JSON whose numbers keep every digit that was sent: 1.10 stays 1.10, and 12345678901234567890 and 1e400 stay what
 * they are. store/content.ts says why a number is its digits here and not the nearest double.
 *
 * A number that a double spells the same way is a plain `number` in memory; every other one is a {@link RawNumber},
 * which `JSON.stringify` writes as it was read. Ask for the value of either with {@link numberOf}.
 *
 * A RawNumber is one by an internal slot that a copy does not get: `structuredClone`, `postMessage` and a spread make
 * a plain object with a member `rawJSON` of it. Between threads, hand over the text.
 */
import type { ClinicalRecord } from '@clinical-events/protocol';
declare global {
    interface JSON {
        rawJSON(text: string): RawNumber;
        isRawJSON(value: unknown): value is RawNumber;
    }
}
/** A number by its spelling. */
interface RawNumber {
    readonly rawJSON: string;
}
/**
 * @returns the value, its numbers as the head of this file says.
 * @throws SyntaxError when the text is not JSON. Its message quotes the text: do not show it.
 */
export declare function parseExact(text: string): unknown;
/**
 * The value of a number of either form, as the nearest double.
 * @returns undefined for what is no number, and for a number beyond all doubles.
 */
export declare function numberOf(value: unknown): number | undefined;
/** Whether it is a number that was sent as a text, such as "5". */
export declare function isNumberInText(value: unknown): boolean;
/** As {@link numberOf}, and the number that a text is: for a field that can only mean a number. */
export declare function numberIn(value: unknown): number | undefined;
/** The text of a record: one line, its nine fields and all others in a fixed order, every number as it was sent. */
export declare function toJson(record: ClinicalRecord): string;
export {};
