/** Cuts an input into its lines, holding no more of one than the limit. */

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const BYTE_ORDER_MARK = Buffer.of(0xef, 0xbb, 0xbf);

export interface Line {
  /** 1 for the first line of the input. */
  readonly number: number;
  /** Where it begins, in bytes of the input. */
  readonly offset: number;
  /** How many bytes there are up to the line feed. */
  readonly length: number;
  /**
   * The line without its ending (LF or CRLF), and the first one of an input without a byte order mark: good until the
   * next line is asked for. Undefined when it is longer than the limit.
   */
  readonly bytes: Buffer | undefined;
}

export class LineSplitter {
  readonly #limit: number;
  /** What has come of a line whose end has not; copies, because a chunk may be used again. */
  #begun: Buffer[] = [];
  /** Bytes of that line, also those of one over the limit, which are not kept. */
  #length = 0;
  #number = 0;
  #offset = 0;

  /** @param limit the longest line that is handed over, in bytes. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The lines that end in this chunk. */
  *push(chunk: Buffer): Generator<Line, void> {
    let at = 0;
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, at);
      if (end < 0) break;
      yield this.#line(chunk.subarray(at, end), 1);
      at = end + 1;
    }
    if (at < chunk.length) this.#keep(chunk.subarray(at));
  }

  /** The last line, when no line feed ends it. */
  *end(): Generator<Line, void> {
    if (this.#length > 0) yield this.#line(Buffer.alloc(0), 0);
  }

  #keep(piece: Buffer): void {
    this.#length += piece.length;
    if (this.#length > this.#limit) this.#begun = [];
    else this.#begun.push(Buffer.from(piece));
  }

  #line(rest: Buffer, ending: number): Line {
    const length = this.#length + rest.length;
    let bytes: Buffer | undefined;
    if (length <= this.#limit) {
      bytes = this.#length === 0 ? rest : Buffer.concat([...this.#begun, rest]);
      if (bytes.at(-1) === CARRIAGE_RETURN) bytes = bytes.subarray(0, -1);
      if (this.#number === 0 && bytes.subarray(0, 3).equals(BYTE_ORDER_MARK)) bytes = bytes.subarray(3);
    }
    const line = { number: ++this.#number, offset: this.#offset, length, bytes };
    this.#offset += length + ending;
    this.#begun = [];
    this.#length = 0;
    return line;
  }
}
