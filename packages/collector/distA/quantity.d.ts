/** Sizes and durations as people write them. */
/**
 * Reads `1MiB`, `64KiB`, `1000000`. Units of a thousand (kB, MB) are none: half of those who write them mean the
 * others.
 * @returns bytes, or undefined when the text is no size.
 */
export declare function parseByteSize(text: string): number | undefined;
/** @returns text that {@link parseByteSize} reads as the same size. */
export declare function formatByteSize(bytes: number): string;
/**
 * Reads `500ms`, `10s`, `1m`, `24h`, `90d`. A plain number is milliseconds; a day is 24 hours.
 * @returns milliseconds, or undefined when the text is no duration.
 */
export declare function parseDuration(text: string): number | undefined;
/** @returns text that {@link parseDuration} reads as the same duration. */
export declare function formatDuration(ms: number): string;
/** About how much, for a person: `12 KiB`, `1.5 MiB`. */
export declare function aboutBytes(bytes: number): string;
/** A number of things, in words: `1 segment`, `2 segments`. The console has its own, as it runs in a browser too. */
export declare function counted(number: number, thing: string, things?: string): string;
export declare const DAY_MS = 86400000;
