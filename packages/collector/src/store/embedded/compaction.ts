/**
 * Finds segments with encrypted bytes of erased events, and compacts them one by one. A segment must be
 * compacted if an erasure names events of it and its last compaction is older (compacted-segment.ts). This
 * follows from the log alone, so a start continues an interrupted compaction.
 */
import path from 'node:path';
import { assertFree, type Files, nodeFiles } from '../../files.js';
import { type Actions, eventsOf } from '../../privacy/actions.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { compactionsOf, compactSegment, expanding, segmentFiles } from './compacted-segment.js';
import { listSegments, type Segment, sizeOf } from './segment.js';

/** An entry of an erasure, and the events that it names. */
export interface Erasure {
  readonly sequence: number;
  readonly entryId: string;
  readonly erased: SequenceSet;
}

/** The erasures in the order of the log. */
export function erasuresIn({ logged }: Actions): Erasure[] {
  return logged.flatMap(({ sequence, entryId, said }) =>
    said.does === 'erase' ? [{ sequence, entryId, erased: eventsOf(said.keys) }] : [],
  );
}

/** A closed segment, and the one after it. */
type Ended = readonly [segment: Segment, next: Segment];

function dueSegments(files: Files, dataDir: string, erasures: readonly Erasure[], all: SequenceSet): Ended[] {
  const segments = listSegments(expanding(files), path.join(dataDir, 'ledger'));
  const byEntry = new Map(erasures.map(({ sequence, entryId }) => [sequence, entryId]));
  return segments.flatMap((segment, i) => {
    const next = segments[i + 1];
    if (next === undefined || !all.meets(segment.firstSequence, next.firstSequence)) return [];
    // A restored log may have lost the erasures of a compaction and assigned their sequences to other
    // entries.
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
  /** Called when a segment stays unchanged; the others are compacted. */
  readonly onTrouble: (error: unknown) => void;
}

/**
 * Compacts all closed segments with encrypted bytes of erased events, and reports those that it could not
 * compact. A collector may write and others may read at the same time, but only one process may compact.
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
      // Space for this file and the next segment: a disk filled by a compaction would refuse events.
      await assertFree(path.dirname(segment.path), 2 * sizeOf(files, segment.path));
      await compactSegment(files, segment, next, removal, pause);
    } catch (error) {
      onTrouble(error);
    }
  }
}

/**
 * Time at which the last segment with events of an erasure was compacted, in ms since 1970; undefined if no
 * segment was compacted.
 */
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
