/**
 * Gives committed batches their place in the one order of the log. About once a second each collector tries; the one
 * that gets the lock of the row in `heads` does it, and the lock ends with its transaction, or with its connection. What
 * was committed is found lane by lane, without a gap: the batch behind the last one that has a place. A batch gets its
 * place by when it was committed, and one of a lane always behind those before it.
 */
import { bytesIn, int2Array, int4Array, int8Array, numberIn } from './binary.js';
import { type BinaryRow, type Connection, Lost, weaknessOf } from './connection.js';
import type { ClockStep, SteppingClock } from '@clinical-events/collector/clock';
import type { Sequenced } from '@clinical-events/collector/store/contract/driver';
import type { SharedGauges } from '@clinical-events/collector/store/contract/events';
import type { LogRow } from './schema.js';
import { isSealed, type SealedBatch, type SealKey } from './seal.js';

/**
 * A lane has a batch and not the one before it, or one that no collector has sealed: someone has deleted, changed or
 * added rows. Nothing is sequenced any more.
 */
export class LaneBroken extends Error {
  override name = 'LaneBroken';
}

const SEEN = `
WITH before AS (SELECT seen_at FROM collectors WHERE collector_id = $1::uuid FOR UPDATE),
now AS (UPDATE collectors SET seen_at = clock_timestamp() WHERE collector_id = $1::uuid)
SELECT seen_at > clock_timestamp() - interval '1 minute', extract(epoch FROM clock_timestamp()) * 1000 FROM before`;
/** Behind the last batch of each lane whose collector was not seen for an hour. */
const CLOSE_ABANDONED = `
INSERT INTO batches (lane, batch, candidates, entries, leaves, closes)
SELECT l.lane, coalesce(b.batch, 0) + 1, 0, 0, '', true
FROM open_lanes o
CROSS JOIN LATERAL (SELECT * FROM lanes WHERE lane = o.lane OFFSET 0) l
CROSS JOIN LATERAL (SELECT * FROM collectors WHERE collector_id = l.collector_id OFFSET 0) c
LEFT JOIN LATERAL (SELECT batch, closes FROM batches WHERE lane = o.lane ORDER BY batch DESC LIMIT 1) b ON true
WHERE c.seen_at < clock_timestamp() - interval '1 hour' AND b.closes IS NOT TRUE
ON CONFLICT DO NOTHING`;

/** In milliseconds: of a time that somebody has made up too, which the subtraction may refuse. */
export const ageMs = (at: string) => `
  greatest(0, extract(epoch FROM clock_timestamp() - greatest(least(${at}, clock_timestamp()),
    clock_timestamp() - interval '20 days')) * 1000)::int`;

/** Whether a row of `sequenced`, s, is of a batch, and its numbers are given out: any other is somebody else's. */
export const IS_PLACE = `(s.entries = 0 OR s.first_sequence + s.entries - 1 <= (SELECT size FROM heads))
  AND s.entries = (SELECT entries FROM batches WHERE lane = s.lane AND batch = s.batch)`;

/** Batches without a place, the age of the oldest in milliseconds, and the coming months that have tables. */
export const WAITING = `
SELECT count(b.batch), coalesce(${ageMs('min(b.committed_at)')}, 0),
  (SELECT count(*) FROM periods WHERE begins > date_trunc('month', clock_timestamp()))
FROM open_lanes l
CROSS JOIN LATERAL (SELECT coalesce(
  (SELECT s.batch FROM sequenced s WHERE s.lane = l.lane AND ${IS_PLACE} ORDER BY s.batch DESC LIMIT 1), 0) AS done) d
CROSS JOIN LATERAL (SELECT * FROM batches b WHERE b.lane = l.lane AND b.batch > d.done OFFSET 0) b`;

/**
 * To be called every few seconds. On return this collector was seen, and the lanes of those that are gone for an hour
 * have their closing batch. One that only stood still finds its lane closed, and goes on in another. Where the clock of
 * the server has jumped, or this collector stood still itself, no lane is closed this time.
 * @returns how the clock of the server was set, if it was.
 */
export async function lookAfterLanes(
  connection: Pick<Connection, 'query'>,
  collectorId: string,
  clock: SteppingClock,
  gauges?: SharedGauges,
): Promise<ClockStep | undefined> {
  const asked = performance.now();
  const { rows } = await connection.query(SEEN, [collectorId]);
  const [isSeen, now] = rows[0] ?? [];
  const step = now ? clock.read(Number(now), asked, performance.now()) : undefined;
  if (isSeen === 't') await connection.query(CLOSE_ABANDONED);
  if (gauges !== undefined) await lookAtWaiting(connection, gauges);
  return step;
}

/** @returns the age of the oldest batch without a place, in milliseconds. */
export async function lookAtWaiting(
  connection: Pick<Connection, 'query'>,
  gauges: SharedGauges,
): Promise<number> {
  const [waiting = []] = (await connection.query(WAITING)).rows;
  const [batches = 0, oldestMs = 0, months = 0] = waiting.map(Number);
  gauges.waits(batches, oldestMs, months);
  return oldestMs;
}

