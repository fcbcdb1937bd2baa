/**
 * Sets of sequences as ordered ranges, with which an action in the log names events. Pure.
 *
 * As text (frozen, docs/internals/formats.md): base64 of a pair of LEB128 numbers for each range: the gap
 * after the previous range, and the length. A single event takes two to four bytes, a range hardly more.
 */
import assert from 'node:assert';

export interface SequenceStretch {
  readonly first: number;
  /** The end of the range, exclusive. */
  readonly end: number;
}

export class SequenceSet implements Iterable<SequenceStretch> {
  static readonly EMPTY = new SequenceSet([]);

  /** @param stretches in order and not adjacent. */
  private constructor(private readonly stretches: readonly SequenceStretch[]) {}

  static of(sequences: Iterable<number>): SequenceSet {
    const sorted = Float64Array.from(sequences).sort();
    return SequenceSet.ofStretches(Array.from(sorted, (first) => ({ first, end: first + 1 })));
  }

  /** @param stretches ordered by `first`; they may be adjacent or overlap. */
  static ofStretches(stretches: Iterable<SequenceStretch>): SequenceSet {
    const merged: { first: number; end: number }[] = [];
    for (const { first, end } of stretches) {
      const last = merged.at(-1);
      if (last !== undefined && first <= last.end) last.end = Math.max(last.end, end);
      else if (end > first) merged.push({ first, end });
    }
    return new SequenceSet(merged);
  }

  static union(sets: Iterable<SequenceSet>): SequenceSet {
    const all = [...sets].flatMap(({ stretches }) => stretches);
    return SequenceSet.ofStretches(all.sort((a, b) => a.first - b.first));
  }

  get size(): number {
    return this.stretches.reduce((sum, { first, end }) => sum + end - first, 0);
  }

  [Symbol.iterator](): Iterator<SequenceStretch> {
    return this.stretches[Symbol.iterator]();
  }

  /** Ranges that cover the set, in order. Ranges with a gap below `mostBetween` are joined. */
  windows(mostBetween: number): SequenceStretch[] {
    const windows: { first: number; end: number }[] = [];
    for (const { first, end } of this.stretches) {
      const last = windows.at(-1);
      if (last !== undefined && first - last.end < mostBetween) last.end = end;
      else windows.push({ first, end });
    }
    return windows;
  }

  has(sequence: number): boolean {
    return this.meets(sequence, sequence + 1);
  }

  /** Whether it contains a sequence from `first` (inclusive) to `end` (exclusive). */
  meets(first: number, end: number): boolean {
    const stretch = this.stretches[this.#from(first)];
    return stretch !== undefined && stretch.first < end;
  }

  /** Whether it contains all sequences from `first` (inclusive) to `end` (exclusive). */
  covers(first: number, end: number): boolean {
    const stretch = this.stretches[this.#from(first)];
    return first >= end || (stretch !== undefined && stretch.first <= first && stretch.end >= end);
  }

  with(other: SequenceSet): SequenceSet {
    return SequenceSet.union([this, other]);
  }

  without(other: SequenceSet): SequenceSet {
    const left: SequenceStretch[] = [];
    for (const { first, end } of this.stretches) {
      let at = first;
      for (let i = other.#from(first); ; i++) {
        const taken = other.stretches[i];
        if (taken === undefined || taken.first >= end) break;
        if (taken.first > at) left.push({ first: at, end: taken.first });
        at = Math.max(at, taken.end);
      }
      if (at < end) left.push({ first: at, end });
    }
    return new SequenceSet(left);
  }

  /** The intersection. */
  within(other: SequenceSet): SequenceSet {
    return this.without(this.without(other));
  }

  /** The index of the first range that ends after a sequence. */
  #from(sequence: number): number {
    let low = 0;
    let high = this.stretches.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const stretch = this.stretches[middle];
      assert(stretch !== undefined);
      if (stretch.end <= sequence) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  toText(): string {
    const bytes: number[] = [];
    let at = 0;
    for (const { first, end } of this.stretches) {
      writeNumber(bytes, first - at);
      writeNumber(bytes, end - first);
      at = end;
    }
    return Buffer.from(bytes).toString('base64');
  }

  /** @returns undefined if the text is not a result of `toText`. */
  static fromText(text: string): SequenceSet | undefined {
    const bytes = Buffer.from(text, 'base64');
    const stretches: SequenceStretch[] = [];
    let end = 0;
    for (let at = 0; at < bytes.length;) {
      const gap = readNumber(bytes, at);
      const length = readNumber(bytes, gap.end);
      const first = end + gap.value;
      end = first + length.value;
      // Adjacent ranges would be one, with another text.
      if (length.value === 0 || (gap.value === 0 && at > 0) || !Number.isSafeInteger(end)) return undefined;
      stretches.push({ first, end });
      at = length.end;
    }
    const set = new SequenceSet(stretches);
    return set.toText() === text ? set : undefined;
  }
}

function writeNumber(bytes: number[], value: number): void {
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  bytes.push(rest);
}

/** Reads a LEB128 number; the value is NaN if the number is incomplete. */
function readNumber(bytes: Buffer, at: number): { value: number; end: number } {
  let value = 0;
  let scale = 1;
  for (let i = at; i < bytes.length && i < at + 8; i++, scale *= 0x80) {
    const byte = bytes[i] ?? 0;
    value += (byte % 0x80) * scale;
    if (byte < 0x80) return { value, end: i + 1 };
  }
  return { value: Number.NaN, end: bytes.length };
}
