/** What a spool holds, for people to see: nothing is taken, moved or removed, and nobody is held up. */
import path from 'node:path';
import { examine, survey } from './adoption.js';
import { SpoolKeyWrong } from './contract.js';
import { errorCode } from './error-code.js';
import { nodeFiles, type SpoolFiles } from './files.js';
import { Neighbours } from './process-directory.js';
import { SERIES_NAME } from './segment.js';
import { WaitingSegment } from './waiting-segment.js';

const PIECE_BYTES = 1 << 20;
const NEWLINE = 10;

/** The sub-directory of one process. */
interface InspectedDirectory {
  readonly path: string;
  /** A living process writes to it, or may: then the numbers are those of a moment ago. */
  readonly held: boolean;
  readonly segments: number;
  /** Undefined when it is sealed and the key does not open it. */
  readonly waiting: number | undefined;
  readonly waitingBytes: number | undefined;
  /** When the first event of the oldest segment was captured, RFC 3339. */
  readonly oldest: string | undefined;
}

export interface InspectedSpool {
  readonly directories: readonly InspectedDirectory[];
  readonly quarantine: readonly { readonly path: string; readonly events: number }[];
  readonly damaged: readonly { readonly path: string; readonly bytes: number }[];
}

/** @throws the system's error when the directory cannot be read. */
export async function inspectSpool(
  directory: string,
  key: Uint8Array | undefined,
  files: SpoolFiles = nodeFiles,
): Promise<InspectedSpool> {
  const root = path.resolve(directory);
  const names = await files.list(root);
  const free = await new Neighbours(files, root, () => undefined).abandoned();
  const directories: InspectedDirectory[] = [];
  for (const name of names.filter((each) => SERIES_NAME.test(each))) {
    const at = path.join(root, name);
    directories.push({ path: at, held: !free.includes(at), ...(await contentsOf(files, at, key)) });
  }
  const quarantine = [];
  for (const file of await pathsIn(files, path.join(root, 'quarantine'))) {
    quarantine.push({ path: file, events: (await measure(files, file)).lines });
  }
  const damaged = [];
  for (const file of await pathsIn(files, path.join(root, 'damaged'))) {
    damaged.push({ path: file, bytes: (await measure(files, file)).bytes });
  }
  return { directories, quarantine, damaged };
}

async function contentsOf(
  files: SpoolFiles,
  directory: string,
  key: Uint8Array | undefined,
): Promise<Omit<InspectedDirectory, 'path' | 'held'>> {
  try {
    const { segments } = await examine(files, directory, key);
    let [waiting, waitingBytes] = [0, 0];
    let oldest = Infinity;
    for (const { name, id, seal } of segments) {
      const segment = new WaitingSegment(directory, id, seal, name);
      try {
        await survey(files, segment);
      } catch (error) {
        // Finished meanwhile.
        if (errorCode(error) === 'ENOENT') continue;
        throw error;
      }
      waiting += segment.unread.events;
      waitingBytes += segment.unread.bytes;
      if (segment.unread.events > 0) oldest = Math.min(oldest, segment.firstCapturedAt ?? Infinity);
    }
    const at = Number.isFinite(oldest) ? new Date(oldest).toISOString() : undefined;
    return { segments: segments.length, waiting, waitingBytes, oldest: at };
  } catch (error) {
    if (!(error instanceof SpoolKeyWrong)) throw error;
    const segments = (await files.list(directory)).filter((name) => name.endsWith('.segment')).length;
    return { segments, waiting: undefined, waitingBytes: undefined, oldest: undefined };
  }
}

async function pathsIn(files: SpoolFiles, directory: string): Promise<string[]> {
  try {
    return (await files.list(directory)).map((name) => path.join(directory, name));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

async function measure(files: SpoolFiles, file: string): Promise<{ bytes: number; lines: number }> {
  const fd = await files.open(file, 'read');
  try {
    const piece = Buffer.alloc(PIECE_BYTES);
    let [bytes, lines] = [0, 0];
    for (let got = -1; got !== 0; bytes += got) {
      got = await files.read(fd, piece, bytes);
      for (const byte of piece.subarray(0, got)) if (byte === NEWLINE) lines++;
    }
    return { bytes, lines };
  } finally {
    await files.close(fd);
  }
}
