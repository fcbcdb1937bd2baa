/**
 * Numbers by the fingerprint of an id, 64 bits wide: an open-addressing table in typed arrays, 16 bytes an id. Of two ids
 * with one fingerprint the second is taken for the first: among a million, once in thirty million tables.
 */
const EMPTY = 0;

export class NumberedIds {
  /** By number. */
  #hi = new Uint32Array(16);
  #lo = new Uint32Array(16);
  /** A number and one more; at most half of them are taken. */
  #slots = new Uint32Array(32);
  #count = 0;

  /** @returns the number, or -1. */
  find(hi: number, lo: number): number {
    for (let slot = this.#home(lo); ; slot = this.#next(slot)) {
      const number = (this.#slots[slot] ?? EMPTY) - 1;
      if (number < 0 || (this.#lo[number] === lo && this.#hi[number] === hi)) return number;
    }
  }

  /** @param number is not in use. The id has none yet. Numbers are to be given densely: memory goes by the highest. */
  add(number: number, hi: number, lo: number): void {
    if (number >= this.#hi.length) {
      this.#hi = grown(this.#hi, number);
      this.#lo = grown(this.#lo, number);
    }
    if (2 * (this.#count + 1) > this.#slots.length) this.#rebuild();
    this.#hi[number] = hi;
    this.#lo[number] = lo;
    this.#count++;
    this.#place(number);
  }

  /** The number may be given to another id. */
  remove(number: number): void {
    let slot = this.#home(this.#lo[number] ?? 0);
    while (this.#slots[slot] !== number + 1) {
      if (this.#slots[slot] === EMPTY) return;
      slot = this.#next(slot);
    }
    this.#count--;
    // What stands behind it and could stand here moves up, or it would not be found (Knuth, volume 3, 6.4, algorithm R).
    for (let from = this.#next(slot); ; from = this.#next(from)) {
      const moved = this.#slots[from] ?? EMPTY;
      if (moved === EMPTY) break;
      const home = this.#home(this.#lo[moved - 1] ?? 0);
      const mask = this.#slots.length - 1;
      if (((from - home) & mask) < ((from - slot) & mask)) continue;
      this.#slots[slot] = moved;
      slot = from;
    }
    this.#slots[slot] = EMPTY;
  }

  #rebuild(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(2 * before.length);
    for (const taken of before) if (taken !== EMPTY) this.#place(taken - 1);
  }

  #place(number: number): void {
    let slot = this.#home(this.#lo[number] ?? 0);
    while (this.#slots[slot] !== EMPTY) slot = this.#next(slot);
    this.#slots[slot] = number + 1;
  }

  #home(lo: number): number {
    return lo & (this.#slots.length - 1);
  }

  #next(slot: number): number {
    return (slot + 1) & (this.#slots.length - 1);
  }
}

/** The same with room for this place, zeros behind what there was. */
export function grown<Numbers extends Uint8Array | Uint16Array | Uint32Array | Int32Array>(
  numbers: Numbers,
  place: number,
): Numbers {
  let length = numbers.length;
  while (length <= place) length *= 2;
  const larger = new (numbers.constructor as new (length: number) => Numbers)(length);
  larger.set(numbers);
  return larger;
}
