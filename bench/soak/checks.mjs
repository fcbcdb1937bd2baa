/** The checks of a soak and their results. */
export class Checks {
  list = [];
  #say;

  constructor(say) {
    this.#say = say;
  }

  /** @param detail what was seen, to explain a failure. */
  that(what, ok, detail = '') {
    this.list.push({ what, ok, detail: String(detail) });
    if (!ok) this.#say(`NOT SO: ${what} ${detail}`);
  }

  /** The same for something that a busy machine may delay: reported, but a failure only if times count. */
  inTime(what, ok, detail, timesCount) {
    if (timesCount) return this.that(what, ok, detail);
    this.list.push({ what, ok, detail: String(detail), isNoGate: true });
  }

  get failures() {
    return this.list.filter(({ ok, isNoGate }) => !ok && !isNoGate).length;
  }
}
