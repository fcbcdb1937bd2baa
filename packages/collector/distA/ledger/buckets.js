/** Rows of buckets: what a histogram is counted in, where the hot path counts, and what is read out of them. */
/**
 * Upper bounds of times in milliseconds, from 0.1 ms to 10 s: the preferred numbers R20 (ISO 3), 20 a decade. So a
 * quantile is off by a seventh at most, and the round values 1, 2 and 5 of each decade are among them, for those who want
 * fewer. What takes longer falls into one more bucket behind the last bound.
 */
export const TIME_BOUNDS_MS = timeBounds();
/** Upper bounds of counts. */
export const SIZE_BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
function timeBounds() {
    const r20 = [
        100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900,
    ];
    // Divided, not multiplied by a fraction: 0.2 has to be the very number 0.2.
    const bounds = [1000, 100, 10, 1].flatMap((divisor) => r20.map((number) => number / divisor));
    return [...bounds, ...r20.map((number) => number * 10), 10_000];
}
/** The place of the first bound that the value does not exceed; the number of bounds when it exceeds them all. */
export function bucketOf(bounds, value) {
    let low = 0;
    let high = bounds.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (value <= (bounds[middle] ?? Infinity))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
/**
 * The value that a part `q` of all counted ones does not exceed, taken as evenly spread within its bucket; what is
 * behind the last bound counts as the last bound.
 * @param counts one a bucket, not summed up.
 * @returns undefined when nothing was counted.
 */
export function quantile(bounds, counts, q) {
    let total = 0;
    for (let i = 0; i < counts.length; i++)
        total += counts[i] ?? 0;
    if (total === 0)
        return undefined;
    let rank = q * total;
    for (const [i, upper] of bounds.entries()) {
        const count = counts[i] ?? 0;
        const lower = bounds[i - 1] ?? 0;
        if (count > 0 && rank <= count)
            return lower + (upper - lower) * (rank / count);
        rank -= count;
    }
    return bounds.at(-1);
}
//# sourceMappingURL=buckets.js.map