/** The bytes of a segment, each checked as it is read, for a copy of it. */
import path from 'node:path';
import { StoreDamaged } from '../store.js';
import type { Files } from './files.js';
import { readFrames } from './segment-reader.js';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, type Segment } from './segment.js';

/** Small frames are gathered up to so many bytes. */
const PIECE_BYTES = 1 << 20;

/**
 * The header and the frames of a segment up to an address behind one of them; every frame with its checksum and its
 * sequence checked. A piece is valid until the next is asked for.
 * @param next the segment behind this one, which says where it ends; undefined for the last one.
 * @throws StoreDamaged at the first place that does not hold what was written there.
 */
export function* segmentPieces(
  files: Files,
  segment: Segment,
  next: Segment | undefined,
  until: number,
): Generator<Uint8Array> {
  yield headerOf(files, segment);
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  let [held, address, sequence] = [0, segment.base, segment.firstSequence];
  if (address < until) {
    for (const frame of readFrames(files, next === undefined ? [segment] : [segment, next])) {
      const { buffer, offset, size } = frame;
      if (held + size > piece.length) {
        yield piece.subarray(0, held);
        held = 0;
      }
      if (size > piece.length) yield buffer.subarray(offset, offset + size);
      else held += buffer.copy(piece, held, offset, offset + size);
      address = frame.address + size;
      sequence++;
      if (address >= until) break;
    }
  }
  if (address !== until) {
    throw damaged(
      segment,
      address - segment.base + SEGMENT_HEADER_BYTES,
      sequence,
      'a frame does not hold what was written',
    );
  }
  yield piece.subarray(0, held);
}

/** Read again, because what was read to list it is not what is copied. */
function headerOf(files: Files, segment: Segment): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  const fd = files.open(segment.path, 'r');
  try {
    files.read(fd, header, 0, header.length, 0);
  } finally {
    files.close(fd);
  }
  const created = Number(BigInt.asUintN(53, header.readBigUInt64LE(32)));
  if (header.equals(encodeSegmentHeader(segment, created))) return header;
  throw damaged(segment, 0, segment.firstSequence, 'the segment header has changed');
}

function damaged(segment: Segment, offset: number, sequence: number, reason: string): StoreDamaged {
  return new StoreDamaged({ file: path.basename(segment.path), offset, sequence }, reason);
}
