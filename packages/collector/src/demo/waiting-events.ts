/**
 * Events whose time has not come, the earliest first: a binary heap of numbers. An event that waits takes sixteen
 * bytes, because it is not kept but made again from its number.
 */
export class WaitingEvents {
  #times = new Float64Array(1024);
  #numbers = new Float64Array(1024);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** When the earliest is due; Infinity when none waits. */
  get due(): number {
    return this.#size === 0 ? Infinity : (this.#times[0] as number);
  }

  /** @param number is whole and tells the event. Of events of the same time, the lower number comes first. */
  add(time: number, number: number): void {
    if (this.#size === this.#times.length) this.#grow();
    let place = this.#size++;
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (!this.#isBefore(time, number, above)) break;
      this.#move(above, place);
      place = above;
    }
    this.#times[place] = time;
    this.#numbers[place] = number;
  }

  /** Takes the earliest out. @returns its number. There has to be one. */
  take(): number {
    const taken = this.#numbers[0] as number;
    const last = --this.#size;
    const [time, number] = [this.#times[last] as number, this.#numbers[last] as number];
    let place = 0;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= last) break;
      const other = below + 1;
      if (
        other < last &&
        this.#isBefore(this.#times[other] as number, this.#numbers[other] as number, below)
      ) {
        below = other;
      }
      if (this.#isBefore(time, number, below)) break;
      this.#move(below, place);
      place = below;
    }
    this.#times[place] = time;
    this.#numbers[place] = number;
    return taken;
  }

  #isBefore(time: number, number: number, place: number): boolean {
    const there = this.#times[place] as number;
    return time < there || (time === there && number < (this.#numbers[place] as number));
  }

  #move(from: number, to: number): void {
    this.#times[to] = this.#times[from] as number;
    this.#numbers[to] = this.#numbers[from] as number;
  }

  #grow(): void {
    const [times, numbers] = [this.#times, this.#numbers];
    this.#times = new Float64Array(2 * times.length);
    this.#numbers = new Float64Array(2 * numbers.length);
    this.#times.set(times);
    this.#numbers.set(numbers);
  }
}
