/**
 * Reads the frames of one segment in order, in large pieces. Where no frame can be read it looks for the next one, and
 * tells which bytes lie between: damage never hides what is behind it.
 */
import type { SpoolFiles } from './files.js';
import {
  decodeFrame,
  FRAME_HEADER_BYTES,
  MARKER,
  MARKER_OFFSET,
  plausibleSize,
  type Frame,
  type FrameContext,
} from './frame.js';
import { SEGMENT_HEADER_BYTES } from './segment.js';

const PIECE_BYTES = 256 << 10;
/** What is tried when a piece cannot be read: a bad sector takes no more than this with it. */
const BLOCK_BYTES = 4096;

export interface FoundFrame {
  readonly frame: Frame;
  readonly offset: number;
  readonly size: number;
}

/** Bytes that are no frame. */
export interface LostBytes {
  readonly frame: undefined;
  readonly offset: number;
  readonly size: number;
  /** No frame is behind them. */
  readonly atEnd: boolean;
}

export class SegmentReader {
  /** The last error of a read; the bytes that it was about count as zeros. */
  unreadable: unknown;
  readonly #files: SpoolFiles;
  readonly #fd: number;
  readonly #context: FrameContext;
  /** The file's bytes from #from on, #filled of them. */
  #window: Buffer = Buffer.allocUnsafe(PIECE_BYTES);
  #from = SEGMENT_HEADER_BYTES;
  #filled = 0;
  #offset = SEGMENT_HEADER_BYTES;
  #lostFrom: number | undefined;
  #needed = 0;
  #fileEnd = Infinity;

  constructor(files: SpoolFiles, fd: number, context: FrameContext) {
    this.#files = files;
    this.#fd = fd;
    this.#context = context;
  }

  /**
   * The next frame or lost stretch in front of `end`, out of memory.
   * @returns 'more' when `more` has to be called first, 'end' when there is nothing more.
   */
  step(end: number): FoundFrame | LostBytes | 'more' | 'end' {
    const limit = Math.min(end, this.#fileEnd);
    for (;;) {
      const offset = this.#offset;
      const room = limit - offset;
      if (room <= 0) return this.#lost(true) ?? 'end';
      const at = offset - this.#from;
      const has = this.#filled - at;
      if (has < Math.min(FRAME_HEADER_BYTES, room)) return this.#askFor(FRAME_HEADER_BYTES);
      const size = room < FRAME_HEADER_BYTES ? 0 : plausibleSize(this.#window, at, room);
      if (size > has) return this.#askFor(size);
      const frame = size === 0 ? undefined : decodeFrame(this.#window, at, size, this.#context);
      if (frame) {
        const lost = this.#lost(false);
        if (lost) return lost;
        this.#offset += size;
        return { frame, offset, size };
      }
      this.#lostFrom ??= offset;
      this.#offset = Math.min(limit, this.#nextMarked(at));
    }
  }

  /** Reads the next piece in front of `end`. */
  async more(end: number): Promise<void> {
    const limit = Math.min(end, this.#fileEnd);
    const rest = this.#window.subarray(Math.min(this.#filled, this.#offset - this.#from), this.#filled);
    const bytes = Math.max(this.#needed, PIECE_BYTES);
    const window = this.#window.length === bytes ? this.#window : Buffer.allocUnsafe(bytes);
    window.set(rest);
    this.#window = window;
    this.#from = this.#offset;
    this.#filled = rest.length;
    const position = this.#from + this.#filled;
    const wanted = Math.min(bytes - this.#filled, limit - position);
    const got = await this.#read(position, wanted);
    this.#filled += got;
    if (got === 0) this.#fileEnd = position;
  }

  async #read(position: number, wanted: number): Promise<number> {
    const target = this.#window.subarray(this.#filled, this.#filled + wanted);
    try {
      return await this.#files.read(this.#fd, target, position);
    } catch {
      const block = target.subarray(0, BLOCK_BYTES - (position % BLOCK_BYTES));
      try {
        return await this.#files.read(this.#fd, block, position);
      } catch (error) {
        this.unreadable = error;
        block.fill(0);
        return block.length;
      }
    }
  }

  #askFor(bytes: number): 'more' {
    this.#needed = bytes;
    return 'more';
  }

  /** The stretch that ends here, if one does. */
  #lost(atEnd: boolean): LostBytes | undefined {
    if (this.#lostFrom === undefined) return undefined;
    const offset = this.#lostFrom;
    this.#lostFrom = undefined;
    return { frame: undefined, offset, size: this.#offset - offset, atEnd };
  }

  /** Where the first frame behind `at` may begin; at the latest where the window's end could cut a marker in two. */
  #nextMarked(at: number): number {
    const filled = this.#window.subarray(0, this.#filled);
    const found = filled.indexOf(MARKER, at + MARKER_OFFSET + 1);
    if (found >= 0) return this.#from + found - MARKER_OFFSET;
    return this.#from + Math.max(at + 1, this.#filled - MARKER.length - MARKER_OFFSET + 1);
  }
}
