/** Whether every byte of a spool is what was written; nothing is changed, and nobody is held up. */
import path from 'node:path';
import { examine } from './adoption.js';
import { DamagedBytes } from './damaged-bytes.js';
import { FrameCount, missingWords } from './frame-count.js';
import { nodeFiles, type SpoolFiles } from './files.js';
import { partsOf } from './inspection.js';
import { Neighbours } from './process-directory.js';
import { quarantinedLines, quarantineFiles } from './quarantined.js';
import { walk } from './segment-walk.js';
import { WaitingSegment } from './waiting-segment.js';

interface SpoolFinding {
  /** Of the file or directory that it is about. */
  readonly path: string;
  readonly message: string;
}

export interface VerifiedSpool {
  readonly segments: number;
  /** Events whose frames hold, and how many of them are done. */
  readonly events: number;
  readonly done: number;
  /** Events in quarantine, and how many of them the key does not open. */
  readonly quarantined: number;
  readonly sealed: number;
  readonly findings: readonly SpoolFinding[];
}

type Sums = { -readonly [K in keyof VerifiedSpool]: VerifiedSpool[K] } & {
  readonly findings: SpoolFinding[];
};

/**
 * Reads all of it.
 * @throws SpoolKeyWrong when the key does not open all segments; the errors of the file system, but for those of reading
 * a segment, which are findings.
 */
export async function verifySpool(
  directory: string,
  key: Uint8Array | undefined,
  files: SpoolFiles = nodeFiles,
): Promise<VerifiedSpool> {
  const root = path.resolve(directory);
  const sums: Sums = { segments: 0, events: 0, done: 0, quarantined: 0, sealed: 0, findings: [] };
  for (const part of await partsOf(root, files)) {
    const examined = await examine(files, part, key);
    for (const { path: at, why } of examined.unfit) sums.findings.push({ path: at, message: `it ${why}` });
    for (const { name, id, seal, damagedHeader } of examined.segments) {
      const segment = new WaitingSegment(part, id, seal, name);
      if (damagedHeader) sums.findings.push({ path: segment.path, message: 'its header is damaged' });
      await verifySegment(files, root, part, segment, sums);
    }
  }
  for (const file of await quarantineFiles(files, root)) {
    for await (const { event, offset, size } of quarantinedLines(files, file, key)) {
      if (event === undefined) {
        const message = `${size} bytes at ${offset} are no line of a quarantine`;
        sums.findings.push({ path: file, message });
      } else sums.quarantined++;
      if (event === 'sealed') sums.sealed++;
    }
  }
  for (const { path: at, bytes, missing } of await new DamagedBytes(files, root).all()) {
    const message =
      missing === undefined
        ? `${bytes} bytes that were no event when they were read, and are kept here`
        : `events were missing when their segment was read: ${missing}`;
    sums.findings.push({ path: at, message });
  }
  return sums;
}

async function verifySegment(
  files: SpoolFiles,
  root: string,
  part: string,
  segment: WaitingSegment,
  sums: Sums,
): Promise<void> {
  const count = new FrameCount();
  const lost: { message: string; atEnd: boolean }[] = [];
  const walked = await walk(files, segment, (found, done) => {
    if (!found.frame) {
      const message = `${found.size} bytes at ${found.offset} are no whole frame`;
      const torn = ', nor is what is behind them: damage, or what a crash in the middle of a write leaves';
      lost.push({ message: message + (found.atEnd ? torn : ''), atEnd: found.atEnd });
      return;
    }
    count.meet(found, done);
  });
  if (!walked) return;
  sums.segments++;
  sums.events += count.events;
  sums.done += count.done;
  const tell = (message: string) => sums.findings.push({ path: segment.path, message });
  // The end of a segment that is being written may be half of a frame.
  const held = lost.at(-1)?.atEnd === true && (await isHeld(files, root, part));
  for (const { message, atEnd } of lost) if (!(atEnd && held)) tell(message);
  if (count.missing > 0) tell(missingWords(count.missing, count.promised));
  if (walked.unreadable !== undefined) tell('some of it cannot be read');
}

async function isHeld(files: SpoolFiles, root: string, part: string): Promise<boolean> {
  return !(await new Neighbours(files, root, () => undefined).abandoned()).includes(part);
}
