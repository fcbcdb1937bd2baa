/** Reads the events of a ledger from its segments, beside a running collector or without one. */
import path from 'node:path';
import { StoreDamaged, type EventSource, type ScanRange, type StoredEvent } from '../store.js';
import type { EventKind } from '@clinical-events/protocol';
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { Files } from './files.js';
import {
  decodeFrame,
  frameKind,
  frameOrganisation,
  frameReceivedAt,
  frameRunId,
  frameSequence,
} from './frame.js';
import { judgeTail, type Tail } from './recovery.js';
import { readFrames, type SegmentEnd } from './segment-reader.js';
import { listSegments, type Segment } from './segment.js';

/** Where a scan stopped, to go on from. */
export type Cursor = Pick<SegmentEnd, 'address' | 'nextSequence'>;

export class EventReader implements EventSource {
  readonly #directory: string;

  constructor(
    dataDirectory: string,
    private readonly files: Files,
  ) {
    this.#directory = path.join(dataDirectory, 'ledger');
  }

  /**
   * Yields the events of the range. Beside a running collector the last ones may be written and not yet flushed,
   * that is, not yet acknowledged.
   * @param cursor what an earlier scan returned; events before it are not read again.
   * @returns where it stopped.
   * @throws StoreDamaged at the first frame that does not hold what was written and had been durable.
   */
  *scan(range: ScanRange, cursor?: Cursor): Generator<StoredEvent, Cursor> {
    const segments = listSegments(this.files, this.#directory);
    const from = range.from ?? 1;
    const first = segments.findLastIndex((segment) =>
      cursor ? segment.base <= cursor.address : segment.firstSequence <= from,
    );
    const matches = matcher(range);
    const start = cursor && { address: cursor.address, sequence: cursor.nextSequence };
    const frames = readFrames(this.files, segments.slice(Math.max(0, first)), start);
    for (;;) {
      const next = frames.next();
      if (next.done) {
        // Only once, and not while following: it reads all that lies behind the last frame.
        if (!cursor) this.#assertWhole(segments, next.value);
        return next.value;
      }
      const { buffer, offset } = next.value;
      if (matches(buffer, offset)) yield decodeFrame(buffer, offset);
    }
  }

  /** What lies behind the last frame, or undefined when there is no segment. */
  tail(segments: readonly Segment[], end: SegmentEnd): Tail | undefined {
    const last = segments.at(-1);
    if (last === undefined) return undefined;
    const fd = this.files.open(last.path, 'r');
    try {
      return judgeTail(this.files, fd, end.offset, end.nextSequence);
    } finally {
      this.files.close(fd);
    }
  }

  #assertWhole(segments: readonly Segment[], end: SegmentEnd): void {
    if (this.tail(segments, end)?.state !== 'damaged') return;
    throw new StoreDamaged(
      { file: path.basename(segments.at(-1)?.path ?? ''), offset: end.offset, sequence: end.nextSequence },
      'a frame does not hold what was written',
    );
  }
}

/** Decides from the header alone, so that what is not asked for costs no decoding. */
function matcher(range: ScanRange): (buffer: Buffer, offset: number) => boolean {
  const { from, kinds, organisation, runId, since, until } = range;
  const run = runId === undefined ? undefined : Buffer.from(runId.replaceAll('-', ''), 'hex');
  return (buffer, offset) => {
    if (from !== undefined && frameSequence(buffer, offset) < from) return false;
    if (kinds && !kinds.has(EVENT_KINDS[frameKind(buffer, offset)] as EventKind)) return false;
    if (run && !frameRunId(buffer, offset).equals(run)) return false;
    if (organisation !== undefined && frameOrganisation(buffer, offset) !== organisation) return false;
    const receivedAt = frameReceivedAt(buffer, offset);
    return (since === undefined || receivedAt >= since) && (until === undefined || receivedAt < until);
  };
}
