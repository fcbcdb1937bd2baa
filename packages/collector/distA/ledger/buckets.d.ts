/** Rows of buckets: what a histogram is counted in, where the hot path counts, and what is read out of them. */
/**
 * Upper bounds of times in milliseconds, from 0.1 ms to 10 s: the preferred numbers R20 (ISO 3), 20 a decade. So a
 * quantile is off by a seventh at most, and the round values 1, 2 and 5 of each decade are among them, for those who want
 * fewer. What takes longer falls into one more bucket behind the last bound.
 */
export declare const TIME_BOUNDS_MS: readonly number[];
/** Upper bounds of counts. */
export declare const SIZE_BOUNDS: readonly number[];
/** The place of the first bound that the value does not exceed; the number of bounds when it exceeds them all. */
export declare function bucketOf(bounds: readonly number[], value: number): number;
/**
 * The value that a part `q` of all counted ones does not exceed, taken as evenly spread within its bucket; what is
 * behind the last bound counts as the last bound.
 * @param counts one a bucket, not summed up.
 * @returns undefined when nothing was counted.
 */
export declare function quantile(bounds: readonly number[], counts: ArrayLike<number>, q: number): number | undefined;
