/** The outcome of each event of a sender: one byte each, by number. */

/**
 * Bits, because an event may be refused for a full disk, then sent without an answer, and then accepted.
 */
export const FATE = { refused: 1, unanswered: 2, accepted: 4, found: 8 };

export class Fates {
  #bytes = new Uint8Array(1 << 16);

  note(number, fate) {
    if (number >= this.#bytes.length) {
      const larger = new Uint8Array(Math.max(number + 1, this.#bytes.length * 2));
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes[number] |= fate;
  }

  /** @param bytes of an instance in another thread. */
  static of(bytes) {
    const fates = new Fates();
    fates.#bytes = bytes;
    return fates;
  }

  get bytes() {
    return this.#bytes;
  }

  at(number) {
    return this.#bytes[number] ?? 0;
  }
}
