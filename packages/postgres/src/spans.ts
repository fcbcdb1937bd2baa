/** Batches that have a place: how readers go through a log in a database. */
import { bytesIn, numberIn } from './binary.js';
import type { BinaryRow } from './connection.js';
import type { SealedBatch } from './seal.js';

/** Read with one query, at most. */
const MOST_ENTRIES = 2048;
const MOST_BYTES = 4 << 20;
const MOST_SPANS = 512;

export interface Span extends SealedBatch {
  readonly first: number;
  readonly entries: number;
  readonly bytes: number;
}

/** Batches that have a place, from the one that holds a sequence on; none where the log ends before it. */
export const spansOf = (from: number, last: number) => `
SELECT s.first_sequence, s.lane, s.batch, s.entries, b.bytes, b.candidates, b.leaves, b.repeats, b.seal
FROM (SELECT * FROM sequenced WHERE entries > 0 AND first_sequence <= ${last} AND first_sequence >= coalesce(
    (SELECT max(first_sequence) FROM sequenced WHERE entries > 0 AND first_sequence <= ${from}), 1)
    AND first_sequence + entries > ${from}
  ORDER BY first_sequence LIMIT ${MOST_SPANS}) s
CROSS JOIN LATERAL (SELECT * FROM batches WHERE lane = s.lane AND batch = s.batch OFFSET 0) b
ORDER BY s.first_sequence`;

export function spanIn([first, lane, batch, entries, bytes, ...sealed]: BinaryRow): Span {
  const [candidates, leaves, repeats = null, seal = null] = sealed;
  return {
    ...{ first: numberIn(first), lane: numberIn(lane), batch: numberIn(batch) },
    ...{ entries: numberIn(entries), bytes: numberIn(bytes), candidates: numberIn(candidates) },
    ...{ leaves: bytesIn(leaves), repeats, seal },
  };
}

/** Of a size that is read with one query. */
export function* groupsOf(spans: readonly Span[]): Generator<readonly Span[]> {
  let group: Span[] = [];
  let [entries, bytes] = [0, 0];
  for (const span of spans) {
    if (group.length > 0 && (entries + span.entries > MOST_ENTRIES || bytes + span.bytes > MOST_BYTES)) {
      yield group;
      [group, entries, bytes] = [[], 0, 0];
    }
    group.push(span);
    entries += span.entries;
    bytes += span.bytes;
  }
  if (group.length > 0) yield group;
}

/** The numbers of lanes or batches, as an array in SQL. */
export function list(group: readonly Pick<Span, 'lane' | 'batch'>[], of: 'lane' | 'batch'): string {
  return `'{${group.map((span) => span[of]).join()}}'`;
}
