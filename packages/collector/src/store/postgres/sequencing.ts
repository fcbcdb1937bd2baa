/**
 * Gives committed batches their place in the one order of the log. About once a second each collector tries; the one
 * that gets the lock of the row in `heads` does it, and the lock ends with its transaction, or with its connection. What
 * was committed is found lane by lane, without a gap: the batch behind the last one that has a place. A batch gets its
 * place by when it was committed, and one of a lane always behind those before it.
 */
import { int2Array, int4Array, int8Array } from './binary.js';
import type { Connection, TextRow } from './connection.js';

/** A lane has a batch and not the one before it: someone has deleted or changed rows. Nothing is sequenced any more. */
export class LaneBroken extends Error {
  override name = 'LaneBroken';
}

/** What the log holds that has its place. */
export interface Sequenced {
  readonly entries: number;
  readonly ownEntries: number;
  readonly bytes: number;
}

const MOST_OF_A_LANE = 256;
const LOCK = 'SELECT size, own_entries, bytes FROM heads FOR UPDATE SKIP LOCKED';
const COMMITTED = `
SELECT l.lane, d.done, b.batch, b.entries, b.own, b.bytes, b.closes
FROM lanes l LEFT JOIN lane_closures c USING (lane)
CROSS JOIN LATERAL (SELECT coalesce(
  (SELECT s.batch FROM sequenced s WHERE s.lane = l.lane ORDER BY s.batch DESC LIMIT 1), 0) AS done) d
CROSS JOIN LATERAL (SELECT batch, committed_at, entries, own, bytes, closes FROM batches b
  WHERE b.lane = l.lane AND b.batch > d.done ORDER BY batch LIMIT ${MOST_OF_A_LANE}) b
WHERE c.lane IS NULL
ORDER BY max(b.committed_at) OVER (PARTITION BY l.lane ORDER BY b.batch), l.lane, b.batch`;
const PLACES = `
INSERT INTO sequenced (lane, batch, first_sequence, entries)
SELECT * FROM unnest($1::int[], $2::int[], $3::bigint[], $4::smallint[])`;
const CLOSED = 'INSERT INTO lane_closures (lane) SELECT unnest($1::int[]) ON CONFLICT DO NOTHING';
const ADVANCE = `
UPDATE heads SET size = $2, own_entries = $3, bytes = $4, advanced_at = clock_timestamp() WHERE size = $1`;

/**
 * One try. On return everything that was committed and seen has its place, durably and replicated as the server said.
 * @returns what has its place now; undefined when another collector is at it.
 * @throws LaneBroken, Refused, Lost.
 */
export async function sequence(connection: Connection): Promise<Sequenced | undefined> {
  return connection.transaction(async () => {
    const [head] = (await connection.query(LOCK)).rows;
    if (head === undefined) return undefined;
    const [size = 0, own = 0, bytes = 0] = head.map(Number);
    const found = (await connection.query(COMMITTED)).rows.map(committedIn);
    const before: Sequenced = { entries: size, ownEntries: own, bytes };
    if (found.length === 0) return before;
    assertWhole(found);
    const after = await place(connection, found, before);
    const values = [size, after.entries, after.ownEntries, after.bytes];
    const { count } = await connection.query(ADVANCE, values);
    if (count !== 1) throw new LaneBroken('the head of the log was moved by another hand');
    return after;
  });
}

interface CommittedBatch {
  readonly lane: number;
  readonly done: number;
  readonly batch: number;
  readonly entries: number;
  readonly own: number;
  readonly bytes: number;
  readonly closes: boolean;
}

function committedIn([lane, done, batch, entries, own, bytes, closes]: TextRow): CommittedBatch {
  return {
    ...{ lane: Number(lane), done: Number(done), batch: Number(batch), entries: Number(entries) },
    ...{ own: Number(own), bytes: Number(bytes), closes: closes === 't' },
  };
}

function assertWhole(found: readonly CommittedBatch[]): void {
  const last = new Map<number, number>();
  for (const { lane, done, batch } of found) {
    const before = last.get(lane) ?? done;
    if (batch !== before + 1) throw new LaneBroken(`batch ${before + 1} of lane ${lane} is gone`);
    last.set(lane, batch);
  }
}

async function place(
  connection: Connection,
  found: readonly CommittedBatch[],
  before: Sequenced,
): Promise<Sequenced> {
  let { entries, ownEntries, bytes } = before;
  const firsts: number[] = [];
  for (const each of found) {
    firsts.push(entries + 1);
    entries += each.entries;
    ownEntries += each.own;
    bytes += each.bytes;
  }
  await connection.query(PLACES, [
    int4Array(found.map(({ lane }) => lane)),
    int4Array(found.map(({ batch }) => batch)),
    int8Array(firsts),
    int2Array(found.map(({ entries: count }) => count)),
  ]);
  const closing = found.filter(({ closes }) => closes).map(({ lane }) => lane);
  if (closing.length > 0) await connection.query(CLOSED, [int4Array(closing)]);
  return { entries, ownEntries, bytes };
}
