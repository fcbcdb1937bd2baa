/*
 * The split-block Bloom filter of Apache Parquet: a block is eight 32-bit words, an entry sets one bit in each
 * word. One cache line and at most eight multiplications a lookup; a miss leaves after two words on average.
 *
 * The block comes from the fingerprint's high word by scaling, not by hashing again, so that blocks are in the
 * order of the entries: a merge writes its filter front to back through one page of memory, whatever its size.
 * The bits come from the low word, which says nothing about the high one.
 */
export const WORDS_PER_BLOCK = 8;

const SALT = Uint32Array.of(
  0x47b6137b,
  0x44974d91,
  0x8824ad5b,
  0xa2b7289d,
  0x705495c7,
  0x2df1424b,
  0x9efc4947,
  0x5c6bfb31,
);

/** Which of `blocks` an entry belongs to; ascending in `hi`. The product rounds the same way every time. */
export function blockOf(hi: number, blocks: number): number {
  return Math.floor((hi / 0x1_0000_0000) * blocks);
}

export function setBits(words: Uint32Array, at: number, lo: number): void {
  for (let i = 0; i < WORDS_PER_BLOCK; i++) {
    words[at + i] = (words[at + i] ?? 0) | (1 << (Math.imul(lo, SALT[i] ?? 0) >>> 27));
  }
}

export function mayHold(words: Uint32Array, at: number, lo: number): boolean {
  for (let i = 0; i < WORDS_PER_BLOCK; i++) {
    if (((words[at + i] ?? 0) & (1 << (Math.imul(lo, SALT[i] ?? 0) >>> 27))) === 0) return false;
  }
  return true;
}
