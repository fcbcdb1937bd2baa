/** Adopts the segments of abandoned parts. */
import path from 'node:path';
import { errorCode, moved, namesIn, reading, type SpoolFiles } from './files.js';
import { LOCK, OWNER, removeEmptied } from './process-directory.js';
import type { Seal } from './seal.js';
import {
  decodeFrame,
  decodeSegmentHeader,
  FRAME_HEADER_BYTES,
  frameCapturedAt,
  FrameCount,
  frameSize,
  LATEST,
  loadMarks,
  marksFile,
  MAX_SEGMENT_BYTES,
  plausibleSize,
  sealOf,
  SEGMENT_HEADER_BYTES,
  segmentFile,
  segmentNameOf,
  SegmentReader,
  WaitingSegment,
} from './segment.js';
import { type OnTrouble, SpoolKeyWrong, SpoolUnwritable } from './spool.js';

interface LeftSegment {
  readonly name: string;
  readonly id: Buffer;
  readonly seal: Seal | undefined;
  readonly damagedHeader: boolean;
}

/** A file with the name of a segment that this version cannot read. */
interface UnfitSegment {
  readonly path: string;
  /** Predicate of a sentence about the path. */
  readonly why: string;
}

const OTHER_VERSION = {
  earlier: 'has an earlier format that this version cannot read: move its directory out of the spool',
  later: 'was written by a later version of the client',
};

export interface Abandoned {
  readonly directory: string;
  readonly segments: readonly LeftSegment[];
  /** Segments that stay where they are. */
  readonly unfit: readonly UnfitSegment[];
  /** Why a segment cannot be decrypted; undefined if all can. */
  readonly locked: string | undefined;
}

/**
 * Reads the headers of the segments in a directory, and changes nothing.
 * @throws SpoolKeyWrong if the key does not open one of them; SpoolUnwritable for a segment of an earlier
 * format.
 */
export async function examine(
  files: SpoolFiles,
  directory: string,
  key: Uint8Array | undefined,
): Promise<Abandoned> {
  const examined = await examineBlind(files, directory, key);
  const earlier = examined.unfit.find(({ why }) => why === OTHER_VERSION.earlier);
  if (earlier) throw new SpoolUnwritable(`${earlier.path} ${earlier.why}`);
  if (examined.locked !== undefined) throw new SpoolKeyWrong(examined.locked);
  return examined;
}

/** Like `examine`, but segments that the key does not open have an undefined `seal`. */
export async function examineBlind(
  files: SpoolFiles,
  directory: string,
  key: Uint8Array | undefined,
): Promise<Abandoned> {
  const segments: LeftSegment[] = [];
  const unfit: UnfitSegment[] = [];
  let locked: string | undefined;
  for (const file of await listed(files, directory)) {
    const name = segmentNameOf(file);
    if (name === undefined) continue;
    const at = path.join(directory, file);
    const bytes = await readHead(files, at);
    if (!bytes) continue;
    if (typeof bytes === 'string') {
      unfit.push({ path: at, why: bytes });
      continue;
    }
    const header = decodeSegmentHeader(bytes);
    if (header === 'earlier' || header === 'later') {
      unfit.push({ path: at, why: OTHER_VERSION[header] });
      continue;
    }
    if (header === 'damaged') {
      const id = Buffer.from(name, 'hex');
      segments.push({
        name,
        id,
        seal: key && sealOf(key, id),
        damagedHeader: bytes.length === SEGMENT_HEADER_BYTES,
      });
      continue;
    }
    const seal = header.keyCheck && key ? sealOf(key, header.id) : undefined;
    const opens = header.keyCheck === undefined || seal?.check.equals(header.keyCheck) === true;
    if (!opens) {
      locked = `${directory} is encrypted${seal ? ' with another key' : '; give its key'}`;
    }
    segments.push({ name, id: header.id, seal: opens ? seal : undefined, damagedHeader: false });
  }
  return { directory, segments, unfit, locked };
}

/**
 * Moves the segments to `target`, and removes their directory. Skips segments that another process adopted
 * meanwhile, and those that cannot be renamed because the disk is full.
 */
export async function adopt(
  files: SpoolFiles,
  abandoned: Abandoned,
  target: string,
  onTrouble: OnTrouble,
): Promise<WaitingSegment[]> {
  const adopted: WaitingSegment[] = [];
  /** Every segment was moved by this process, so the rest of the directory can be removed. */
  let alone = abandoned.unfit.length === 0;
  for (const left of abandoned.segments) {
    const { name } = left;
    const move = (file: string) =>
      moved(files, path.join(abandoned.directory, file), path.join(target, file));
    try {
      if (!(await move(segmentFile(name)))) {
        alone = false;
        continue;
      }
    } catch (error) {
      alone = false;
      onTrouble(`segment ${name} could not be adopted`, error);
      continue;
    }
    // Only one process succeeds in renaming the segment, and it also owns the marks.
    const moveMarks = () => move(marksFile(name));
    adopted.push(await surveyed(files, target, left, onTrouble, moveMarks));
  }
  try {
    await files.syncDirectory(target);
    for (const file of alone ? await listed(files, abandoned.directory) : []) {
      // Marks without a segment.
      if (file.endsWith(marksFile(''))) await files.remove(path.join(abandoned.directory, file));
    }
    if (abandoned.unfit.length === 0) await removeEmptied(files, abandoned.directory);
  } catch (error) {
    if (alone && errorCode(error) !== 'ENOENT')
      onTrouble(`${abandoned.directory} could not be removed`, error);
  }
  return adopted;
}

