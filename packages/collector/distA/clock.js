/** When a clock is set: it and the monotonic one of this process part. */
/** Less is the work of a time server that slews a clock, or of the way to it, in milliseconds. */
const LEAST_MS = 1000;
export class SteppingClock {
    /** By how much it is ahead of the monotonic clock, between these. */
    #ahead;
    /**
     * @param at what the clock says, in milliseconds since 1970 UTC.
     * @param asked when, on the clock of `performance.now`, and `answered` the latest that it can have said so.
     * @returns how it was set since it was read last, as far as that is certain.
     */
    read(at, asked, answered = asked) {
        const [before, ahead] = [this.#ahead, { least: at - answered, most: at - asked }];
        this.#ahead = ahead;
        if (before === undefined)
            return undefined;
        const by = Math.max(0, ahead.least - before.most) || Math.min(0, ahead.most - before.least);
        return Math.abs(by) > LEAST_MS ? { at, by } : undefined;
    }
}
/** Which way, and how far. */
export function describeStep({ at, by }) {
    const seconds = Math.round(Math.abs(by) / 1000);
    return `${by > 0 ? 'forward' : 'back'} by ${seconds} s, to ${new Date(at).toISOString()}`;
}
//# sourceMappingURL=clock.js.map