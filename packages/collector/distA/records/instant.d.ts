/**
 * When something occurred by a sender's clock: an RFC 3339 date-time read to its last digit, so that two events of the
 * same millisecond stand in the order that their sender gave them. `Date` has no more than milliseconds, and no leap
 * second.
 */
/** Instants are compared by their seconds and then by the text of their fractions. */
export interface Instant {
    /** Whole seconds since 1970 UTC, rounded down; that of the second before it for a leap second. */
    readonly seconds: number;
    /** The digits behind the point without zeros at the end. Those of a leap second have {@link LEAP} before them. */
    readonly fraction: string;
}
/** @param text a date-time that the protocol's schemas have accepted. */
export declare function readInstant(text: string): Instant;
/** @param milliseconds since 1970 UTC. */
export declare function instantOf(milliseconds: number): Instant;
/** Below 0 when `a` is the earlier one, 0 when they are the same instant. */
export declare function compareInstants(a: Instant, b: Instant): number;
/** How many digits a date-time has behind its point. */
export declare function fractionDigits(text: string): number;
/** The instant as a clock gives it that shows no more than that number of digits of a second. */
export declare function cutTo({ seconds, fraction }: Instant, digits: number): Instant;
/**
 * What `toISOString` says, at a fifth of its cost: a record has the time of receipt of every event, mostly of one day.
 * @param milliseconds since 1970 UTC, whole.
 */
export declare function utcText(milliseconds: number): string;
/** From `a` to `b` in milliseconds, to the microsecond. A leap second takes no time in it, as in POSIX. */
export declare function millisecondsBetween(a: Instant, b: Instant): number;
/** Milliseconds since 1970 UTC, rounded down. */
export declare function epochMilliseconds({ seconds, fraction }: Instant): number;
/** @param text that begins as a date-time does. @returns whether its month has such a day. */
export declare function hasDay(text: string): boolean;
