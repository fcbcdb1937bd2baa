/** Entries (run-entry.ts) one after the other in memory. */
import { ENTRY_BYTES } from './run-entry.js';

const FIRST_ENTRIES = 1 << 10;

export class EntryList {
  #bytes = Buffer.allocUnsafeSlow(FIRST_ENTRIES * ENTRY_BYTES);
  #length = 0;

  get count(): number {
    return this.#length / ENTRY_BYTES;
  }

  /** A view of all entries, valid until more are added. */
  get entries(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Makes room for one entry. @returns where to write it, in {@link target}. */
  next(): number {
    const place = this.#length;
    this.#length += ENTRY_BYTES;
    if (this.#length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(2 * this.#bytes.length);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    return place;
  }

  /** Ask for it after {@link next}. */
  get target(): Buffer {
    return this.#bytes;
  }

  append(source: Buffer, at: number): void {
    const place = this.next();
    source.copy(this.#bytes, place, at, at + ENTRY_BYTES);
  }
}
