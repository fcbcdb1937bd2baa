/**
 * Reads the frames of one segment in order, in large pieces. Where no frame can be read it looks for the next one, and
 * tells which bytes lie between: damage never hides what is behind it.
 */
import path from 'node:path';
import { namesIn, reading, type SpoolFiles } from './files.js';
import {
  decodeFrame,
  type Frame,
  FRAME_HEADER_BYTES,
  type FrameContext,
  looksCut,
  MARKER,
  MARKER_OFFSET,
  plausibleSize,
} from './frame.js';
import { loadMarks, SEGMENT_HEADER_BYTES, type WaitingSegment } from './segment.js';

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
  /** They are what a write that was cut off leaves: see `looksCut`. */
  readonly cut: boolean;
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
  #cut = false;
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
      if (this.#lostFrom === undefined) {
        this.#lostFrom = offset;
        this.#cut = looksCut(this.#window, at, room);
      }
      this.#offset = Math.min(limit, this.#nextMarked(at));
    }
  }

  /** All frames and lost stretches in front of `end`, in order. */
  async *all(end: number): AsyncGenerator<FoundFrame | LostBytes, void, undefined> {
    for (let step = this.step(end); step !== 'end'; step = this.step(end)) {
      if (step === 'more') await this.more(end);
      else yield step;
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
    return { frame: undefined, offset, size: this.#offset - offset, atEnd, cut: atEnd && this.#cut };
  }

  /** Where the first frame behind `at` may begin; at the latest where the window's end could cut a marker in two. */
  #nextMarked(at: number): number {
    const filled = this.#window.subarray(0, this.#filled);
    const found = filled.indexOf(MARKER, at + MARKER_OFFSET + 1);
    if (found >= 0) return this.#from + found - MARKER_OFFSET;
    return this.#from + Math.max(at + 1, this.#filled - MARKER.length - MARKER_OFFSET + 1);
  }
}

/* All of a segment, for people who look at a spool: nothing is taken, and nothing changed. */

/**
 * Visits each frame, the one that ends the segment among them, and each stretch that is none, in order.
 * @param visit is given what is done as it was noted when the walk began.
 * @returns the error of the last read that failed, whose bytes were taken for zeros; undefined when the segment is gone:
 * finished meanwhile, or taken over.
 */
export async function walk(
  files: SpoolFiles,
  segment: WaitingSegment,
  visit: (found: FoundFrame | LostBytes, done: ReadonlySet<number>) => void | Promise<void>,
): Promise<{ readonly unreadable: unknown } | undefined> {
  return reading(files, segment.path, async (fd) => {
    const done = await loadMarks(files, segment);
    // What is written meanwhile is not looked at: it may be half of a frame.
    const end = Math.max(SEGMENT_HEADER_BYTES, await files.size(fd));
    const reader = new SegmentReader(files, fd, segment.context);
    for await (const found of reader.all(end)) await visit(found, done);
    return { unreadable: reader.unreadable };
  });
}

/* What the frames of a segment tell of events that are not there any more. */

export class FrameCount {
  /** Events met, and how many of them are done. */
  events = 0;
  done = 0;
  /** How many events the segment had, by its frames. */
  #written = 0;
  #ended = false;
  /** How many marks of events that are done there are. */
  #marks = 0;

  /**
   * Given each frame, in the order in which they stand.
   * @param done what is marked.
   */
  meet({ frame, offset }: FoundFrame, done: ReadonlySet<number>): void {
    this.#marks = done.size;
    if (frame.kind === undefined) this.#ended = true;
    else {
      this.events++;
      if (done.has(offset)) this.done++;
    }
    this.#written = Math.max(this.#written, frame.number + (frame.kind === undefined ? 0 : 1));
  }

  /** Whether the lost bytes are a write that was cut off: never behind the frame that ends the segment. */
  isCut({ cut }: LostBytes): boolean {
    return cut && !this.#ended;
  }

