/** All of a segment, for people who look at a spool: nothing is taken, and nothing changed. */
import type { SpoolFiles } from './files.js';
import { errorCode } from './error-code.js';
import { loadMarks } from './marks-file.js';
import { SegmentReader, type FoundFrame, type LostBytes } from './segment-reader.js';
import { SEGMENT_HEADER_BYTES } from './segment.js';
import type { WaitingSegment } from './waiting-segment.js';

export interface Walked {
  /** The sizes of the frames whose events are done, by offset. */
  readonly done: ReadonlyMap<number, number>;
  /** The error of the last read that failed; its bytes were taken for zeros. */
  readonly unreadable: unknown;
}

/**
 * Visits each frame, the one that ends the segment among them, and each stretch that is none, in order.
 * @param visit is given what is done as it was noted when the walk began.
 * @returns undefined when the segment is gone: finished meanwhile, or taken over.
 */
export async function walk(
  files: SpoolFiles,
  segment: WaitingSegment,
  visit: (found: FoundFrame | LostBytes, done: Walked['done']) => void | Promise<void>,
): Promise<Walked | undefined> {
  let fd: number;
  let done: Walked['done'];
  try {
    fd = await files.open(segment.path, 'read');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    done = await loadMarks(files, segment);
    // What is written meanwhile is not looked at: it may be half of a frame.
    const end = Math.max(SEGMENT_HEADER_BYTES, await files.size(fd));
    const reader = new SegmentReader(files, fd, segment.context);
    for (let step = reader.step(end); step !== 'end'; step = reader.step(end)) {
      if (step === 'more') await reader.more(end);
      else await visit(step, done);
    }
    return { done, unreadable: reader.unreadable };
  } finally {
    await files.close(fd);
  }
}
