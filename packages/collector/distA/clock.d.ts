/** When a clock is set: it and the monotonic one of this process part. */
/** A clock was set, by so many milliseconds: less than 0 where it was set back. */
export interface ClockStep {
    /** When, by the new time: milliseconds since 1970 UTC. */
    readonly at: number;
    readonly by: number;
}
export declare class SteppingClock {
    #private;
    /**
     * @param at what the clock says, in milliseconds since 1970 UTC.
     * @param asked when, on the clock of `performance.now`, and `answered` the latest that it can have said so.
     * @returns how it was set since it was read last, as far as that is certain.
     */
    read(at: number, asked: number, answered?: number): ClockStep | undefined;
}
/** Which way, and how far. */
export declare function describeStep({ at, by }: ClockStep): string;
