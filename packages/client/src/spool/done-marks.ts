/**
 * Which events of a segment are done: a file beside it, of batches; little-endian.
 *
 *   offset  size  field
 *        0     4  CRC-32 of the segment's id followed by bytes 4 up to the end of the batch
 *        4     4  N, how many events this batch marks
 *        8   8 N  offset and size of the frame of each, 4 bytes each
 *
 * A reader stops at the first batch that does not hold: what is behind it will be sent again, and taken for the repeat
 * that it is. Never flushed, for the same reason.
 */
import { crc32 } from './crc32.js';

const HEADER_BYTES = 8;
const MARK_BYTES = 8;

export interface Mark {
  readonly offset: number;
  readonly size: number;
}

/** @param checksumStart CRC-32 of the segment's id. */
export function encodeMarks(marks: readonly Mark[], checksumStart: number): Buffer {
  const batch = Buffer.alloc(HEADER_BYTES + MARK_BYTES * marks.length);
  batch.writeUInt32LE(marks.length, 4);
  let at = HEADER_BYTES;
  for (const { offset, size } of marks) {
    batch.writeUInt32LE(offset, at);
    batch.writeUInt32LE(size, at + 4);
    at += MARK_BYTES;
  }
  batch.writeUInt32LE(crc32(batch.subarray(4), checksumStart), 0);
  return batch;
}

/**
 * @returns the sizes of the frames that are done, by offset, and how many bytes of the file hold.
 */
export function decodeMarks(file: Buffer, checksumStart: number): { done: Map<number, number>; end: number } {
  const done = new Map<number, number>();
  let end = 0;
  while (end + HEADER_BYTES <= file.length) {
    const next = end + HEADER_BYTES + MARK_BYTES * file.readUInt32LE(end + 4);
    if (next > file.length) break;
    if (crc32(file.subarray(end + 4, next), checksumStart) !== file.readUInt32LE(end)) break;
    for (let at = end + HEADER_BYTES; at < next; at += MARK_BYTES) {
      done.set(file.readUInt32LE(at), file.readUInt32LE(at + 4));
    }
    end = next;
  }
  return { done, end };
}