const MOST_OF_A_LANE = 256;
const READ_MS = 10_000;
const LOCK = 'SELECT size, own_entries, bytes FROM heads FOR UPDATE SKIP LOCKED';
const COMMITTED = `
SELECT l.lane, d.done, b.batch, b.entries, b.own, b.bytes, b.closes, b.candidates, b.leaves, b.repeats, b.seal,
  ${ageMs('b.committed_at')}
FROM open_lanes l
CROSS JOIN LATERAL (SELECT coalesce(
  (SELECT s.batch FROM sequenced s WHERE s.lane = l.lane AND ${IS_PLACE} ORDER BY s.batch DESC LIMIT 1), 0) AS done) d
CROSS JOIN LATERAL (SELECT * FROM batches b
  WHERE b.lane = l.lane AND b.batch > d.done ORDER BY batch LIMIT ${MOST_OF_A_LANE}) b
ORDER BY max(b.committed_at) OVER (PARTITION BY l.lane ORDER BY b.batch), l.lane, b.batch`;
const PLACES = `
INSERT INTO sequenced (lane, batch, first_sequence, entries)
SELECT * FROM unnest($1::int[], $2::int[], $3::bigint[], $4::smallint[])`;
const CLOSED = 'SELECT close_lanes($1::int[])';
const ADVANCE = `
UPDATE heads SET size = $2, own_entries = $3, bytes = $4, advanced_at = clock_timestamp() WHERE size = $1`;

const REPLICATION = `
SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
  current_setting('client_min_messages')`;

/** Of one connection, or of one that is opened when it is needed. */
type Transactions = Pick<Connection, 'query'> & {
  transaction<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result>;
};

/**
 * One try. On return everything that was committed and seen has its place, durably and as the log demands it
 * replicated.
 * @returns what has its place now; undefined when another collector is at it.
 * @throws LaneBroken, Refused, Lost.
 */
export async function sequence(
  connection: Transactions,
  sealKey: SealKey,
  durability: LogRow['durability'] = 'local',
): Promise<Sequenced | undefined> {
  const sequenced = await arrange(connection, sealKey);
  if (sequenced !== undefined && durability === 'replicated') {
    const [[names, commit, messages] = []] = (await connection.query(REPLICATION)).rows;
    const weakness = weaknessOf(commit, messages);
    if (weakness !== undefined) throw new Lost(weakness);
    if (names === '') throw new Lost('synchronous_standby_names is empty: nothing is replicated');
  }
  return sequenced;
}

function arrange(transactions: Transactions, sealKey: SealKey): Promise<Sequenced | undefined> {
  return transactions.transaction(async (connection) => {
    const [head] = (await connection.query(LOCK)).rows;
    if (head === undefined) return undefined;
    const [size = 0, own = 0, bytes = 0] = head.map(Number);
    const found = (await connection.copy(COMMITTED, READ_MS)).map(committedIn);
    const before: Sequenced = { entries: size, ownEntries: own, bytes };
    if (found.length === 0) return before;
    assertWhole(found, sealKey);
    const after = await place(connection, found, before);
    const values = [size, after.entries, after.ownEntries, after.bytes];
    const { count } = await connection.query(ADVANCE, values);
    if (count !== 1) throw new LaneBroken('the head of the log was moved by another hand');
    return { ...after, agesMs: found.filter((each) => each.entries > 0).map(({ ageMs }) => ageMs) };
  });
}

interface CommittedBatch extends SealedBatch {
  readonly done: number;
  readonly entries: number;
  readonly own: number;
  readonly bytes: number;
  readonly closes: boolean;
  readonly ageMs: number;
}

function committedIn([lane, done, batch, entries, own, bytes, closes, ...sealed]: BinaryRow): CommittedBatch {
  const [candidates, leaves, repeats = null, seal = null, age] = sealed;
  const count = numberIn(entries);
  // One without entries has no seal to say what it holds.
  const [ownEntries, size] = count > 0 ? [numberIn(own), numberIn(bytes)] : [0, 0];
  return {
    ...{ lane: numberIn(lane), done: numberIn(done), batch: numberIn(batch), entries: count },
    ...{ own: ownEntries, bytes: size, closes: numberIn(closes) === 1 },
    ...{ candidates: numberIn(candidates), leaves: bytesIn(leaves), repeats, seal, ageMs: numberIn(age) },
  };
}

/** @throws LaneBroken */
export function assertSealed(sealKey: SealKey, sealed: SealedBatch): void {
  if (isSealed(sealKey, sealed)) return;
  const { lane, batch } = sealed;
  throw new LaneBroken(`batch ${batch} of lane ${lane} is not as a collector of this log has sealed it`);
}

function assertWhole(found: readonly CommittedBatch[], sealKey: SealKey): void {
  const last = new Map<number, number>();
  for (const each of found) {
    const { lane, done, batch, entries } = each;
    const before = last.get(lane) ?? done;
    if (batch !== before + 1) throw new LaneBroken(`batch ${before + 1} of lane ${lane} is gone`);
    if (entries > 0) assertSealed(sealKey, each);
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
