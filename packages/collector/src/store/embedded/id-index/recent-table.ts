/** Words of an entry, in a table as in a run: fingerprint high, fingerprint low, address low, address high. */
export const WORDS_PER_ENTRY = 4;

/** Set in the fourth word of a slot in use: an address has 53 bits, so the top bit is free, and zeroed memory is empty. */
const IN_USE = 0x8000_0000;

/**
 * The newest entries: linear probing in one shared array, 16 bytes a slot so that a probe costs one cache line.
 *
 * A slot's place is the top bits of its fingerprint. So walking the slots in order meets the entries almost
 * sorted, and freezing needs no sort of its own (`sorted`), and the memory is shared, so that freezing copies
 * nothing: the writer's thread takes the very same table while look-ups go on in it.
 *
 * One thread writes. Once frozen nobody writes until `clear`.
 */
export class RecentTable {
  readonly #words: Uint32Array;
  readonly #shift: number;
  readonly #mask: number;
  count = 0;

  /** `slots` is a power of two from 4 to 2^26; memory freshly allocated or of a table handed over. */
  constructor(
    slots: number,
    readonly memory = new SharedArrayBuffer(slots * WORDS_PER_ENTRY * 4),
  ) {
    this.#words = new Uint32Array(memory);
    this.#shift = 32 - Math.log2(slots);
    this.#mask = slots - 1;
  }

  /** Past three quarters linear probing degrades; who asks for more has not frozen in time. */
  get limit(): number {
    return ((this.#mask + 1) / 4) * 3;
  }

  add(hi: number, lo: number, address: number): void {
    if (this.count >= this.limit) throw new RangeError('the table is full');
    const words = this.#words;
    let at = (hi >>> this.#shift) * WORDS_PER_ENTRY;
    while (words[at + 3] !== 0) at = (at + WORDS_PER_ENTRY) & (this.#mask * WORDS_PER_ENTRY);
    words[at] = hi;
    words[at + 1] = lo;
    words[at + 2] = address >>> 0;
    words[at + 3] = ((address / 0x1_0000_0000) | IN_USE) >>> 0;
    this.count++;
  }

  /** Writes the addresses under this fingerprint to `out` from index `found` on; returns the new length. */
  find(hi: number, lo: number, out: number[], found: number): number {
    const words = this.#words;
    let at = (hi >>> this.#shift) * WORDS_PER_ENTRY;
    for (;;) {
      const high = words[at + 3] ?? 0;
      if (high === 0) return found;
      if (words[at] === hi && words[at + 1] === lo) {
        out[found++] = (high - IN_USE) * 0x1_0000_0000 + (words[at + 2] ?? 0);
      }
      at = (at + WORDS_PER_ENTRY) & (this.#mask * WORDS_PER_ENTRY);
    }
  }

  clear(): void {
    this.#words.fill(0);
    this.count = 0;
  }

  /**
   * Fills `out` with the entries in order of fingerprint and returns how many there are.
   *
   * Insertion sort: an entry lies at most one cluster from its place, a handful of slots at these loads, which
   * makes it a few comparisons an entry. The few that wrapped around from the end come first in the walk and
   * are pushed along to the end, one step for each entry.
   */
  sorted(out: Uint32Array): number {
    const words = this.#words;
    let end = 0;
    for (let slot = 0; slot < words.length; slot += WORDS_PER_ENTRY) {
      const high = words[slot + 3] ?? 0;
      if (high === 0) continue;
      const hi = words[slot] ?? 0;
      const lo = words[slot + 1] ?? 0;
      let at = end;
      for (; at > 0; at -= WORDS_PER_ENTRY) {
        const before = out[at - WORDS_PER_ENTRY] ?? 0;
        if (before < hi || (before === hi && (out[at - WORDS_PER_ENTRY + 1] ?? 0) <= lo)) break;
      }
      if (at < end) out.copyWithin(at + WORDS_PER_ENTRY, at, end);
      out[at] = hi;
      out[at + 1] = lo;
      out[at + 2] = words[slot + 2] ?? 0;
      out[at + 3] = high - IN_USE;
      end += WORDS_PER_ENTRY;
    }
    return end / WORDS_PER_ENTRY;
  }
}
