/** Reads the events of a ledger from its segments, beside a running collector or without one. */
import path from 'node:path';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import {
  StoreDamaged,
  type EventSource,
  type ScanRange,
  type StoredEntry,
  type StoredEvent,
} from '../store.js';
import type { Files } from './files.js';
import {
  decodeFrame,
  frameEventId,
  frameIsOwn,
  frameKind,
  frameOrganisation,
  frameReceivedAt,
  frameRunId,
  frameSequence,
} from './frame.js';
import { judgeTail, type Tail } from './recovery.js';
import { readFrames, type FramePlace, type SegmentEnd } from './segment-reader.js';
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
  scan(range: ScanRange, cursor?: Cursor): Generator<StoredEvent, Cursor> {
    return this.#read(range, true, cursor) as Generator<StoredEvent, Cursor>;
  }

  entries(range: ScanRange): Generator<StoredEntry, Cursor> {
    return this.#read(range, false);
  }

  *#read(range: ScanRange, eventsAlone: boolean, cursor?: Cursor): Generator<StoredEntry, Cursor> {
    const segments = listSegments(this.files, this.#directory);
    const from = range.from ?? 1;
    const first = segments.findLastIndex((segment) =>
      cursor ? segment.base <= cursor.address : segment.firstSequence <= from,
    );
    const matches = matcher(range);
    const start = cursor && { address: cursor.address, sequence: cursor.nextSequence };
    const wanted = segments.slice(Math.max(0, first));
    // While following, the tail is not judged: that reads all that lies behind the last frame.
    const frames = cursor ? readFrames(this.files, wanted, start) : this.frames(wanted);
    for (;;) {
      const next = frames.next();
      if (next.done) return next.value;
      const { buffer, offset } = next.value;
      if (eventsAlone && frameIsOwn(buffer, offset)) continue;
      if (matches(buffer, offset)) yield decodeFrame(buffer, offset);
    }
  }

  /**
   * Every frame of the segments, and then what lies behind the last one.
   * @param segments neighbours, the ledger's last segment among them.
   * @throws StoreDamaged at the first frame that does not hold what was written and had been durable.
   */
  *frames(segments: readonly Segment[]): Generator<FramePlace, SegmentEnd & { readonly tail: Tail }> {
    let end = yield* readFrames(this.files, segments);
    for (;;) {
      const tail = this.#tail(segments, end);
      if (tail.state !== 'damaged') return { ...end, tail };
      // A running collector may have written the frame since it was looked for. What was durable before the
      // witness was written can be read after the witness was seen; if it still cannot, it is damaged.
      const start = { address: end.address, sequence: end.nextSequence };
      const again = yield* readFrames(this.files, segments.slice(-1), start);
      if (again.address === end.address) {
        throw new StoreDamaged(
          {
            file: path.basename(segments.at(-1)?.path ?? ''),
            offset: end.offset,
            sequence: end.nextSequence,
          },
          'a frame does not hold what was written',
        );
      }
      end = again;
    }
  }

  #tail(segments: readonly Segment[], end: SegmentEnd): Tail {
    const last = segments.at(-1);
    if (last === undefined) return { state: 'clean' };
    const fd = this.files.open(last.path, 'r');
    try {
      return judgeTail(this.files, fd, end.offset, end.nextSequence);
    } finally {
      this.files.close(fd);
    }
  }
}

/** Decides from the header alone, so that what is not asked for costs no decoding. */
function matcher(range: ScanRange): (buffer: Buffer, offset: number) => boolean {
  const { from, kinds, organisation, runId, eventId, since, until } = range;
  const bytesOf = (id: string | undefined) =>
    id === undefined ? undefined : Buffer.from(id.replaceAll('-', ''), 'hex');
  const run = bytesOf(runId);
  const event = bytesOf(eventId);
  return (buffer, offset) => {
    if (from !== undefined && frameSequence(buffer, offset) < from) return false;
    if (kinds && !kinds.has(EVENT_KINDS[frameKind(buffer, offset)] as EventKind)) return false;
    if (event && !frameEventId(buffer, offset).equals(event)) return false;
    if (run && !frameRunId(buffer, offset).equals(run)) return false;
    if (organisation !== undefined && frameOrganisation(buffer, offset) !== organisation) return false;
    const receivedAt = frameReceivedAt(buffer, offset);
    return (since === undefined || receivedAt >= since) && (until === undefined || receivedAt < until);
  };
}
