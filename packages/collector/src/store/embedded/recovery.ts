/** Judges what stands behind the last readable frame: nothing, a torn tail, or damage to what was durable. */
import type { Files } from '../../files.js';
import { checksumHolds, frameDurableBefore, frameSequence, HEADER_BYTES, plausibleSize } from './frame.js';

export type Tail =
  /** Only zeros, or nothing. */
  | { readonly state: 'clean' }
  /** Most likely bytes of a batch that was being written when the machine or the process stopped. */
  | { readonly state: 'torn'; readonly bytes: Buffer }
  /** A frame further on says that the unreadable one was durable. */
  | { readonly state: 'damaged'; readonly witnessSequence: number };

/** So many times the bytes behind the last readable frame are read for checksums. */
const MOST_CHECKED = 8;

/**
 * @param offset where the frame of `sequence` is due in the last segment's file and cannot be read.
 *
 * A batch reaches the disk in no particular order before its flush returns, so readable frames may stand
 * behind an unreadable one in a torn tail. What tells the two apart is durable-before (frame.ts). No sender
 * can forge such a frame inside an event: a header has zero bytes, and JSON text has none (RFC 8259).
 *
 * Frames that hold do not overlap, so what a collector has written asks for little more than one reading. Headers laid
 * one inside the other, which only someone with access to the disk can do, would ask for thousands: they count as damage.
 *
 * The hole: when the end of the log is damaged after it was acknowledged, no frame behind it is left to say so,
 * and it looks torn, or, zeroed, clean. The id index vouches for what its runs cover (segment-log.ts); behind that
 * no one does. The bytes are kept aside, so that nothing is thrown away.
 */
export function judgeTail(files: Files, fd: number, offset: number, sequence: number): Tail {
  const size = files.size(fd);
  const rest = Buffer.alloc(Math.max(0, size - offset));
  files.read(fd, rest, 0, rest.length, offset);
  let last = rest.length;
  while (last > 0 && rest[last - 1] === 0) last--;
  if (last === 0) return { state: 'clean' };
  let budget = MOST_CHECKED * rest.length;
  for (let at = 1; at + HEADER_BYTES <= last; at++) {
    const frame = plausibleSize(rest, at, rest.length);
    if (frame === 0 || at + frame > rest.length) continue;
    const said = frameSequence(rest, at);
    const durableBefore = frameDurableBefore(rest, at);
    if (durableBefore <= sequence || durableBefore > said) continue;
    budget -= frame;
    if (budget < 0 || checksumHolds(rest, at, frame)) return { state: 'damaged', witnessSequence: said };
  }
  return { state: 'torn', bytes: rest.subarray(0, last) };
}
