/** A body while it arrives, in no more memory than was promised to it. */
export class Body {
  /** The only chunk so far, not copied: most events come in one. */
  #only: Buffer | undefined;
  #gathered: Buffer | undefined;
  length = 0;

  /**
   * Takes a chunk in. Chunks are not kept: a sender may cut a body into single bytes, and each would cost some
   * four hundred bytes of memory until the body is whole.
   * @param promised bytes; at least `length` and the chunk together.
   */
  add(chunk: Buffer, promised: number): void {
    if (this.length === 0) this.#only = chunk;
    else {
      if (this.#gathered === undefined || this.#gathered.length < this.length + chunk.length) {
        const larger = Buffer.allocUnsafeSlow(promised);
        this.bytes.copy(larger);
        this.#gathered = larger;
        this.#only = undefined;
      }
      chunk.copy(this.#gathered, this.length);
    }
    this.length += chunk.length;
  }

  /** What has arrived; a view that the next `add` may leave behind. */
  get bytes(): Buffer {
    return this.#only ?? this.#gathered?.subarray(0, this.length) ?? EMPTY;
  }
}

const EMPTY = Buffer.alloc(0);