  /** How many events that are not done are not there; of a segment without its end, but for the last ones. */
  get missing(): number {
    return Math.max(0, this.#written - this.events - (this.#marks - this.done));
  }
}

/*
 * What could not be read as frames is not thrown away: it goes to files of its own in `damaged/`, as it is. Of events that
 * are missing a note is left there. Both stay until someone takes them away.
 */

const CHUNK_BYTES = 1 << 20;
const ZEROS = Buffer.alloc(CHUNK_BYTES);
const BYTES = '.bytes';
const MISSING = '.missing';

/** A file in `damaged/`. */
export interface KeptDamage {
  readonly path: string;
  readonly bytes: number;
  /** For a note: how many events a segment had lost when it was read. */
  readonly missing: number | undefined;
}

export class DamagedBytes {
  readonly directory: string;
  readonly #files: SpoolFiles;

  constructor(files: SpoolFiles, root: string) {
    this.#files = files;
    this.directory = path.join(root, 'damaged');
  }

  /**
   * On return the bytes are durable in a file named by where they were, unless they are all zeros.
   * @param name of the segment, or of the file, in which they are.
   * @returns its path.
   */
  async keep(
    name: string,
    fd: number,
    lost: Pick<LostBytes, 'offset' | 'size'>,
  ): Promise<string | undefined> {
    const file = path.join(this.directory, `${name}-${lost.offset}${BYTES}`);
    let copy: number | undefined;
    try {
      for (let done = 0; done < lost.size; done += CHUNK_BYTES) {
        const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, lost.size - done));
        const got = await this.#files.read(fd, chunk, lost.offset + done);
        if (copy === undefined && chunk.equals(ZEROS.subarray(0, chunk.length))) continue;
        if (copy === undefined) {
          await this.#files.makeInside(this.directory);
          copy = await this.#files.open(file, 'write');
        }
        await this.#files.write(copy, chunk.subarray(0, got), done);
      }
      if (copy === undefined) return undefined;
      await this.#files.datasync(copy);
      await this.#files.syncDirectory(this.directory);
      return file;
    } finally {
      if (copy !== undefined) await this.#files.close(copy);
    }
  }

  /**
   * On return it is durable that so many events of the segment were missing when it was read, of which no byte is left.
   * @returns the path of the note.
   */
  async note(segment: string, missing: number): Promise<string> {
    const file = path.join(this.directory, `${segment}${MISSING}`);
    await this.#files.makeInside(this.directory);
    const fd = await this.#files.open(file, 'write');
    try {
      const text = Buffer.from(`${JSON.stringify({ segment, missing_events: missing })}\n`);
      await this.#files.write(fd, text, 0);
      await this.#files.truncate(fd, text.length);
      await this.#files.datasync(fd);
      await this.#files.syncDirectory(this.directory);
      return file;
    } finally {
      await this.#files.close(fd);
    }
  }

  /** What was kept and noted so far. @throws the system's error. */
  async all(): Promise<KeptDamage[]> {
    const kept: KeptDamage[] = [];
    for (const name of await namesIn(this.#files, this.directory))
      kept.push(await this.#kept(path.join(this.directory, name)));
    return kept;
  }

  async #kept(file: string): Promise<KeptDamage> {
    const unknown = { path: file, bytes: 0, missing: undefined };
    const kept = reading(this.#files, file, async (fd) => {
      const bytes = await this.#files.size(fd);
      if (!file.endsWith(MISSING)) return { ...unknown, bytes };
      const note = Buffer.alloc(Math.min(bytes, 256));
      const text = note.subarray(0, await this.#files.read(fd, note, 0)).toString();
      const missing = /"missing_events":(\d{1,15})\}/.exec(text)?.[1];
      return { path: file, bytes, missing: missing === undefined ? undefined : Number(missing) };
    });
    // What cannot be opened is none of the spool's, and must not hide the others.
    return (await kept.catch(() => undefined)) ?? unknown;
  }
}
