/**
 * The lines of a file or of standard input, with a limit on memory per line, and the hash of the whole input.
 */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { addAbortSignal } from 'node:stream';

/** The name of standard input among the files. */
export const STANDARD_INPUT = '-';
/** The largest event that a collector can be configured to accept (--max-body-bytes), plus a wrapper. */
const LONGEST_LINE = (64 << 20) + 4096;
const READ_BYTES = 1 << 20;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const BYTE_ORDER_MARK = Buffer.of(0xef, 0xbb, 0xbf);

export interface Line {
  /** 1 for the first line of the input. */
  readonly number: number;
  /** Offset in bytes of the input. */
  readonly offset: number;
  /** Number of bytes up to the line feed. */
  readonly length: number;
  /** The line without its ending (LF or CRLF) and byte order mark; undefined if it is too long. */
  readonly bytes: Buffer | undefined;
}

export class LineInput {
  /** Bytes read so far. */
  bytes = 0;
  /** SHA-256 of the input in hexadecimal, once it has been read completely. */
  sha256: string | undefined;
  readonly #name: string;
  readonly #limit: number;
  /** Pieces of the current line. */
  #begun: Buffer[] = [];
  /** Bytes of the current line, including those of a line over the limit, which are not kept. */
  #length = 0;
  #number = 0;
  #offset = 0;

  /** @param name a path, or `-`. @param limit the maximum length of a line, in bytes. */
  constructor(name: string, limit = LONGEST_LINE) {
    this.#name = name;
    this.#limit = limit;
  }

  /**
   * The lines in batches, as they arrive. Ends early when `stop` is aborted.
   * @throws the system's error.
   */
  async *lines(stop?: AbortSignal): AsyncGenerator<Line[], void> {
    const hash = createHash('sha256');
    const source =
      this.#name === STANDARD_INPUT
        ? process.stdin
        : fs.createReadStream(this.#name, { highWaterMark: READ_BYTES });
    try {
      for await (const chunk of (stop ? addAbortSignal(stop, source) : source) as AsyncIterable<Buffer>) {
        this.bytes += chunk.length;
        hash.update(chunk);
        yield this.#split(chunk);
      }
    } catch (error) {
      if (stop?.aborted !== true) throw error;
      return;
    }
    if (this.#length > 0) yield [this.#line(Buffer.alloc(0), 0)];
    this.sha256 = hash.digest('hex');
  }

  #split(chunk: Buffer): Line[] {
    const lines: Line[] = [];
    let at = 0;
    for (let end; (end = chunk.indexOf(LINE_FEED, at)) >= 0; at = end + 1) {
      lines.push(this.#line(chunk.subarray(at, end), 1));
    }
    if (at < chunk.length) this.#keep(chunk.subarray(at));
    return lines;
  }

  #keep(piece: Buffer): void {
    this.#length += piece.length;
    if (this.#length > this.#limit) this.#begun = [];
    else this.#begun.push(piece);
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

/** Whether the line has only JSON white space. */
export function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === 32 || byte === 9 || byte === 13);
}
