/** A segment whose events are not all done, as the spool knows it. */
import path from 'node:path';
import { crc32 } from './crc32.js';
import type { Mark } from './done-marks.js';
import type { FrameContext } from './frame.js';
import type { Seal } from './sealing.js';
import { marksFile, SEGMENT_HEADER_BYTES, segmentFile } from './segment.js';

export class WaitingSegment {
  /** Of its file. */
  readonly name: string;
  readonly id: Buffer;
  readonly path: string;
  readonly marksPath: string;
  readonly context: FrameContext;
  /** Begun by this spool, and so known to be whole. */
  readonly own: boolean;
  /** Behind the last byte that may be read. */
  end = SEGMENT_HEADER_BYTES;
  /** Nothing will be appended to it any more. */
  complete: boolean;
  /** How many events were appended to it. */
  events = 0;
  /** Events that the reader has not met, but for those that are done; and the bytes they take. */
  unread = { events: 0, bytes: 0 };
  /** Events that the reader has met and that are not done. */
  left = 0;
  readToEnd = false;
  /** The number of the frame that ends it, once one was set aside for it. */
  endNumber: number | undefined;
  /** When the first of its events was captured. */
  firstCapturedAt: number | undefined;
  /** Not to be removed when it is finished: something in it could not be read, or put aside. */
  keep = false;
  /** How many events are missing in it, when that could not be noted yet. */
  missing = 0;
  /** Done and not written down. */
  readonly marks: Mark[] = [];
  /** How many of them, from the first, are being written down just now. */
  marksInFlight = 0;
  /** Where the next marks go in their file. */
  marksEnd = 0;

  /**
   * @param leftAs the name under which another spool left it; undefined for one that this spool begins.
   * @param blind see FrameContext.
   */
  constructor(directory: string, id: Buffer, seal: Seal | undefined, leftAs?: string, blind = false) {
    this.name = leftAs ?? id.toString('hex');
    this.id = id;
    this.path = path.join(directory, segmentFile(this.name));
    this.marksPath = path.join(directory, marksFile(this.name));
    this.context = { checksumStart: crc32(id), seal, blind };
    this.own = leftAs === undefined;
    this.complete = !this.own;
  }

  /** Whether nothing in it is needed any more. */
  get finished(): boolean {
    if (!this.complete || this.left > 0) return false;
    // One that was begun by another spool may hold damage, which is only known when all of it has been read.
    return this.readToEnd || (this.own && this.unread.events === 0);
  }
}
