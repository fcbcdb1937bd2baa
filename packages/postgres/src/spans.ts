/** Reads the batches of a log that have a place, and their rows, in order. */
import { bytesIn, numberIn } from './binary.js';
import type { BinaryRow, ReadingConnection } from './connection.js';
import type { SealedBatch } from './seal.js';
import { sql } from './sql.js';

/** Limits of one query. */
const MOST_ENTRIES = 2048;
const MOST_BYTES = 4 << 20;
const MOST_SPANS = 512;
const WHOLE = 0x7fffffff;

/** A batch that has a place: sequences `first` to `first + entries - 1`. */
export interface Span extends SealedBatch {
  readonly first: number;
  readonly entries: number;
  readonly bytes: number;
}

type Reader = Pick<ReadingConnection, 'copy'>;

/** The batches from the one that holds sequence `from`; empty if the log ends before it. */
export async function spansFrom(connection: Reader, from: number, last: number): Promise<Span[]> {
  return (await connection.copy(sql('spans', { from, last, most: MOST_SPANS }))).map(spanIn);
}

function spanIn([first, lane, batch, entries, bytes, ...sealed]: BinaryRow): Span {
  const [candidates, leaves, repeats = null, seal = null] = sealed;
  return {
    ...{ first: numberIn(first), lane: numberIn(lane), batch: numberIn(batch) },
    ...{ entries: numberIn(entries), bytes: numberIn(bytes), candidates: numberIn(candidates) },
    ...{ leaves: bytesIn(leaves), repeats, seal },
  };
}

/** Groups of spans that one query can read. */
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

/** Lanes and batches of a group, for a query by COPY. */
export function batchesOf(group: readonly Pick<Span, 'lane' | 'batch'>[]) {
  return { lanes: group.map(({ lane }) => lane), batches: group.map(({ batch }) => batch) };
}

/**
 * @param bytes limits the bytes of each payload that are read.
 * @returns number of the batch in the group from 1, place in the batch, payload state, envelope, payload; in
 *   order.
 */
export function rowsOf(
  connection: Reader,
  group: readonly Span[],
  bytes = WHOLE,
): Promise<readonly BinaryRow[]> {
  return connection.copy(sql('rows', { ...batchesOf(group), bytes }));
}
