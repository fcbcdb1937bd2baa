/** Which events of the batch being staged have which fingerprint: the part of the dedup that the index has not seen. */

const SLOTS = 4096;

export class BatchIds {
  // A slot belongs to the batch of `#batch` or is empty; so nothing need be cleared between batches.
  readonly #batchOf = new Float64Array(SLOTS);
  readonly #high = new Uint32Array(SLOTS);
  readonly #low = new Uint32Array(SLOTS);
  readonly #place = new Int32Array(SLOTS);
  #batch = 0;
  #count = 0;

  /** Forgets the batch before. */
  begin(): void {
    this.#batch++;
    this.#count = 0;
  }

  /** Collects into `places` where in the staging buffer events with this fingerprint stand. */
  find(high: number, low: number, places: number[]): void {
    places.length = 0;
    for (let slot = low % SLOTS; this.#batchOf[slot] === this.#batch; slot = (slot + 1) % SLOTS) {
      if (this.#high[slot] === high && this.#low[slot] === low) places.push(this.#place[slot] ?? 0);
    }
  }

  add(high: number, low: number, place: number): void {
    if (++this.#count >= SLOTS) throw new RangeError(`more than ${SLOTS - 1} events in one batch`);
    let slot = low % SLOTS;
    while (this.#batchOf[slot] === this.#batch) slot = (slot + 1) % SLOTS;
    this.#batchOf[slot] = this.#batch;
    this.#high[slot] = high;
    this.#low[slot] = low;
    this.#place[slot] = place;
  }
}
