/** Bytes that are appended to, in one buffer that grows and is used again. */

const FIRST_BYTES = 1 << 10;

export class GrowingBytes {
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #view = viewOf(this.#bytes);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** A view of what was appended since the last {@link clear}, valid until more is. */
  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Holds what was appended, and more behind it; another once it has grown. */
  get buffer(): Buffer {
    return this.#bytes;
  }

  clear(): void {
    this.#length = 0;
  }

  byte(value: number): void {
    const at = this.#grown(1);
    this.#bytes[at] = value;
  }

  int32(value: number): void {
    const at = this.#grown(4);
    this.#view.setInt32(at, value, true);
  }

  /** @param value a whole number that a double holds exactly. */
  int64(value: number): void {
    const at = this.#grown(8);
    const high = Math.floor(value / 0x1_0000_0000);
    this.#view.setUint32(at, value - high * 0x1_0000_0000, true);
    this.#view.setInt32(at + 4, high, true);
  }

  double(value: number): void {
    const at = this.#grown(8);
    this.#view.setFloat64(at, value, true);
  }

  /** In UTF-8, its length in four bytes before it. What is no Unicode (a lone surrogate) becomes U+FFFD. */
  text(value: string): void {
    // No more than three bytes to a unit of UTF-16.
    const at = this.#grown(4 + 3 * value.length);
    const written = this.#bytes.write(value, at + 4, 'utf8');
    this.#view.setUint32(at, written, true);
    this.#length = at + 4 + written;
  }

  /** As {@link text}, what stands in other bytes. */
  slice(bytes: Buffer, from: number, to: number): void {
    const length = to - from;
    const at = this.#grown(4 + length);
    this.#view.setUint32(at, length, true);
    bytes.copy(this.#bytes, at + 4, from, to);
  }

  /** As {@link text}, without the length. */
  utf8(value: string): void {
    const at = this.#grown(3 * value.length);
    this.#length = at + this.#bytes.write(value, at, 'utf8');
  }

  /** Makes room. @returns where it is. */
  #grown(by: number): number {
    const at = this.#length;
    this.#length += by;
    if (this.#length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.#length, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, at);
      this.#bytes = larger;
      this.#view = viewOf(larger);
    }
    return at;
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
