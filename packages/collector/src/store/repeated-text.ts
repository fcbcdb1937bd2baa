/** Texts that mostly are the one before, out of bytes. */

/** What some bytes say: the same string for as long as they are the same. */
export class RepeatedText {
  #bytes = Buffer.alloc(0);
  #text = '';

  constructor(private readonly read: (source: Buffer, from: number, to: number) => string) {}

  of(source: Buffer, from: number, to: number): string {
    if (!this.#isSame(source, from, to)) {
      this.#bytes = Buffer.from(source.subarray(from, to));
      this.#text = this.read(source, from, to);
    }
    return this.#text;
  }

  /** They are a few bytes, for which a call costs more than the loop. */
  #isSame(source: Buffer, from: number, to: number): boolean {
    const bytes = this.#bytes;
    if (bytes.length !== to - from) return false;
    for (let i = 0; i < bytes.length; i++) if (bytes[i] !== source[from + i]) return false;
    return true;
  }
}

export function latin1(source: Buffer, from: number, to: number): string {
  return source.toString('latin1', from, to);
}

export function utf8(source: Buffer, from: number, to: number): string {
  return source.toString('utf8', from, to);
}
