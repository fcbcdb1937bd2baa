/** The lines of a file, one after the other, in bounded memory whatever is in it. */
import type { SpoolFiles } from './files.js';

const PIECE_BYTES = 1 << 20;
const NEWLINE = 10;
/** More than the longest event takes, escaped and sealed. */
const LONGEST_BYTES = 32 << 20;

export interface Line {
  readonly offset: number;
  /** With the line break, if it has one. */
  readonly size: number;
  /** Undefined when it is longer than 32 MiB. */
  readonly text: string | undefined;
}

/** @param fd of a file that may be growing: what stands behind the last line break is a line too. */
export async function* linesOf(files: SpoolFiles, fd: number): AsyncGenerator<Line, void, undefined> {
  const buffer = Buffer.alloc(PIECE_BYTES);
  let [offset, position] = [0, 0];
  let held: Buffer[] = [];
  let heldBytes = 0;
  const hold = (bytes: Buffer) => {
    heldBytes += bytes.length;
    // A copy: the buffer is read into again.
    if (heldBytes <= LONGEST_BYTES) held.push(Buffer.from(bytes));
    else held = [];
  };
  const line = (end: number): Line => {
    const text = heldBytes <= LONGEST_BYTES ? Buffer.concat(held).toString() : undefined;
    const found = { offset, size: end - offset, text };
    [held, heldBytes, offset] = [[], 0, end];
    return found;
  };
  for (;;) {
    const piece = buffer.subarray(0, await files.read(fd, buffer, position));
    if (piece.length === 0) break;
    let from = 0;
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, from)) {
      hold(piece.subarray(from, at));
      yield line(position + at + 1);
      from = at + 1;
    }
    hold(piece.subarray(from));
    position += piece.length;
  }
  if (position > offset) yield line(position);
}
