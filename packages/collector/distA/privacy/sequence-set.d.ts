/**
 * Sets of sequences, as stretches in their order: what an action in the log says of events. Pure.
 *
 * As text: base64 of pairs of LEB128 numbers, how many sequences lie between the stretch before and this one, and how
 * many are in it. An event by itself takes two to four bytes, a stretch hardly more.
 */
export interface SequenceStretch {
    readonly first: number;
    /** Behind its last one. */
    readonly end: number;
}
export declare class SequenceSet implements Iterable<SequenceStretch> {
    #private;
    private readonly stretches;
    static readonly EMPTY: SequenceSet;
    /** @param stretches in their order; none touches another. */
    private constructor();
    static of(sequences: Iterable<number>): SequenceSet;
    /** @param stretches in the order of their beginnings; they may touch and overlap. */
    static ofStretches(stretches: Iterable<SequenceStretch>): SequenceSet;
    static union(sets: Iterable<SequenceSet>): SequenceSet;
    get size(): number;
    [Symbol.iterator](): Iterator<SequenceStretch>;
    /** Stretches that hold it, in its order: those with less than so many sequences between them are one. */
    windows(mostBetween: number): SequenceStretch[];
    has(sequence: number): boolean;
    /** Whether it has a sequence from `first` on and before `end`. */
    meets(first: number, end: number): boolean;
    /** Whether it has all from `first` on and before `end`. */
    covers(first: number, end: number): boolean;
    with(other: SequenceSet): SequenceSet;
    without(other: SequenceSet): SequenceSet;
    /** What is in both. */
    within(other: SequenceSet): SequenceSet;
    toText(): string;
    /** @returns undefined for what `toText` has not made. */
    static fromText(text: string): SequenceSet | undefined;
}
