/** Segments on their way into a back-up, and as one holds them. Goes when a back-up is a data directory. */
import path from 'node:path';
import { nodeFiles } from '../../files.js';
import type { StoredEntry } from '../store.js';
import { decodeFrame, frameIsOwn, frameReceivedAt } from './frame.js';
import { readFrames, readToEnd, segmentPieces, type SegmentEnd } from './log-frames.js';
import { damagedAt, listSegments, SEGMENT_HEADER_BYTES, type Segment } from './segment.js';

export interface CopiedLog {
  readonly ledgerId: string;
  readonly events: number;
  readonly entries: number;
  readonly lastReceivedAt: number | undefined;
  readonly segments: readonly {
    readonly file: string;
    readonly bytes: number;
    readonly pieces: () => Generator<Uint8Array>;
  }[];
}

/**
 * The log as far as it can be read. On return all of it is on stable storage. It is read once more when it is copied, so
 * that a batch that a failed write took back in between is noticed.
 * @param signed how many entries a checkpoint was signed over.
 * @returns undefined when there is no log.
 * @throws StoreDamaged
 */
export function copiedLog(dataDir: string, signed: number): CopiedLog | undefined {
  const segments = listSegments(nodeFiles, path.join(dataDir, 'ledger'));
  const last = segments.at(-1);
  if (last === undefined) return undefined;
  const { end, own, lastReceivedAt } = endOf(segments, last, signed);
  return {
    ...{ ledgerId: last.ledgerId, events: end.nextSequence - 1 - own, entries: end.nextSequence - 1 },
    lastReceivedAt,
    segments: segments.map((segment, i) => {
      const next = segments[i + 1];
      const until = next?.base ?? end.address;
      return {
        file: `ledger/${path.basename(segment.path)}`,
        bytes: until - segment.base + SEGMENT_HEADER_BYTES,
        pieces: () => segmentPieces(nodeFiles, segment, next, until),
      };
    }),
  };
}

function endOf(
  segments: readonly Segment[],
  last: Segment,
  signed: number,
): { end: SegmentEnd; own: number; lastReceivedAt: number | undefined } {
  let lastReceivedAt: number | undefined;
  // A last segment that has just been begun is empty.
  const newest = segments.slice(-2);
  let own = newest[0]?.ownBefore ?? 0;
  const blocks = readToEnd(nodeFiles, newest);
  let next = blocks.next();
  for (; !next.done; next = blocks.next()) {
    const { buffer, offsets } = next.value;
    for (const offset of offsets) {
      if (frameIsOwn(buffer, offset)) own++;
      else lastReceivedAt = frameReceivedAt(buffer, offset);
    }
  }
  const end = next.value;
  if (end.nextSequence <= signed) {
    const reason = `the log ends, but a checkpoint was signed over ${signed} entries,`;
    throw damagedAt(last.path, end.offset, end.nextSequence, reason);
  }
  // A batch that was written may not be on stable storage yet. If a power loss took it from the log, a back-up that holds
  // it would be of another log from there on.
  const fd = nodeFiles.open(last.path, 'r');
  try {
    nodeFiles.datasync(fd);
  } finally {
    nodeFiles.close(fd);
  }
  return { end, own, lastReceivedAt };
}

/**
 * The entries of a log that was copied, valid until the next.
 * @param isCopied whether a file belongs to it, by its name in the data directory.
 * @throws StoreDamaged
 */
export function* entriesOfCopy(
  directory: string,
  isCopied: (file: string) => boolean,
): Generator<StoredEntry, void> {
  const segments = listSegments(nodeFiles, path.join(directory, 'ledger'), (name) =>
    isCopied(`ledger/${name}`),
  );
  for (const { buffer, offset } of readFrames(nodeFiles, segments)) yield decodeFrame(buffer, offset);
}
