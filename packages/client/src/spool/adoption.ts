/** Taking over the segments of a spool that is no more. */
import path from 'node:path';
import { type OnTrouble, SpoolKeyWrong, SpoolUnwritable } from './contract.js';
import { errorCode, moved, namesIn, reading, type SpoolFiles } from './files.js';
import {
  decodeFrame,
  FRAME_HEADER_BYTES,
  frameCapturedAt,
  frameSize,
  LATEST,
  plausibleSize,
  type Seal,
} from './frame.js';
import { LOCK, OWNER, removeEmptied } from './process-directory.js';
import { FrameCount, SegmentReader } from './segment-reader.js';
import {
  decodeSegmentHeader,
  loadMarks,
  marksFile,
  MAX_SEGMENT_BYTES,
  sealOf,
  SEGMENT_HEADER_BYTES,
  segmentFile,
  segmentNameOf,
  WaitingSegment,
} from './segment.js';

interface LeftSegment {
  readonly name: string;
  readonly id: Buffer;
  readonly seal: Seal | undefined;
  readonly damagedHeader: boolean;
}

/** What bears the name of a segment and is none that can be read here. */
interface UnfitSegment {
  readonly path: string;
  /** What it is, for a sentence that begins with the path. */
  readonly why: string;
}

const OTHER_VERSION = {
  earlier: 'has an earlier format, which this version does not read: move its directory out of the spool',
  later: 'was written by a later version of the client, which can read it',
};

export interface Abandoned {
  readonly directory: string;
  readonly segments: readonly LeftSegment[];
  /** They are left where they are. */
  readonly unfit: readonly UnfitSegment[];
  /** Why the key, or none, does not open all segments; undefined when it does. */
  readonly locked: string | undefined;
}

/**
 * Looks at the segments of an abandoned directory, and changes nothing.
 * @throws SpoolKeyWrong when the key does not open one of them; SpoolUnwritable for a segment of an earlier format.
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

/** The same, also of segments that the key does not open: their `seal` is undefined then. */
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
      locked = `${directory} is sealed${seal ? ' by another key than the one given' : ', and no key was given'}`;
    }
    segments.push({ name, id: header.id, seal: opens ? seal : undefined, damagedHeader: false });
  }
  return { directory, segments, unfit, locked };
}

/**
 * On return the segments lie in `target`, and the directory that they came from is gone. Those that someone else took
 * meanwhile are left out, and those for whose names the disk has no room.
 */
export async function adopt(
  files: SpoolFiles,
  abandoned: Abandoned,
  target: string,
  onTrouble: OnTrouble,
): Promise<WaitingSegment[]> {
  const adopted: WaitingSegment[] = [];
  /** Whether nothing stays here, and no one else is adopting from here, as far as that shows. */
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
      onTrouble(`segment ${name} could not be taken over`, error);
      continue;
    }
    // Only now: the marks are for anyone who has won the segment.
    const moveMarks = () => move(marksFile(name));
    adopted.push(await surveyed(files, target, left, onTrouble, moveMarks));
  }
  try {
    await files.syncDirectory(target);
    for (const file of alone ? await listed(files, abandoned.directory) : []) {
      // Its segment is gone.
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
    onTrouble(`the header of segment ${name} is damaged; it is read by its name`, undefined);
  }
  const segment = new WaitingSegment(directory, id, seal, name);
  try {
    await before();
    await survey(files, segment);
  } catch (error) {
    onTrouble(`what waits in segment ${name} could not be counted`, error);
  }
  return segment;
}

/**
 * Counts what waits in the segment: by the frame that ends it where nothing is done, or else by reading all of it. On
 * return the segment counts as read when nothing waits in it, nothing is damaged and nothing is missing.
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

/** How many events the segment has, by the frame that ends it; undefined when it has none. */
async function readEnd(files: SpoolFiles, fd: number, segment: WaitingSegment): Promise<number | undefined> {
  const size = frameSize(0, segment.context);
  if (segment.end < SEGMENT_HEADER_BYTES + size) return undefined;
  const bytes = Buffer.alloc(size);
  if ((await files.read(fd, bytes, segment.end - size)) < size) return undefined;
  if (plausibleSize(bytes, 0, size) !== size) return undefined;
  const frame = decodeFrame(bytes, 0, size, segment.context);
  // Each event takes a frame: a number that cannot be is not believed.
  const most = (segment.end - SEGMENT_HEADER_BYTES - size) / frameSize(0, segment.context);
  return frame?.kind === undefined && frame !== undefined && frame.number <= most ? frame.number : undefined;
}

/** When its first event was captured, if that can be read; without looking at whether its frame is damaged. */
async function firstCapturedAt(files: SpoolFiles, fd: number): Promise<number | undefined> {
  const bytes = Buffer.alloc(FRAME_HEADER_BYTES);
  const got = await files.read(fd, bytes, SEGMENT_HEADER_BYTES);
  if (got < bytes.length || plausibleSize(bytes, 0, Infinity) === 0) return undefined;
  const capturedAt = frameCapturedAt(bytes, 0);
  return capturedAt <= LATEST ? capturedAt : undefined;
}

/**
 * Up to SEGMENT_HEADER_BYTES of the file; undefined when it is not there any more.
 * @returns a text when it cannot be a segment, or not be read: why.
 */
async function readHead(files: SpoolFiles, file: string): Promise<Buffer | string | undefined> {
  try {
    return await reading(files, file, async (fd) => {
      if ((await files.size(fd)) > MAX_SEGMENT_BYTES)
        return `has more than the ${MAX_SEGMENT_BYTES} bytes of a segment`;
      const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES);
      return bytes.subarray(0, await files.read(fd, bytes, 0));
    });
  } catch (error) {
    const code = errorCode(error);
    return code === 'EFTYPE' ? 'is no regular file' : `cannot be read (${code ?? 'unknown'})`;
  }
}

async function listed(files: SpoolFiles, directory: string): Promise<string[]> {
  return (await namesIn(files, directory)).filter((name) => name !== LOCK && name !== OWNER);
}
