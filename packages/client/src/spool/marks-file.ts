import { decodeMarks } from './done-marks.js';
import { errorCode } from './error-code.js';
import type { SpoolFiles } from './files.js';
import { FRAME_HEADER_BYTES } from './frame.js';
import { MAX_SEGMENT_BYTES } from './segment.js';
import type { WaitingSegment } from './waiting-segment.js';

/** More than all events of a segment take, each marked by itself. */
const MOST_BYTES = 16 * (MAX_SEGMENT_BYTES / FRAME_HEADER_BYTES);

/** The sizes of the frames that are done, by offset; on return `marksEnd` stands behind the marks that hold. */
export async function loadMarks(
  files: SpoolFiles,
  segment: WaitingSegment,
): Promise<ReadonlyMap<number, number>> {
  let fd: number;
  try {
    fd = await files.open(segment.marksPath, 'read');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return new Map();
    throw error;
  }
  try {
    const bytes = Buffer.alloc(Math.min(MOST_BYTES, await files.size(fd)));
    await files.read(fd, bytes, 0);
    const { done, end } = decodeMarks(bytes, segment.context.checksumStart);
    segment.marksEnd = end;
    return done;
  } finally {
    await files.close(fd);
  }
}
