/** Numbers and times as an operator reads them: short, with their unit, and the same in the collector and in every browser. */
/** Where there is no value. */
export declare const NONE = "\u2013";
/** A whole number, its thousands apart. */
export declare function count(number: number): string;
/** A whole number, in millions or billions where it would be long. */
export declare function large(number: number): string;
/** Events a second, or the like: a decimal while it is small. */
export declare function rate(perSecond: number): string;
export declare function bytes(number: number): string;
/** A latency. */
export declare function milliseconds(ms: number): string;
/** Coarsely: the largest unit of which there is one, days from two of them. */
export declare function duration(ms: number): string;
/** How long before `now` it was. @param at both in milliseconds since 1970. */
export declare function ago(at: number, now: number): string;
/** A time to come, in whole days once it is days. */
export declare function days(number: number): string;
/** The day of an instant, in UTC. */
export declare function day(instant: string): string;
export declare function percent(part: number): string;
export declare function counted(number: number, noun: string, plural?: string): string;