async function surveyed(
  files: SpoolFiles,
  directory: string,
  { name, id, seal, damagedHeader }: LeftSegment,
  onTrouble: OnTrouble,
  before: () => Promise<unknown> = () => Promise.resolve(),
): Promise<WaitingSegment> {
  if (damagedHeader) {
    onTrouble(`the header of segment ${name} is damaged; its name is used instead`, undefined);
  }
  const segment = new WaitingSegment(directory, id, seal, name);
  try {
    await before();
    await survey(files, segment);
  } catch (error) {
    onTrouble(`the events of segment ${name} could not be counted`, error);
  }
  return segment;
}

/**
 * Counts the waiting events of the segment: from its end frame if no event is done, otherwise by reading all
 * of it. Sets `readToEnd` if no event waits and the segment is undamaged and complete.
 */
export async function survey(files: SpoolFiles, segment: WaitingSegment): Promise<void> {
  const done = await loadMarks(files, segment);
  const fd = await files.open(segment.path, 'read');
  try {
    segment.end = Math.max(SEGMENT_HEADER_BYTES, await files.size(fd));
    segment.firstCapturedAt = await firstCapturedAt(files, fd);
    segment.unread = { events: 0, bytes: 0 };
    const events = done.size === 0 ? await readEnd(files, fd, segment) : undefined;
    if (events !== undefined) {
      const bytes = segment.end - SEGMENT_HEADER_BYTES - frameSize(0, segment.context);
      segment.unread = { events, bytes };
      segment.readToEnd = events === 0 && bytes === 0;
      return;
    }
    let whole = true;
    const count = new FrameCount();
    const reader = new SegmentReader(files, fd, segment.context);
    for await (const found of reader.all(segment.end)) {
      if (!found.frame) whole = false;
      else {
        count.meet(found, done);
        if (found.frame.kind === undefined || done.has(found.offset)) continue;
        segment.unread.events++;
        segment.unread.bytes += found.size;
      }
    }
    segment.readToEnd = segment.unread.events === 0 && whole && count.missing === 0;
  } finally {
    await files.close(fd);
  }
}

/** The number of events in the end frame; undefined if there is no valid one. */
async function readEnd(files: SpoolFiles, fd: number, segment: WaitingSegment): Promise<number | undefined> {
  const size = frameSize(0, segment.context);
  if (segment.end < SEGMENT_HEADER_BYTES + size) return undefined;
  const bytes = Buffer.alloc(size);
  if ((await files.read(fd, bytes, segment.end - size)) < size) return undefined;
  if (plausibleSize(bytes, 0, size) !== size) return undefined;
  const frame = decodeFrame(bytes, 0, size, segment.context);
  // A number larger than the segment can hold is invalid.
  const most = (segment.end - SEGMENT_HEADER_BYTES - size) / frameSize(0, segment.context);
  return frame?.kind === undefined && frame !== undefined && frame.number <= most ? frame.number : undefined;
}

/** Time of the first event, if its frame header is plausible; the checksum is not verified. */
async function firstCapturedAt(files: SpoolFiles, fd: number): Promise<number | undefined> {
  const bytes = Buffer.alloc(FRAME_HEADER_BYTES);
  const got = await files.read(fd, bytes, SEGMENT_HEADER_BYTES);
  if (got < bytes.length || plausibleSize(bytes, 0, Infinity) === 0) return undefined;
  const capturedAt = frameCapturedAt(bytes, 0);
  return capturedAt <= LATEST ? capturedAt : undefined;
}

/**
 * @returns up to SEGMENT_HEADER_BYTES of the file; undefined if it is gone; a reason if it cannot be a
 * segment.
 */
async function readHead(files: SpoolFiles, file: string): Promise<Buffer | string | undefined> {
  try {
    return await reading(files, file, async (fd) => {
      if ((await files.size(fd)) > MAX_SEGMENT_BYTES)
        return `is larger than a segment (${MAX_SEGMENT_BYTES} bytes)`;
      const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
      return bytes.subarray(0, await files.read(fd, bytes, 0));
    });
  } catch (error) {
    const code = errorCode(error);
    return code === 'EFTYPE' ? 'is not a regular file' : `cannot be read (${code ?? 'unknown'})`;
  }
}

async function listed(files: SpoolFiles, directory: string): Promise<string[]> {
  return (await namesIn(files, directory)).filter((name) => name !== LOCK && name !== OWNER);
}
