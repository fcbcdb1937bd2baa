/** What has to hold, and whether it did. */
export class Checks {
  list = [];
  #say;

  constructor(say) {
    this.#say = say;
  }

  /** @param detail what was seen, for anyone who has to find out why not. */
  that(what, ok, detail = '') {
    this.list.push({ what, ok, detail: String(detail) });
    if (!ok) this.#say(`NOT SO: ${what} ${detail}`);
  }

  /** The same of something that a busy machine may make slow: told, and no failure, unless times count. */
  inTime(what, ok, detail, timesCount) {
    if (timesCount) return this.that(what, ok, detail);
    this.list.push({ what, ok, detail: String(detail), isNoGate: true });
  }

  get failures() {
    return this.list.filter(({ ok, isNoGate }) => !ok && !isNoGate).length;
  }
}
