/** Reads frames in order, across segments, in bounded memory. */
import path from 'node:path';
import { StoreDamaged } from '../store.js';
import type { Files } from './files.js';
import { checksumHolds, frameSequence, plausibleSize } from './frame.js';
import { SEGMENT_HEADER_BYTES, type Segment } from './segment.js';

/** Where a frame stands in `buffer`; the same object for every frame, valid until the next is asked for. */
export interface FramePlace {
  buffer: Buffer;
  offset: number;
  size: number;
  address: number;
}

const WINDOW_BYTES = 4 << 20;

/** What stands behind the last readable frame of the last segment. */
export interface SegmentEnd {
  /** Address behind the last frame. */
  readonly address: number;
  /** Offset in the last segment's file. */
  readonly offset: number;
  readonly nextSequence: number;
}

/**
 * Yields every frame from the first of `segments` on, each with its checksum and its sequence checked, and
 * returns where the last segment's readable frames end; what lies behind that is for recovery.ts to judge.
 * @param segments a run of neighbours that ends with the ledger's last segment.
 * @param from the address of a frame in the first of them; frames before it are not read.
 * @param sequence that frame's sequence.
 * @throws StoreDamaged at the first frame that does not hold, unless it is in the last segment.
 */
export function* readFrames(
  files: Files,
  segments: readonly Segment[],
  from?: { address: number; sequence: number },
): Generator<FramePlace, SegmentEnd> {
  const place: FramePlace = { buffer: Buffer.allocUnsafe(WINDOW_BYTES), offset: 0, size: 0, address: 0 };
  let end: SegmentEnd = { address: 0, offset: SEGMENT_HEADER_BYTES, nextSequence: 1 };
  for (const [i, segment] of segments.entries()) {
    const next = segments[i + 1];
    const start =
      i === 0 && from !== undefined ? from : { address: segment.base, sequence: segment.firstSequence };
    if (i > 0 && end.nextSequence !== segment.firstSequence) {
      throw new StoreDamaged(
        { file: path.basename(segment.path), offset: 0, sequence: end.nextSequence },
        'the segment does not go on where the one before it ends',
      );
    }
    end = yield* readSegment(files, segment, next?.base, start, place);
  }
  return end;
}

function* readSegment(
  files: Files,
  segment: Segment,
  boundAddress: number | undefined,
  start: { address: number; sequence: number },
  place: FramePlace,
): Generator<FramePlace, SegmentEnd> {
  const fd = files.open(segment.path, 'r');
  try {
    const toOffset = (address: number) => address - segment.base + SEGMENT_HEADER_BYTES;
    const limit = boundAddress === undefined ? files.size(fd) : toOffset(boundAddress);
    let position = toOffset(start.address);
    let sequence = start.sequence;
    // The window holds the file's bytes [windowStart, windowStart + held).
    let windowStart = position;
    let held = 0;
    while (position < limit) {
      let at = position - windowStart;
      let size = plausibleSize(place.buffer, at, held);
      if (size === 0 || at + size > held) {
        // Not in the window whole: move the window here, larger when this one frame asks for it.
        if (size > place.buffer.length) place.buffer = Buffer.allocUnsafe(Math.min(size, limit - position));
        windowStart = position;
        held = files.read(fd, place.buffer, 0, Math.min(place.buffer.length, limit - position), position);
        at = 0;
        size = plausibleSize(place.buffer, 0, held);
        if (size > held && size <= limit - position && size > place.buffer.length) continue;
      }
      const holds =
        size > 0 &&
        at + size <= held &&
        checksumHolds(place.buffer, at, size) &&
        frameSequence(place.buffer, at) === sequence;
      if (!holds) {
        if (boundAddress === undefined) break;
        throw new StoreDamaged(
          { file: path.basename(segment.path), offset: position, sequence },
          'a frame does not hold what was written',
        );
      }
      place.offset = at;
      place.size = size;
      place.address = position - SEGMENT_HEADER_BYTES + segment.base;
      yield place;
      position += size;
      sequence++;
    }
    return {
      address: position - SEGMENT_HEADER_BYTES + segment.base,
      offset: position,
      nextSequence: sequence,
    };
  } finally {
    files.close(fd);
  }
}
