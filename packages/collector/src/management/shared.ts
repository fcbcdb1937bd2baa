/** An answer that is made once for all who ask at about the same time: many who ask often cost what four a second do. */

const FRESH_MS = 250;

export class Shared<T> {
  #made: Promise<T> | undefined;
  #until = 0;

  constructor(private readonly make: () => Promise<T>) {}

  /** Made a quarter of a second ago at most. A failure is given to those who waited for it, and not kept. */
  get(): Promise<T> {
    if (this.#made === undefined || performance.now() >= this.#until) {
      this.#until = performance.now() + FRESH_MS;
      this.#made = this.make();
      this.#made.catch(() => (this.#made = undefined));
    }
    return this.#made;
  }
}
