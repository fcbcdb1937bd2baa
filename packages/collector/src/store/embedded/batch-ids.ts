/** The events staged for one batch, by fingerprint: the part of the dedup that the index does not know yet. */

/** More than any batch has, a power of two; kept under half full by `CAPACITY`. */
const SLOTS = 8192;
const CAPACITY = SLOTS / 2;

export class BatchIds {
  /** Staged events in their order: fingerprint, and where the frame stands in the staging buffer. */
  readonly high = new Uint32Array(CAPACITY);
  readonly low = new Uint32Array(CAPACITY);
  readonly place = new Float64Array(CAPACITY);
  count = 0;
  // A slot holds an event's number if it was filled for this batch; so nothing need be cleared between batches.
  readonly #filledFor = new Float64Array(SLOTS);
  readonly #numbers = new Int32Array(SLOTS);
  #batch = 0;

  /** Forgets the batch before. */
  begin(): void {
    this.#batch++;
    this.count = 0;
  }

  /** Collects into `places` where events with this fingerprint stand. */
  find(high: number, low: number, places: number[]): void {
    places.length = 0;
    for (let slot = low % SLOTS; this.#filledFor[slot] === this.#batch; slot = (slot + 1) % SLOTS) {
      const number = this.#numbers[slot] ?? 0;
      if (this.high[number] === high && this.low[number] === low) places.push(this.place[number] ?? 0);
    }
  }

  add(high: number, low: number, place: number): void {
    if (this.count === CAPACITY) throw new RangeError(`more than ${CAPACITY} events in one batch`);
    let slot = low % SLOTS;
    while (this.#filledFor[slot] === this.#batch) slot = (slot + 1) % SLOTS;
    this.#filledFor[slot] = this.#batch;
    this.#numbers[slot] = this.count;
    this.high[this.count] = high;
    this.low[this.count] = low;
    this.place[this.count] = place;
    this.count++;
  }
}
