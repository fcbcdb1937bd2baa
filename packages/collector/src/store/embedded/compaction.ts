/**
 * Which segments have encrypted bytes of erased events, and their removal, one segment after the other. It follows from the
 * log and its segments, so that a start continues what was cut off: a segment is due while an erasure names events of it and
 * no compaction of it is as new (compacted-segment.ts).
 */
import path from 'node:path';
import { assertFree, type Files, nodeFiles } from '../../files.js';
import { type Actions, eventsOf } from '../../privacy/actions.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { compactionsOf, compactSegment, expanding, segmentFiles } from './compacted-segment.js';
import { listSegments, type Segment, sizeOf } from './segment.js';

/** What an erasure names, and the entry of the log that orders it. */
export interface Erasure {
  readonly sequence: number;
  readonly entryId: string;
  readonly erased: SequenceSet;
}

/** In the order of the log. */
export function erasuresIn({ logged }: Actions): Erasure[] {
  return logged.flatMap(({ sequence, entryId, said }) =>
    said.does === 'erase' ? [{ sequence, entryId, erased: eventsOf(said.keys) }] : [],
  );
}

/** A segment that is not written to any more, and the one after it. */
type Ended = readonly [segment: Segment, next: Segment];

function dueSegments(files: Files, dataDir: string, erasures: readonly Erasure[], all: SequenceSet): Ended[] {
  const segments = listSegments(expanding(files), path.join(dataDir, 'ledger'));
  const byEntry = new Map(erasures.map(({ sequence, entryId }) => [sequence, entryId]));
  return segments.flatMap((segment, i) => {
    const next = segments[i + 1];
    if (next === undefined || !all.meets(segment.firstSequence, next.firstSequence)) return [];
    // A restored log may have lost the erasures of a compaction, and have given their numbers to others.
    const isKnown = ({ through, entryId }: { through: number; entryId: string }) =>
      byEntry.get(through) === entryId;
    const { through = 0 } = compactionsOf(files, segment.path).findLast(isKnown) ?? {};
    const isDue = erasures.some(
      ({ sequence, erased }) => sequence > through && erased.meets(segment.firstSequence, next.firstSequence),
    );
    return isDue ? [[segment, next] as const] : [];
  });
}

export interface CompactionOptions {
  readonly files?: Files;
  /** See compactSegment. */
  readonly pause?: () => Promise<void>;
  /** A segment stays as it was; the others are compacted. */
  readonly onTrouble: (error: unknown) => void;
}

/**
 * On return no segment but the one that is written to has encrypted bytes of erased events, except those of which trouble
 * was reported. A collector may write beside it, and others read; no two may compact at a time.
 */
export async function compactLog(
  dataDir: string,
  erasures: readonly Erasure[],
  { files = nodeFiles, pause = () => Promise.resolve(), onTrouble }: CompactionOptions,
): Promise<void> {
  const newest = erasures.at(-1);
  if (newest === undefined) return;
  const erased = SequenceSet.union(erasures.map((each) => each.erased));
  const removal = { erased, newest: { through: newest.sequence, entryId: newest.entryId } };
  for (const [segment, next] of dueSegments(files, dataDir, erasures, erased)) {
    try {
      // For this and the next segment of the log: a disk that a compaction has filled would refuse events.
      await assertFree(path.dirname(segment.path), 2 * sizeOf(files, segment.path));
      await compactSegment(files, segment, next, removal, pause);
    } catch (error) {
      onTrouble(error);
    }
  }
}

/** When the last of the segments was compacted that an erasure names events of, in ms since 1970; undefined without one. */
export function compactedAt(
  dataDir: string,
  { sequence, erased }: Omit<Erasure, 'entryId'>,
): number | undefined {
  const segments = listSegments(segmentFiles, path.join(dataDir, 'ledger'));
  const times = segments.flatMap(({ path: file, firstSequence }, i) => {
    const isTouched = erased.meets(firstSequence, segments[i + 1]?.firstSequence ?? Infinity);
    const compactions = isTouched ? compactionsOf(nodeFiles, file) : [];
    return compactions.find(({ through }) => through >= sequence)?.at ?? [];
  });
  return times.length === 0 ? undefined : Math.max(...times);
}
