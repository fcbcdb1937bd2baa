/** Numbers in few bytes, for the blobs of the catalogue: seven bits to a byte, the lowest first (LEB128). */

/** What is wrong with a catalogue, for those who ask it. */

/** Why there is no catalogue to ask. */
export class CatalogueFault extends Error {
  override name = 'CatalogueFault';
}

/** The file holds what SQLite or the catalogue cannot have written. Rebuilt, it is right. */
export class CatalogueDamaged extends CatalogueFault {
  override name = 'CatalogueDamaged';
}

/** Another process is writing the catalogue. */
export class CatalogueBusy extends CatalogueFault {
  override name = 'CatalogueBusy';
}

const HIGHEST_INT = 0x7fff_ffff;
/** Above it, twice a number and one more is no longer exact. */
const MOST_PACKED = 2 ** 51;

export class PackedWriter {
  #bytes = Buffer.allocUnsafe(256);
  #used = 0;

  get length(): number {
    return this.#used;
  }

  /** A whole number from 0 to 2^53. */
  count(value: number): void {
    this.#reserve(9);
    let rest = value;
    while (rest > HIGHEST_INT) {
      this.#bytes[this.#used++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    while (rest > 127) {
      this.#bytes[this.#used++] = (rest & 127) | 128;
      rest >>>= 7;
    }
    this.#bytes[this.#used++] = rest;
  }

  /** A whole number, of either sign, with an absolute value up to 2^51. */
  signed(value: number): void {
    this.count(value < 0 ? -2 * value - 1 : 2 * value);
  }

  /** Any number, or null. */
  optional(value: number | null): void {
    if (value === null) this.count(0);
    else if (Number.isInteger(value) && value >= 0 && value < MOST_PACKED) this.count(value + 2);
    else {
      this.count(1);
      this.double(value);
    }
  }

  double(value: number): void {
    this.#reserve(8);
    this.#used = this.#bytes.writeDoubleLE(value, this.#used);
  }

  /** What was written since the last time, in bytes of its own. */
  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#used));
    this.#used = 0;
    return taken;
  }

  #reserve(bytes: number): void {
    if (this.#used + bytes <= this.#bytes.length) return;
    this.#bytes = Buffer.concat([this.#bytes], 2 * this.#bytes.length);
  }
}

/** Reads what stands in some bytes, or in a part of them. */
export class PackedReader {
  #at: number;

  constructor(
    private readonly bytes: Uint8Array,
    start = 0,
    private readonly end = bytes.length,
  ) {
    this.#at = start;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.end;
  }

  /** @throws CatalogueDamaged where the bytes end too early, as all below. */
  count(): number {
    const first = this.#byte();
    if (first < 128) return first;
    let value = first & 127;
    for (let scale = 128; ; scale *= 128) {
      const byte = this.#byte();
      if (byte < 128) return value + byte * scale;
      value += (byte & 127) * scale;
    }
  }

  /** Skips that number of counts. */
  skip(counts: number): void {
    for (let left = counts; left > 0;) if (this.#byte() < 128) left--;
  }

  signed(): number {
    const value = this.count();
    // A remainder of what is no small integer takes as long as all the rest.
    const half = Math.floor(value / 2);
    return half * 2 === value ? half : -half - 1;
  }

  optional(): number | null {
    const value = this.count();
    if (value === 0) return null;
    return value === 1 ? this.double() : value - 2;
  }

  double(): number {
    if (this.#at + 8 > this.end) throw new CatalogueDamaged('packed numbers end too early');
    const view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength);
    const value = view.getFloat64(this.#at, true);
    this.#at += 8;
    return value;
  }

  #byte(): number {
    if (this.#at >= this.end) throw new CatalogueDamaged('packed numbers end too early');
    return this.bytes[this.#at++] ?? 0;
  }
}
